/* Collectives of types with gaps, of blocks longer than a packet: between ranks of which some have
 * gaps and some have not, and without a copy of the data beside. */
#define _DEFAULT_SOURCE
#include <sys/resource.h>

#include "forms.h"

enum { MOST = 16 };

/* Doubles, each of which takes so many places. */
static MPI_Datatype spread(int stride) {
    MPI_Datatype type;
    MPI_Type_create_resized(MPI_DOUBLE, 0, stride * (MPI_Aint)sizeof(double), &type);
    MPI_Type_commit(&type);
    return type;
}

static double value(int from, int to, long at) { return from * 1e6 + to * 1e4 + (double)(at % 997); }

/* A buffer of blocks, of elements with gaps between them. */
struct side {
    int stride;
    long length;
    MPI_Datatype type;
    double *data;
};

static struct side side(int stride, long length) {
    struct side it = {stride, length, spread(stride), calloc((size_t)(stride * length * size), 8)};
    for (long at = 0; at < stride * length * size; at++) it.data[at] = -1;
    return it;
}

static void end_side(struct side *it) {
    free(it->data);
    MPI_Type_free(&it->type);
}

/* Where a block begins. */
static double *block(const struct side *it, int which) {
    return it->data + which * it->length * it->stride;
}

static void fill(struct side *it, int which, int from, int to, long count) {
    for (long at = 0; at < count; at++) block(it, which)[at * it->stride] = value(from, to, at);
}

/* A block has come, and nothing beside it. */
static void came(const struct side *it, int which, int from, int to, long count) {
    for (long at = 0; at < it->length; at++) {
        const double *place = block(it, which) + at * it->stride;
        if (at < count) CHECK(*place == value(from, to, at));
        else CHECK(*place == -1);
        for (int gap = 1; gap < it->stride; gap++) CHECK(place[gap] == -1);
    }
}

/* Strides of this rank: with gaps at one end, at both or at none. */
static int stride_out(int mode) { return 1 + (rank + mode) % 3; }
static int stride_in(int mode) { return 1 + (rank / 2 + mode) % 2; }

static void rooted(int mode, int root, long length) {
    int in_place = mode % 2 && rank == root, n = (int)length;
    struct side out = side(stride_out(mode), length), into = side(stride_in(mode), length);
    fill(&out, 0, rank, 0, length);
    if (in_place) fill(&into, root, rank, 0, length);
    CALL(Gather, in_place ? MPI_IN_PLACE : (void *)out.data, n, out.type, into.data, n, into.type,
         root);
    for (int from = 0; rank == root && from < size; from++) came(&into, from, from, 0, length);
    end_side(&into);
    into = side(stride_in(mode), length);
    for (int to = 0; to < size; to++) fill(&out, to, root, to, length);
    CALL(Scatter, out.data, n, out.type, in_place ? MPI_IN_PLACE : (void *)into.data, n, into.type,
         root);
    if (!in_place) came(&into, 0, root, rank, length);
    end_side(&out), end_side(&into);
}

/* Blocks of all lengths up to the longest, in reverse order. */
static void rooted_v(int mode, int root, long length) {
    struct side out = side(stride_out(mode), length), into = side(stride_in(mode), length);
    int counts[MOST], places[MOST], mine = (int)(length * (rank + 1) / size);
    for (int at = 0; at < size; at++) {
        counts[at] = (int)(length * (at + 1) / size);
        places[at] = (int)length * (size - 1 - at);
    }
    fill(&out, 0, rank, 1, mine);
    CALL(Gatherv, out.data, mine, out.type, into.data, counts, places, into.type, root);
    for (int from = 0; rank == root && from < size; from++)
        came(&into, size - 1 - from, from, 1, counts[from]);
    end_side(&into);
    into = side(stride_in(mode), length);
    for (int to = 0; to < size; to++) fill(&out, size - 1 - to, root, to, counts[to]);
    CALL(Scatterv, out.data, counts, places, out.type, into.data, mine, into.type, root);
    came(&into, 0, root, rank, mine);
    end_side(&out), end_side(&into);
}

static void of_all(int mode, long length) {
    struct side out = side(stride_out(mode), length), into = side(stride_in(mode), length);
    int sends[MOST], receives[MOST], from_at[MOST], to_at[MOST], n = (int)length;
    for (int to = 0; to < size; to++) fill(&out, to, rank, to, length);
    CALL(Alltoall, out.data, n, out.type, into.data, n, into.type);
    for (int from = 0; from < size; from++) came(&into, from, from, rank, length);
    end_side(&into);
    into = side(stride_in(mode), length);
    for (int at = 0; at < size; at++) {
        sends[at] = (int)(length * ((rank + 2 * at) % 3) / 2);
        receives[at] = (int)(length * ((at + 2 * rank) % 3) / 2);
        from_at[at] = to_at[at] = at * n;
    }
    CALL(Alltoallv, out.data, sends, from_at, out.type, into.data, receives, to_at, into.type);
    for (int from = 0; from < size; from++) came(&into, from, from, rank, receives[from]);
    end_side(&into);
    into = side(stride_in(mode), length);
    MPI_Datatype outs[MOST], ins[MOST];
    for (int at = 0; at < size; at++) {
        outs[at] = out.type, ins[at] = into.type;
        from_at[at] *= out.stride * 8, to_at[at] *= into.stride * 8;
    }
    CALL(Alltoallw, out.data, sends, from_at, outs, into.data, receives, to_at, ins);
    for (int from = 0; from < size; from++) came(&into, from, from, rank, receives[from]);
    end_side(&out), end_side(&into);
}

static void to_all(int mode, int root, long length) {
    int in_place = mode == 1, n = (int)length, counts[MOST], places[MOST];
    /* MPICH's pieces of an allgatherv depend on the extent, so ranks have to have the same. */
    int stride = is_hikyaku() ? stride_in(mode) : 2;
    struct side out = side(stride_out(mode), length), into = side(stride_in(mode), length);
    if (rank == root) fill(&out, 0, root, 2, length);
    CALL(Bcast, out.data, n, out.type, root);
    came(&out, 0, root, 2, length);
    fill(&out, 0, rank, 3, length);
    if (in_place) fill(&into, rank, rank, 3, length);
    CALL(Allgather, in_place ? MPI_IN_PLACE : (void *)out.data, n, out.type, into.data, n,
         into.type);
    for (int from = 0; from < size; from++) came(&into, from, from, 3, length);
    end_side(&into);
    into = side(stride, length);
    for (int at = 0; at < size; at++) {
        counts[at] = (int)(length * (at + 1) / size);
        places[at] = (int)length * (mode ? size - 1 - at : at);
    }
    int own = places[rank] / n;
    if (in_place) fill(&into, own, rank, 3, counts[rank]);
    CALL(Allgatherv, in_place ? MPI_IN_PLACE : (void *)out.data, counts[rank], out.type, into.data,
         counts, places, into.type);
    for (int from = 0; from < size; from++) came(&into, places[from] / n, from, 3, counts[from]);
    end_side(&into);
    into = side(stride, length);
    for (int at = 0, next = 0; at < size; next += counts[at++]) places[at] = next;
    fill(&out, 0, rank, 4, counts[rank]);
    CALL(Allgatherv, out.data, counts[rank], out.type, into.data, counts, places, into.type);
    for (int from = 0; from < size; from++) {
        const double *place = into.data + (long)places[from] * into.stride;
        for (long at = 0; at < counts[from]; at++, place += into.stride) {
            CHECK(*place == value(from, 4, at));
            for (int gap = 1; gap < into.stride; gap++) CHECK(place[gap] == -1);
        }
    }
    end_side(&out), end_side(&into);
}

/* What comes takes the place of what goes, which is as long. */
static void in_place(int mode, long length) {
    struct side both = side(stride_out(mode), length);
    int counts[MOST], places[MOST], n = (int)length;
    MPI_Datatype types[MOST];
    for (int to = 0; to < size; to++) fill(&both, to, rank, to, length);
    CALL(Alltoall, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, both.data, n, both.type);
    for (int from = 0; from < size; from++) came(&both, from, from, rank, length);
    for (int with_types = 0; with_types < 2; with_types++) {
        end_side(&both);
        both = side(stride_out(mode), length);
        for (int at = 0; at < size; at++) {
            counts[at] = (int)(length * ((rank + at) % 3) / 2);
            places[at] = at * n * (with_types ? both.stride * 8 : 1);
            types[at] = both.type;
            fill(&both, at, rank, at, counts[at]);
        }
        if (with_types)
            CALL(Alltoallw, MPI_IN_PLACE, NULL, NULL, NULL, both.data, counts, places, types);
        else
            CALL(Alltoallv, MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, both.data, counts, places,
                 both.type);
        for (int from = 0; from < size; from++) came(&both, from, from, rank, counts[from]);
    }
    end_side(&both);
}

/* A function of the program's: elements lie as their type says. */
static void add(void *in, void *inout, int *count, MPI_Datatype *type) {
    MPI_Aint low, extent;
    MPI_Type_get_extent(*type, &low, &extent);
    for (int at = 0; at < *count; at++)
        *(double *)((char *)inout + at * extent) += *(double *)((char *)in + at * extent);
}

/* The sum of the first blocks of some ranks has come. */
static void summed(const struct side *it, int which, int ranks, long count) {
    for (long at = 0; at < it->length; at++) {
        double sum = 0;
        const double *place = block(it, which) + at * it->stride;
        for (int from = 0; from < ranks; from++) sum += value(from, 5, at);
        CHECK(*place == (at < count ? sum : -1));
        for (int gap = 1; gap < it->stride; gap++) CHECK(place[gap] == -1);
    }
}

static void reduced(int mode, int root, long length) {
    /* MPICH wants one type at all ranks here. */
    struct side out = side(is_hikyaku() ? stride_out(mode) : 2, length);
    struct side into = side(out.stride, length);
    int in_place = mode == 1, n = (int)length, counts[MOST];
    void *const there = MPI_IN_PLACE;
    MPI_Op op;
    MPI_Op_create(add, mode != 2, &op);
    fill(&out, 0, rank, 5, length);
    if (in_place) fill(&into, 0, rank, 5, length);
    CALL(Allreduce, in_place ? there : out.data, into.data, n, out.type, op);
    summed(&into, 0, size, length);
    if (in_place) fill(&into, 0, rank, 5, length);
    CALL(Reduce, in_place && rank == root ? there : out.data, into.data, n, out.type, op, root);
    if (rank == root) summed(&into, 0, size, length);
    if (in_place) fill(&into, 0, rank, 5, length);
    CALL(Scan, in_place ? there : out.data, into.data, n, out.type, op);
    summed(&into, 0, rank + 1, length);
    if (in_place) fill(&into, 0, rank, 5, length);
    CALL(Exscan, in_place ? there : out.data, into.data, n, out.type, op);
    if (rank > 0) summed(&into, 0, rank, length);
    end_side(&into);
    into = side(out.stride, length);
    for (int to = 0; to < size; to++) fill(&out, to, rank, 5, length), counts[to] = n;
    /* MPICH 5.0.2 ends here with a corrupted heap, at any power of two of ranks. */
    if (is_hikyaku()) {
        CALL(Reduce_scatter_block, out.data, into.data, n, out.type, op);
        summed(&into, 0, size, length);
        CALL(Reduce_scatter, out.data, into.data, counts, out.type, op);
        summed(&into, 0, size, length);
    }
    MPI_Op_free(&op);
    end_side(&out), end_side(&into);
}

/* Resident memory at its most, KiB; `anew`: from now on. */
static long peak(int anew) {
    struct rusage usage;
    FILE *file = anew ? fopen("/proc/self/clear_refs", "w") : NULL;
    if (file) fputs("5", file), fclose(file);
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

static void is_little(long more) {
    if (!is_hikyaku() || more <= 16 << 10) return;
    fprintf(stderr, "rank %d: %ld KiB beside blocks of 32 MiB\n", rank, more);
    MPI_Abort(MPI_COMM_WORLD, 9);
}

/* Blocks of 32 MiB with gaps, with a few MiB beside: the peak of a rank is that of its own memory. */
static void without_a_copy(void) {
    const long length = 1 << 22;
    const int n = 1 << 22;
    struct side out = side(2, length), into = side(2, length);
    int counts[MOST], places[MOST], nowhere[MOST];
    MPI_Datatype types[MOST];
    for (int at = 0; at < size; at++) counts[at] = n, places[at] = at * n;
    for (int at = 0; at < size; at++) nowhere[at] = at * n * 16;
    for (int to = 0; to < size; to++) fill(&out, to, rank, to, length);
    MPI_Barrier(comm);
    const long before = peak(1);
    CALL(Gather, out.data, n, out.type, into.data, n, into.type, 0);
    CALL(Gatherv, out.data, n, out.type, into.data, counts, places, into.type, 1);
    CALL(Scatter, out.data, n, out.type, into.data, n, into.type, 0);
    CALL(Scatterv, out.data, counts, places, out.type, into.data, n, into.type, 1);
    CALL(Alltoallv, out.data, counts, places, out.type, into.data, counts, places, into.type);
    CALL(Bcast, into.data, n, into.type, 1);
    CALL(Allgather, out.data, n, out.type, into.data, n, into.type);
    CALL(Allgatherv, out.data, n, out.type, into.data, counts, places, into.type);
    for (int to = 0; to < size; to++) types[to] = into.type, fill(&into, to, to, rank, length);
    CALL(Alltoall, MPI_IN_PLACE, n, out.type, into.data, n, into.type);
    CALL(Alltoallv, MPI_IN_PLACE, NULL, NULL, out.type, into.data, counts, places, into.type);
    CALL(Alltoallw, MPI_IN_PLACE, NULL, NULL, NULL, into.data, counts, nowhere, types);
    CALL(Alltoall, out.data, n, out.type, into.data, n, into.type);
    const long more = peak(0) - before;
    for (int from = 0; from < size; from++) came(&into, from, from, rank, length);
    is_little(more);
    end_side(&out), end_side(&into);
}

/* The same of reductions of ranks that share memory. */
static void reduced_without_a_copy(void) {
    const long length = 1 << 22;
    const int n = 1 << 22;
    struct side out = side(2, length), into = side(2, length);
    struct { double value; int at; } *pairs = calloc(length, sizeof *pairs);
    for (long at = 0; at < length; at++) pairs[at].value = rank, pairs[at].at = rank + 1;
    fill(&out, 0, rank, 5, length);
    MPI_Op op;
    MPI_Op_create(add, 1, &op);
    MPI_Comm near;
    int together;
    MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near);
    MPI_Comm_size(near, &together);
    MPI_Barrier(comm);
    const long before = peak(1);
    CALL(Allreduce, out.data, into.data, n, into.type, op);
    CALL(Allreduce, MPI_IN_PLACE, pairs, n, MPI_DOUBLE_INT, MPI_MAXLOC);
    const long more = peak(0) - before;
    summed(&into, 0, size, length);
    for (long at = 0; at < length; at++) CHECK(pairs[at].value == 1 && pairs[at].at == 2);
    if (together == size) is_little(more);
    MPI_Comm_free(&near);
    MPI_Op_free(&op);
    free(pairs);
    end_side(&out), end_side(&into);
}

/* Data that begin at one address, of two types: a half of a matrix goes into the other half. */
enum { ROWS = 96 };
static int matrix[ROWS][2 * ROWS];

static void fill_left(void) {
    for (int at = 0; at < ROWS; at++)
        for (int column = 0; column < 2 * ROWS; column++)
            matrix[at][column] = column < ROWS ? 1000 * rank + at * ROWS + column : -1;
}

static void is_on_the_right(void) {
    for (int at = 0; at < ROWS; at++)
        for (int column = 0; column < ROWS; column++)
            EQUAL(matrix[at][ROWS + column], 1000 * rank + at * ROWS + column);
}

static void at_one_address(void) {
    MPI_Datatype halves[2], outs[MOST], ins[MOST];
    int sizes[2] = {ROWS, 2 * ROWS}, part[2] = {ROWS, ROWS}, counts[MOST] = {0}, places[MOST] = {0};
    for (int half = 0; half < 2; half++) {
        MPI_Type_create_subarray(2, sizes, part, (int[]){0, half * ROWS}, MPI_ORDER_C, MPI_INT,
                                 &halves[half]);
        MPI_Type_commit(&halves[half]);
    }
    for (int at = 0; at < size; at++) outs[at] = halves[0], ins[at] = halves[1];
    counts[rank] = 1;
    fill_left();
    CALL(Alltoallw, matrix, counts, places, outs, matrix, counts, places, ins);
    is_on_the_right();
    comm = MPI_COMM_SELF;
    int one = 1, zero = 0;
    fill_left();
    CALL(Gatherv, matrix, 1, halves[0], matrix, &one, &zero, halves[1], 0);
    is_on_the_right();
    fill_left();
    CALL(Scatterv, matrix, &one, &zero, halves[0], matrix, 1, halves[1], 0);
    is_on_the_right();
    fill_left();
    CALL(Allgather, matrix, 1, halves[0], matrix, 1, halves[1]);
    is_on_the_right();
    comm = MPI_COMM_WORLD;
    MPI_Type_free(&halves[0]);
    MPI_Type_free(&halves[1]);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    comm = MPI_COMM_WORLD;
    for (form = 0; form < 3; form++) at_one_address();
    const long lengths[] = {1025, 9001};
    for (form = 0; form < 3; form++)
        for (int mode = 0; mode < 3; mode++)
            for (int at = 0; at < 2; at++) {
                rooted(mode, mode % size, lengths[at]);
                rooted_v(mode, (size - 1 + mode) % size, lengths[at]);
                of_all(mode, lengths[at]);
                to_all(mode, (mode + 1) % size, lengths[at]);
                in_place(mode, lengths[at]);
                reduced(mode, (mode + 2) % size, lengths[at]);
            }
    for (form = 0; form < 2 && size == 2; form++) reduced_without_a_copy();
    for (form = 0; form < 2 && size == 2; form++) without_a_copy();
    return end();
}
