/* One of several programs of a job: its argument is its number. */
#include "check.h"

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int *number, flag;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &flag);
    CHECK(argc == 2 && flag && *number == atoi(argv[1]));
    if (rank == 0) printf("%d ranks\n", size);
    return end();
}
