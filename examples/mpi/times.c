// How long messages and collectives of all ranks take, a line each: in the usual form, the same
// buffers again, and, of what has one answer, in the fresh form, from the buffer that was received
// into. Medians of blocks: `mpiexec ... ./times [BLOCKS] [MILLISECONDS OF A BLOCK] [multiple]`; with
// the last word at MPI_THREAD_MULTIPLE. Runs on any MPI library, on one host or several.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { LARGEST = 1 << 20, WINDOW = 64 };

static int rank, size, next, previous, blocks;
static double seconds;
static char *out, *in;
static MPI_Comm comm;
static MPI_Datatype type;

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

// One element of a derived type there and back.
static void one_way_typed(int bytes) {
    int far = size / 2;
    (void)bytes;
    if (rank == 0) {
        MPI_Send(out, 1, type, far, 0, MPI_COMM_WORLD);
        MPI_Recv(in, 1, type, far, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == far) {
        MPI_Recv(in, 1, type, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(out, 1, type, 0, 0, MPI_COMM_WORLD);
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
    MPI_Barrier(comm);
}

static void allreduce(int bytes) {
    MPI_Allreduce(out, in, bytes / 8, MPI_DOUBLE, MPI_SUM, comm);
}

static void broadcast(int bytes) { MPI_Bcast(out, bytes, MPI_BYTE, 0, MPI_COMM_WORLD); }

static void allgather(int bytes) {
    MPI_Allgather(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void alltoall(int bytes) {
    MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
}

enum { BLOCKS = 8192, CUBE = 64 };

// Blocks of 8 bytes, every other one.
static void vector(void) { MPI_Type_vector(BLOCKS, 1, 2, MPI_DOUBLE, &type); }

// As many, at distances of one to three.
static void indexed(void) {
    static int displacements[BLOCKS];
    for (int i = 1, at = 0; i < BLOCKS; i++) displacements[i] = at += 1 + i * 7 % 3;
    MPI_Type_create_indexed_block(BLOCKS, 1, displacements, MPI_DOUBLE, &type);
}

// A face of a cube across this dimension: 0 is one block, 1 rows, 2 single elements.
static void face(int across) {
    int sizes[3] = {CUBE, CUBE, CUBE}, subsizes[3] = {CUBE, CUBE, CUBE}, starts[3] = {0, 0, 0};
    subsizes[across] = 1;
    MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
}

static void rows_of_cube(void) { face(1); }
static void elements_of_cube(void) { face(2); }

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
static double median(void (*body)(int), int bytes) {
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

// One line: of an operation that makes so many of what is asked for.
static void tell(const char *name, void (*body)(int), int bytes, double share) {
    double usual = median(body, bytes) / share;
    if (rank == 0) printf("%-24s %8d B %10.2f us", name, bytes, usual);
    if (body == one_way || body == one_way_typed) {
        char *received = in;
        in = out;
        double fresh = median(body, bytes) / share;
        in = received;
        if (rank == 0) printf(" %10.2f us", fresh);
    }
    if (rank == 0) printf("\n");
}

int main(int argc, char **argv) {
    int level = argc > 3 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, provided;
    MPI_Init_thread(&argc, &argv, level, &provided);
    if (provided < level) MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    next = (rank + 1) % size, previous = (rank + size - 1) % size;
    blocks = argc > 1 ? atoi(argv[1]) : 11;
    seconds = (argc > 2 ? atof(argv[2]) : 30) / 1e3;
    out = calloc(size + 1, LARGEST), in = calloc(size + 1, LARGEST);
    comm = MPI_COMM_WORLD;
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
    struct { const char *name; void (*make)(void); int bytes; } derived[] = {
        {"one way, vector", vector, 8 * BLOCKS}, {"one way, indexed", indexed, 8 * BLOCKS},
        {"one way, rows of a cube", rows_of_cube, 8 * CUBE * CUBE},
        {"one way, elements of it", elements_of_cube, 8 * CUBE * CUBE},
    };
    if (rank == 0) printf("%-24s %10s %13s %13s\n", "", "", "usual", "fresh");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        tell(rows[i].name, rows[i].body, rows[i].bytes, rows[i].share);
    for (size_t i = 0; i < sizeof derived / sizeof *derived; i++) {
        derived[i].make();
        MPI_Type_commit(&type);
        tell(derived[i].name, one_way_typed, derived[i].bytes, 2);
        MPI_Type_free(&type);
    }
    MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &comm);
    tell("after split, barrier", barrier, 0, 1);
    tell("after split, allreduce", allreduce, 8, 1);
    MPI_Comm_free(&comm);
    MPI_Finalize();
}
