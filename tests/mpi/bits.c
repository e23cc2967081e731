/* Every collective operation, blocking, nonblocking and persistent, and a digest of what came of it:
 * the words are operations and lengths, each a list with commas, as tests/jobs/bits.txt has them. Values
 * and digests are those of tests/jobs/src/bits.rs. */
#include "check.h"

#include <inttypes.h>
#include <math.h>

enum { MOST = 8, BLOCKING = 0, STARTED, PERSISTENT, FORMS };

static const char *const forms[FORMS] = {"blocking", "started", "persistent"};

static uint64_t mix(uint64_t word) {
    word = (word ^ (word >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    word = (word ^ (word >> 27)) * UINT64_C(0x94d049bb133111eb);
    return word ^ (word >> 31);
}

/* The word of a place of this rank. */
static uint64_t word_of(size_t place) {
    return (((uint64_t)rank << 40) + place + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

static double *zeros(size_t length) {
    double *values = calloc(length + 1, sizeof *values);
    CHECK(values != NULL);
    return values;
}

/* What this rank gives. */
static double *mine(size_t length) {
    double *values = zeros(length);
    for (size_t place = 0; place < length; place++) {
        uint64_t word = mix(word_of(place));
        double mantissa = (double)((int64_t)(word >> 11) - (INT64_C(1) << 52));
        values[place] = ldexp(mantissa, (int)(word & 63) - 32);
    }
    return values;
}

static uint64_t digest_of(const double *result, size_t length) {
    uint64_t digest = 0;
    for (size_t place = 0; place < length; place++) {
        uint64_t bits;
        memcpy(&bits, &result[place], sizeof bits);
        digest += mix(bits ^ word_of(place));
    }
    return digest;
}

/* Parts one after the other: their lengths, and where they begin. */
struct parts {
    int count, sum, lengths[MOST], starts[MOST];
};

static void add(struct parts *parts, int length) {
    CHECK(parts->count < MOST);
    parts->lengths[parts->count] = length;
    parts->starts[parts->count++] = parts->sum;
    parts->sum += length;
}

/* Those of all ranks: each is longer by one than that before it; or, of two ranks, both as long. */
static struct parts rising(int first) {
    struct parts parts = {0};
    for (int other = 0; other < size; other++) add(&parts, first + other);
    return parts;
}

/* The same for MPI_Alltoallw, with gaps between elements. */
struct spread {
    int ones[MOST], bytes[MOST];
    MPI_Aint places[MOST];
    MPI_Datatype types[MOST];
};

static struct spread spread(const struct parts *parts, int stride) {
    struct spread spread = {0};
    for (int at = 0; at < parts->count; at++) {
        spread.ones[at] = 1;
        spread.bytes[at] = parts->starts[at] * stride * (int)sizeof(double);
        spread.places[at] = spread.bytes[at];
        MPI_Type_vector(parts->lengths[at], 1, stride, MPI_DOUBLE, &spread.types[at]);
        MPI_Type_commit(&spread.types[at]);
    }
    return spread;
}

static void free_spread(struct spread *spread, int count) {
    for (int at = 0; at < count; at++) MPI_Type_free(&spread->types[at]);
}

/* Calls an operation in a form: the arguments are those that all forms have. */
#define CALL(form, Name, name, ...)                                          \
    do {                                                                     \
        MPI_Request request = MPI_REQUEST_NULL;                              \
        if (form == BLOCKING) {                                              \
            MPI_##Name(__VA_ARGS__);                                         \
        } else if (form == STARTED) {                                        \
            MPI_I##name(__VA_ARGS__, &request);                              \
            MPI_Wait(&request, MPI_STATUS_IGNORE);                           \
        } else {                                                             \
            MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, &request);         \
            MPI_Start(&request);                                             \
            MPI_Wait(&request, MPI_STATUS_IGNORE);                           \
            MPI_Request_free(&request);                                      \
        }                                                                    \
    } while (0)

#define IS(what) (strcmp(operation, what) == 0)

static uint64_t reduction(const char *operation, int form, int n) {
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Datatype type = MPI_DOUBLE;
    struct parts counts = rising(n);
    int all = IS("reduce_scatter") ? counts.sum : IS("reduce_scatter_block") ? size * n : n;
    int root = size - 1, come = n;
    double *data = mine(all), *into = zeros(all);
    if (IS("reduce")) {
        CALL(form, Reduce, reduce, data, into, n, type, MPI_SUM, root, comm);
        come = rank == root ? n : 0;
    } else if (IS("allreduce")) {
        CALL(form, Allreduce, allreduce, data, into, n, type, MPI_SUM, comm);
    } else if (IS("reduce_scatter")) {
        CALL(form, Reduce_scatter, reduce_scatter, data, into, counts.lengths, type, MPI_SUM, comm);
        come = counts.lengths[rank];
    } else if (IS("reduce_scatter_block")) {
        CALL(form, Reduce_scatter_block, reduce_scatter_block, data, into, n, type, MPI_SUM, comm);
    } else if (IS("scan")) {
        CALL(form, Scan, scan, data, into, n, type, MPI_SUM, comm);
    } else {
        CHECK(IS("exscan"));
        /* Of rank 0 the standard says nothing: Rust leaves what is there. */
        if (rank == 0) memcpy(into, data, n * sizeof *into);
        CALL(form, Exscan, exscan, data, into, n, type, MPI_SUM, comm);
    }
    uint64_t digest = digest_of(into, come);
    free(data);
    free(into);
    return digest;
}

/* Operations with a root, which is the last rank, and those that bring all to all. */
static uint64_t gathering(const char *operation, int form, int n) {
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Datatype type = MPI_DOUBLE;
    struct parts parts = rising(n);
    int is_uneven = operation[strlen(operation) - 1] == 'v', all = is_uneven ? parts.sum : size * n;
    int own = is_uneven ? n + rank : n, root = size - 1, is_root = rank == root, come = all;
    int scatters = strncmp(operation, "scatter", 7) == 0;
    int *counts = parts.lengths, *starts = parts.starts;
    double *data = mine(scatters ? all : own), *into = zeros(all);
    if (IS("broadcast")) {
        memcpy(into, data, own * sizeof *into);
        CALL(form, Bcast, bcast, into, n, type, root, comm);
        come = n;
    } else if (IS("gather")) {
        CALL(form, Gather, gather, data, n, type, into, n, type, root, comm);
        come = is_root ? all : 0;
    } else if (IS("gatherv")) {
        CALL(form, Gatherv, gatherv, data, own, type, into, counts, starts, type, root, comm);
        come = is_root ? all : 0;
    } else if (IS("scatter")) {
        CALL(form, Scatter, scatter, data, n, type, into, n, type, root, comm);
        come = n;
    } else if (IS("scatterv")) {
        CALL(form, Scatterv, scatterv, data, counts, starts, type, into, own, type, root, comm);
        come = own;
    } else if (IS("allgather")) {
        CALL(form, Allgather, allgather, data, n, type, into, n, type, comm);
    } else if (IS("allgather_in_place")) {
        memcpy(into + rank * n, data, n * sizeof *into);
        CALL(form, Allgather, allgather, MPI_IN_PLACE, 0, type, into, n, type, comm);
    } else {
        CHECK(IS("allgatherv"));
        CALL(form, Allgatherv, allgatherv, data, own, type, into, counts, starts, type, comm);
    }
    uint64_t digest = digest_of(into, come);
    free(data);
    free(into);
    return digest;
}

static uint64_t exchange(const char *operation, int form, int n) {
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Datatype type = MPI_DOUBLE;
    struct parts parts = rising(n + rank);
    int *counts = parts.lengths, *starts = parts.starts, come = parts.sum;
    struct spread from = spread(&parts, 2), to = spread(&parts, 3);
    double *data = NULL, *into = zeros(3 * parts.sum + size * n);
    if (IS("alltoall")) {
        data = mine(come = size * n);
        CALL(form, Alltoall, alltoall, data, n, type, into, n, type, comm);
    } else if (IS("alltoall_in_place")) {
        data = mine(come = size * n);
        memcpy(into, data, come * sizeof *into);
        CALL(form, Alltoall, alltoall, MPI_IN_PLACE, 0, type, into, n, type, comm);
    } else if (IS("alltoallv")) {
        data = mine(come);
        CALL(form, Alltoallv, alltoallv, data, counts, starts, type, into, counts, starts, type, comm);
    } else if (IS("alltoallw")) {
        data = mine(2 * parts.sum);
        come = 3 * parts.sum;
        CALL(form, Alltoallw, alltoallw, data, from.ones, from.bytes, from.types, into, to.ones,
             to.bytes, to.types, comm);
    } else {
        CHECK(IS("alltoallw_in_place"));
        data = mine(come = 2 * parts.sum);
        memcpy(into, data, come * sizeof *into);
        CALL(form, Alltoallw, alltoallw, MPI_IN_PLACE, NULL, NULL, NULL, into, from.ones,
             from.bytes, from.types, comm);
    }
    uint64_t digest = digest_of(into, come);
    free_spread(&from, size);
    free_spread(&to, size);
    free(data);
    free(into);
    return digest;
}

/* What the neighbours of a ring exchange. */
static uint64_t neighbours(const char *operation, int form, int n) {
    MPI_Comm ring;
    MPI_Datatype type = MPI_DOUBLE;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &(int){1}, 0, &ring);
    int is_uneven = IS("neighbour_allgatherv"), own = is_uneven ? n + rank : n;
    struct parts in = {0}, out = {0};
    for (int side = 0; side < 2; side++) {
        int other = side ? right() : left();
        add(&in, is_uneven ? n + other : n);
        add(&out, n + rank + other);
    }
    int come = in.sum;
    double *data = NULL, *into = zeros(3 * out.sum + in.sum);
    struct spread from = spread(&out, 2), to = spread(&out, 3);
    if (IS("neighbour_allgather")) {
        data = mine(n);
        CALL(form, Neighbor_allgather, neighbor_allgather, data, n, type, into, n, type, ring);
    } else if (IS("neighbour_allgatherv")) {
        data = mine(own);
        CALL(form, Neighbor_allgatherv, neighbor_allgatherv, data, own, type, into, in.lengths,
             in.starts, type, ring);
    } else if (IS("neighbour_alltoall")) {
        data = mine(2 * n);
        CALL(form, Neighbor_alltoall, neighbor_alltoall, data, n, type, into, n, type, ring);
    } else if (IS("neighbour_alltoallv")) {
        data = mine(come = out.sum);
        CALL(form, Neighbor_alltoallv, neighbor_alltoallv, data, out.lengths, out.starts, type, into,
             out.lengths, out.starts, type, ring);
    } else {
        CHECK(IS("neighbour_alltoallw"));
        data = mine(2 * out.sum);
        come = 3 * out.sum;
        CALL(form, Neighbor_alltoallw, neighbor_alltoallw, data, from.ones, from.places, from.types,
             into, to.ones, to.places, to.types, ring);
    }
    uint64_t digest = digest_of(into, come);
    free_spread(&from, 2);
    free_spread(&to, 2);
    MPI_Comm_free(&ring);
    free(data);
    free(into);
    return digest;
}

static uint64_t call(const char *operation, int form, int n) {
    if (IS("barrier")) {
        CALL(form, Barrier, barrier, MPI_COMM_WORLD);
        return 0;
    }
    if (strncmp(operation, "neighbour", 9) == 0) return neighbours(operation, form, n);
    if (strncmp(operation, "alltoall", 8) == 0) return exchange(operation, form, n);
    if (strstr(operation, "gather") || strncmp(operation, "scatter", 7) == 0 || IS("broadcast"))
        return gathering(operation, form, n);
    return reduction(operation, form, n);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(argc == 3);
    for (char *name = strtok(argv[1], ","); name != NULL; name = strtok(NULL, ",")) {
        const char *next = argv[2];
        while (*next != '\0') {
            char *past;
            int length = (int)strtol(next, &past, 10);
            for (int form = BLOCKING; form < FORMS; form++)
                printf("%s %s %d %016" PRIx64 "\n", forms[form], name, length,
                       call(name, form, length));
            next = *past == ',' ? past + 1 : past;
        }
    }
    return end();
}
