/* MPI and shared variables in one program: every rank adds its number to a shared array, and MPI
 * says when all have.
 *
 *   mpicc shared.c -o shared && hikyaku run -n 4 -- ./shared
 *
 * Both are the same rank. MPI_Init and hikyaku_init may come in any order, and so may their ends. */

#include <hikyaku.h>
#include <mpi.h>
#include <stdio.h>

static void check(int code) {
    if (code < 0) {
        fprintf(stderr, "shared: %s\n", hikyaku_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    check(hikyaku_init());
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    const uint64_t one = 1;
    void *data;
    hikyaku_shared sum;
    check(hikyaku_shared_create("sum", HIKYAKU_INT64, 1, &one, NULL, &sum));
    check(hikyaku_write_begin(sum, 0, HIKYAKU_WAIT, &data, NULL));
    *(int64_t *)data += rank;
    check(hikyaku_end(sum, 0));
    MPI_Barrier(MPI_COMM_WORLD);

    const void *seen;
    check(hikyaku_read_begin(sum, 0, HIKYAKU_WAIT, &seen, NULL));
    int is_right = *(const int64_t *)seen == (int64_t)size * (size - 1) / 2;
    if (rank == 0) printf("%d ranks, sum %d\n", size, (int)*(const int64_t *)seen);
    check(hikyaku_end(sum, 0));
    check(hikyaku_finalize());
    MPI_Finalize();
    return !is_right;
}
