/* MPI_Sendrecv to a rank that has died: its receive does not stay. The message that comes later is
 * the next receive's, and nothing is written into the memory of the one before. */
#define _DEFAULT_SOURCE
#include "check.h"
#include <signal.h>

enum { COUNT = 4 };

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(size == 3);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int out[COUNT] = {7, 7, 7, 7}, into[COUNT];
    if (rank == 2) raise(SIGKILL);
    if (rank == 1) {
        MPI_Recv(into, 0, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(out, COUNT, MPI_INT, 0, 1, MPI_COMM_WORLD);
    } else {
        /* With gaps: what is received lies beside its memory first. */
        MPI_Datatype gaps;
        MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &gaps);
        MPI_Type_commit(&gaps);
        int abandoned[2 * COUNT], code;
        memset(abandoned, 0x55, sizeof abandoned);
        /* It is known to be dead. */
        CLASS(MPI_Recv(into, 1, MPI_INT, 2, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
              MPI_ERR_PROC_ABORTED);
        for (int way = 0; way < 2; way++) {
            code = MPI_Sendrecv(out, COUNT, MPI_INT, 2, 1, abandoned, COUNT, way ? gaps : MPI_INT, 1,
                                1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CLASS(code, MPI_ERR_PROC_ABORTED);
        }
        MPI_Send(out, 0, MPI_INT, 1, 2, MPI_COMM_WORLD);
        MPI_Recv(into, COUNT, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int at = 0; at < COUNT; at++) EQUAL(into[at], 7);
        for (int at = 0; at < 2 * COUNT; at++) EQUAL(abandoned[at], 0x55555555);
        MPI_Type_free(&gaps);
        printf("told\n");
        fflush(stdout);
    }
    return 0;
}
