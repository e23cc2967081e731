/* A neighbour of a persistent exchange dies: a wait or a test returns an error. The argument selects
 * the call. */
#include "check.h"
#include <signal.h>

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm comm;
    int dims[] = {size}, periods[] = {1}, out[2] = {0}, into[2], done = 0;
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Request kept;
    MPI_Neighbor_alltoall_init(out, 1, MPI_INT, into, 1, MPI_INT, comm, MPI_INFO_NULL, &kept);
    for (int round = 0; round < 3; round++) {
        MPI_Start(&kept);
        EQUAL(MPI_Wait(&kept, MPI_STATUS_IGNORE), MPI_SUCCESS);
    }
    if (rank == 1) raise(SIGKILL);
    int code = MPI_Start(&kept);
    CHECK(argc == 2);
    if (strcmp(argv[1], "wait") == 0)
        code = MPI_Wait(&kept, MPI_STATUS_IGNORE);
    else
        while (code == MPI_SUCCESS && !done) code = MPI_Test(&kept, &done, MPI_STATUS_IGNORE);
    CLASS(code, MPI_ERR_PROC_ABORTED);
    printf("told\n");
    fflush(stdout);
    return 0;
}
