/* A communicator that cannot be made is MPI_COMM_NULL, as MPICH has it: programs look. */
#include "../check.h"

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm made = MPI_COMM_WORLD;
    int dims[] = {size, 2}, periods[] = {0, 0}, index[] = {1}, edges[] = {0};
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &made) != MPI_SUCCESS);
    CHECK(made == MPI_COMM_NULL);
    if (is_hikyaku()) {
        /* MPICH looks before it writes. */
        made = MPI_COMM_WORLD;
        index[0] = -1;
        CHECK(MPI_Graph_create(MPI_COMM_WORLD, 1, index, edges, 0, &made) != MPI_SUCCESS);
        CHECK(made == MPI_COMM_NULL);
    }
    return end();
}
