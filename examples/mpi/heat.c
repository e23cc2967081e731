/* The heat equation on a plate, as a plain MPI program: a hot square in the middle, a cold frame.
 *
 *   mpicc -O2 heat.c -o heat && hikyaku run -n 4 -- ./heat 500
 *
 * The rows are divided among the ranks; each step a rank gets the rows beside its own from its
 * neighbours. Rank 0 computes the plate alone as well and compares the two bit by bit. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 256 }; /* rows and columns, with the frame */

static double at_start(int row, int column) {
    int is_hot = row >= N / 3 && row < N * 2 / 3 && column >= N / 3 && column < N * 2 / 3;
    return is_hot ? 100.0 : 0.0;
}

/* One step: rows 1 to `rows` of `next` from `now`, which has a row before and after. */
static void step(const double *now, double *next, int rows) {
    for (int row = 1; row <= rows; row++) {
        const double *here = now + row * N;
        for (int column = 1; column < N - 1; column++) {
            double around = here[column - N] + here[column + N] + here[column - 1] + here[column + 1];
            next[row * N + column] = here[column] + 0.2 * (around - 4 * here[column]);
        }
    }
}

/* The plate's rows `first` to `first + rows`, and one beside each end. */
static double *new_rows(int first, int rows) {
    double *all = calloc((size_t)(rows + 2) * N, sizeof *all);
    for (int row = 0; row < rows; row++)
        for (int column = 0; column < N; column++)
            all[(row + 1) * N + column] = at_start(first + row, column);
    return all;
}

static void swap(double **one, double **other) {
    double *kept = *one;
    *one = *other;
    *other = kept;
}

int main(int argc, char **argv) {
    int rank, size, steps = argc > 1 ? atoi(argv[1]) : 200;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    /* The frame, rows 0 and N - 1, belongs to no rank. */
    int inner = N - 2, rows = inner / size + (rank < inner % size);
    int first = 1 + rank * (inner / size) + (rank < inner % size ? rank : inner % size);
    int above = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    int below = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
    double *now = new_rows(first, rows), *next = new_rows(first, rows);

    double begin = MPI_Wtime();
    for (int turn = 0; turn < steps; turn++) {
        MPI_Request requests[4];
        MPI_Irecv(now, N, MPI_DOUBLE, above, 0, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(now + (rows + 1) * N, N, MPI_DOUBLE, below, 1, MPI_COMM_WORLD, &requests[1]);
        MPI_Isend(now + N, N, MPI_DOUBLE, above, 1, MPI_COMM_WORLD, &requests[2]);
        MPI_Isend(now + rows * N, N, MPI_DOUBLE, below, 0, MPI_COMM_WORLD, &requests[3]);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        step(now, next, rows);
        swap(&now, &next);
    }
    double seconds = MPI_Wtime() - begin;

    /* All rows to rank 0. */
    int *counts = malloc(sizeof *counts * (size_t)size), *places = malloc(sizeof *places * (size_t)size);
    int count = rows * N, place = first * N;
    MPI_Gather(&count, 1, MPI_INT, counts, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Gather(&place, 1, MPI_INT, places, 1, MPI_INT, 0, MPI_COMM_WORLD);
    double *plate = rank == 0 ? new_rows(0, N) + N : NULL;
    MPI_Gatherv(now + N, count, MPI_DOUBLE, plate, counts, places, MPI_DOUBLE, 0, MPI_COMM_WORLD);

    int differs = 0;
    if (rank == 0) {
        double *alone = new_rows(0, N) + N, *then = new_rows(0, N) + N;
        for (int turn = 0; turn < steps; turn++) {
            step(alone, then, N - 2);
            swap(&alone, &then);
        }
        differs = memcmp(alone, plate, sizeof *plate * N * N) != 0;
        printf("heat: %.9f in the middle after %d steps, %s\n", plate[N / 2 * N + N / 2], steps,
               differs ? "which is not the serial answer" : "the serial answer bit by bit");
        fprintf(stderr, "heat: %d ranks, %.3f ms\n", size, seconds * 1e3);
    }
    MPI_Finalize();
    return differs;
}
