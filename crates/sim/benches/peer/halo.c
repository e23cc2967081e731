/* A 3-D halo exchange on 8 x 8 x 16 ranks for SimGrid's SMPI, as speed.rs does it. */
#include <mpi.h>
#include <stdlib.h>

enum { BYTES = 8192 };
static const int sizes[3] = {8, 8, 16};

static int neighbour(int rank, int d, int up)
{
    int stride = 1;
    for (int lower = 0; lower < d; lower++)
        stride *= sizes[lower];
    int at = rank / stride % sizes[d];
    int next = (at + (up ? 1 : sizes[d] - 1)) % sizes[d];
    return rank - at * stride + next * stride;
}

int main(int argc, char **argv)
{
    static char out[BYTES], in[6][BYTES];
    int rank, steps = argc > 1 ? atoi(argv[1]) : 1;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int step = 0; step < steps; step++) {
        MPI_Request requests[12];
        for (int i = 0; i < 6; i++)
            MPI_Irecv(in[i], BYTES, MPI_BYTE, neighbour(rank, i / 2, !(i & 1)), i, MPI_COMM_WORLD,
                      &requests[i]);
        for (int i = 0; i < 6; i++)
            MPI_Isend(out, BYTES, MPI_BYTE, neighbour(rank, i / 2, i & 1), i, MPI_COMM_WORLD,
                      &requests[6 + i]);
        MPI_Waitall(12, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
