// How long messages and collectives of all ranks take, a line each, in the usual form: the same
// buffers again. Medians of blocks: `mpiexec ... ./times [BLOCKS] [MILLISECONDS OF A BLOCK]`. Runs on
// any MPI library, on one host or several.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { LARGEST = 1 << 20, WINDOW = 64 };

static int rank, size, next, previous;
static char *out, *in;

static void one_way(int bytes) {
    int far = size / 2;
    if (rank == 0) {
        MPI_Send(out, bytes, MPI_BYTE, far, 0, MPI_COMM_WORLD);
        MPI_Recv(in, bytes, MPI_BYTE, far, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == far) {
        MPI_Recv(in, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(out, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
}

static void window(int bytes) {
    int far = size / 2;
    MPI_Request all[WINDOW];
    if (rank == 0) {
        for (int i = 0; i < WINDOW; i++)
            MPI_Isend(out, bytes, MPI_BYTE, far, 0, MPI_COMM_WORLD, &all[i]);
        MPI_Waitall(WINDOW, all, MPI_STATUSES_IGNORE);
        MPI_Recv(in, 0, MPI_BYTE, far, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == far) {
        for (int i = 0; i < WINDOW; i++)
            MPI_Irecv(in + i * bytes, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &all[i]);
        MPI_Waitall(WINDOW, all, MPI_STATUSES_IGNORE);
        MPI_Send(out, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
}

static void halo(int bytes) {
    MPI_Request all[4];
    MPI_Irecv(in, bytes, MPI_BYTE, previous, 0, MPI_COMM_WORLD, &all[0]);
    MPI_Irecv(in + bytes, bytes, MPI_BYTE, next, 1, MPI_COMM_WORLD, &all[1]);
    MPI_Isend(out, bytes, MPI_BYTE, next, 0, MPI_COMM_WORLD, &all[2]);
    MPI_Isend(out + bytes, bytes, MPI_BYTE, previous, 1, MPI_COMM_WORLD, &all[3]);
    MPI_Waitall(4, all, MPI_STATUSES_IGNORE);
}

static void barrier(int bytes) {
    (void)bytes;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void allreduce(int bytes) {
    MPI_Allreduce(out, in, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void broadcast(int bytes) { MPI_Bcast(out, bytes, MPI_BYTE, 0, MPI_COMM_WORLD); }

static void allgather(int bytes) {
    MPI_Allgather(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void alltoall(int bytes) {
    MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Seconds that so many repetitions take.
static double timed(void (*body)(int), int bytes, int repetitions) {
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < repetitions; i++) body(bytes);
    return MPI_Wtime() - start;
}

// The median of the blocks, in microseconds a repetition. Rank 0's clock says how many fill a block.
static double median(void (*body)(int), int bytes, int blocks, double seconds) {
    double *times = malloc(blocks * sizeof *times), took = 0;
    int repetitions = 0;
    while (took < seconds) {
        repetitions = repetitions ? 2 * repetitions : 1;
        took = timed(body, bytes, repetitions);
        MPI_Bcast(&took, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    }
    for (int block = 0; block < blocks; block++)
        times[block] = timed(body, bytes, repetitions) / repetitions * 1e6;
    qsort(times, blocks, sizeof *times, ascending);
    double result = times[blocks / 2];
    free(times);
    return result;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    next = (rank + 1) % size, previous = (rank + size - 1) % size;
    int blocks = argc > 1 ? atoi(argv[1]) : 11;
    double seconds = (argc > 2 ? atof(argv[2]) : 30) / 1e3;
    out = calloc(size + 1, LARGEST), in = calloc(size + 1, LARGEST);
    // An operation, its bytes a rank, and how many of what is asked for it makes.
    struct { const char *name; void (*body)(int); int bytes; double share; } rows[] = {
        {"one way", one_way, 8, 2}, {"one way", one_way, 1024, 2}, {"one way", one_way, 65536, 2},
        {"one way", one_way, 1048576, 2}, {"window of 64, a message", window, 8, WINDOW},
        {"halo by requests", halo, 8, 1}, {"halo by requests", halo, 1024, 1},
        {"halo by requests", halo, 65536, 1}, {"barrier", barrier, 0, 1},
        {"allreduce", allreduce, 8, 1}, {"allreduce", allreduce, 8192, 1},
        {"allreduce", allreduce, 1048576, 1}, {"broadcast", broadcast, 8, 1},
        {"allgather", allgather, 8, 1}, {"alltoall", alltoall, 8, 1},
        {"alltoall", alltoall, 8192, 1}, {"alltoall", alltoall, 262144, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double time = median(rows[i].body, rows[i].bytes, blocks, seconds) / rows[i].share;
        if (rank == 0) printf("%-24s %8d B %10.2f us\n", rows[i].name, rows[i].bytes, time);
    }
    MPI_Finalize();
}
