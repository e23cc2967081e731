/* 17 sends, and much that the library does by messages of its own. */
#include "check.h"

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int got, sum, all[64];
    MPI_Request request;
    MPI_Comm twin;
    for (int turn = 0; turn < 17; turn++) {
        MPI_Irecv(&got, 1, MPI_INT, left(), turn, MPI_COMM_WORLD, &request);
        MPI_Send(&turn, 1, MPI_INT, right(), turn, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        EQUAL(got, turn);
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, twin);
    EQUAL(sum, size * (size - 1) / 2);
    MPI_Alltoall(all, 0, MPI_INT, all, 0, MPI_INT, twin);
    MPI_Ssend(&rank, 1, MPI_INT, MPI_PROC_NULL, 0, twin);
    MPI_Sendrecv(&rank, 1, MPI_INT, right(), 0, &got, 1, MPI_INT, left(), 0, twin,
                 MPI_STATUS_IGNORE);
    EQUAL(got, left());
    MPI_Isend(&rank, 1, MPI_INT, right(), 1, twin, &request);
    MPI_Recv(&got, 1, MPI_INT, left(), 1, twin, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_free(&twin);
    return end();
}
