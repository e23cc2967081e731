/* Reductions: predefined operations and types, functions of the program's own (MPI 5.0 §6.9 to
 * §6.13). */
#define _GNU_SOURCE
#include <complex.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include "../check.h"

enum { LENGTH = 300 };

/* Every operation on an integer type, against the same written out. */
#define INTEGERS(name, c, mpi)                                                               \
    static void name(void) {                                                                 \
        MPI_Op ops[] = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_BAND, MPI_BOR, MPI_BXOR,     \
                        MPI_LAND, MPI_LOR, MPI_LXOR};                                        \
        for (int which = 0; which < 10; which++) {                                           \
            c mine[3], got[3], should[3];                                                    \
            for (int at = 0; at < 3; at++) mine[at] = (c)(1 + (rank * 3 + at) % 2 * (at + 1)); \
            for (int at = 0; at < 3; at++) {                                                 \
                should[at] = (c)(1 + at % 2 * (at + 1));                                     \
                if (which >= 7 && size == 1) should[at] = mine[at];                          \
                for (int from = 1; from < size; from++) {                                    \
                    c next = (c)(1 + (from * 3 + at) % 2 * (at + 1)), all = should[at];      \
                    c results[] = {(c)(all + next), (c)(all * next), all < next ? all : next, \
                                   all > next ? all : next, (c)(all & next), (c)(all | next), \
                                   (c)(all ^ next), (c)(all && next), (c)(all || next),      \
                                   (c)(!all != !next)};                                      \
                    should[at] = results[which];                                             \
                }                                                                            \
            }                                                                                \
            MPI_Allreduce(mine, got, 3, mpi, ops[which], MPI_COMM_WORLD);                     \
            for (int at = 0; at < 3; at++) CHECK(got[at] == should[at]);                     \
        }                                                                                    \
    }

INTEGERS(chars, signed char, MPI_SIGNED_CHAR)
INTEGERS(shorts, unsigned short, MPI_UNSIGNED_SHORT)
INTEGERS(ints, int, MPI_INT)
INTEGERS(longs, long, MPI_LONG)
INTEGERS(wides, uint64_t, MPI_UINT64_T)

static void others(void) {
    double real = rank + 1, got, most;
    long double extended = rank + 1, sum;
    double complex turn = rank + I, product, should = 1;
    bool is_first = rank == 0, any, all;
    float single = (float)rank, least;
    MPI_Allreduce(&real, &got, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    CHECK(got == size * (size + 1) / 2.0);
    MPI_Allreduce(&real, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    CHECK(most == size);
    MPI_Allreduce(&single, &least, 1, MPI_FLOAT, MPI_MIN, MPI_COMM_WORLD);
    CHECK(least == 0);
    MPI_Allreduce(&extended, &sum, 1, MPI_LONG_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == size * (size + 1) / 2.0L);
    MPI_Allreduce(&turn, &product, 1, MPI_C_DOUBLE_COMPLEX, MPI_PROD, MPI_COMM_WORLD);
    for (int from = 0; from < size; from++) should *= from + I;
    CHECK(cabs(product - should) <= 1e-9 * cabs(should));
    MPI_Allreduce(&is_first, &any, 1, MPI_C_BOOL, MPI_LOR, MPI_COMM_WORLD);
    MPI_Allreduce(&is_first, &all, 1, MPI_C_BOOL, MPI_LAND, MPI_COMM_WORLD);
    CHECK(any && all == (size == 1));
    struct { double value; int at; } here = {rank % 3, rank}, low, high;
    MPI_Allreduce(&here, &high, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
    MPI_Allreduce(&here, &low, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD);
    CHECK(low.value == 0 && low.at == 0);
    int top = size < 3 ? size - 1 : 2;
    CHECK(high.value == top && high.at == top);
    struct { int value, at; } pair = {-rank, rank}, best;
    MPI_Allreduce(&pair, &best, 1, MPI_2INT, MPI_MINLOC, MPI_COMM_WORLD);
    CHECK(best.value == 1 - size && best.at == size - 1);
}

/* Sums of numbers that start at `first` and at the rank, of so many ranks. */
static void expect_sums(const int64_t *got, int ranks, int first, int length) {
    for (int at = 0; at < length; at++)
        EQUAL(got[at], (int64_t)ranks * (first + at) + ranks * (ranks - 1) / 2);
}

/* Sums of the ranks up to one, and parts of sums of all, of numbers in one piece. */
static void sums(int length) {
    static int64_t mine[64 * LENGTH], got[64 * LENGTH];
    int counts[64], before = 0;
    for (int at = 0; at < size * length; at++) mine[at] = rank + at, got[at] = -1;
    MPI_Exscan(mine, got, length, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (rank > 0) expect_sums(got, rank, 0, length);
    if (rank == 0 && is_hikyaku()) for (int at = 0; at < length; at++) EQUAL(got[at], -1);
    MPI_Scan(mine, got, length, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    expect_sums(got, rank + 1, 0, length);
    MPI_Reduce_scatter_block(mine, got, length, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    expect_sums(got, size, rank * length, length);
    for (int at = 0; at < size; at++) {
        counts[at] = (at + 1) % 3 * length / 2;
        if (at < rank) before += counts[at];
    }
    MPI_Reduce_scatter(mine, got, counts, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    expect_sums(got, size, before, counts[rank]);
    for (int which = 0; which < 4; which++) {
        memcpy(got, mine, sizeof *mine * (size_t)(size * length));
        if (which == 0) MPI_Scan(MPI_IN_PLACE, got, length, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
        if (which == 1) MPI_Exscan(MPI_IN_PLACE, got, length, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
        if (which == 2)
            MPI_Reduce_scatter_block(MPI_IN_PLACE, got, length, MPI_INT64_T, MPI_SUM,
                                     MPI_COMM_WORLD);
        if (which == 3)
            MPI_Reduce_scatter(MPI_IN_PLACE, got, counts, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
        if (which == 0) expect_sums(got, rank + 1, 0, length);
        if (which == 1 && rank > 0) expect_sums(got, rank, 0, length);
        if (which == 2) expect_sums(got, size, rank * length, length);
        if (which == 3) expect_sums(got, size, before, counts[rank]);
    }
}

/* Sums at one and at all, from one buffer into another, which leaves the first as it was. */
static void apart(int length, int calls) {
    int64_t *mine = malloc(sizeof *mine * (size_t)length), *got = malloc(sizeof *got * (size_t)length);
    for (int at = 0; at < length; at++) mine[at] = rank + at;
    for (int call = 0; call < calls; call++) {
        for (int at = 0; at < length; at++) got[at] = -1;
        int root = call % size;
        MPI_Reduce(mine, got, length, MPI_INT64_T, MPI_SUM, root, MPI_COMM_WORLD);
        if (rank == root) expect_sums(got, size, 0, length);
        else for (int at = 0; at < length; at++) EQUAL(got[at], -1);
        MPI_Allreduce(mine, got, length, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
        expect_sums(got, size, 0, length);
        for (int at = 0; at < length; at++) EQUAL(mine[at], rank + at);
        memcpy(got, mine, sizeof *mine * (size_t)length);
        MPI_Allreduce(MPI_IN_PLACE, got, length, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
        expect_sums(got, size, 0, length);
    }
    free(mine);
    free(got);
}

/* Affine maps, x to a x + b: not commutative, so the order of ranks is seen. */
struct map { int64_t a, b; };
static int calls;

static void compose(void *in, void *inout, int *len, MPI_Datatype *type) {
    struct map *first = in, *then = inout;
    (void)type;
    calls++;
    for (int at = 0; at < *len; at++) {
        struct map made = {first[at].a * then[at].a % 10007,
                           (then[at].a * first[at].b + then[at].b) % 10007};
        then[at] = made;
    }
}

static void compose_c(void *in, void *inout, MPI_Count *len, MPI_Datatype *type) {
    int count = (int)*len;
    compose(in, inout, &count, type);
}

static struct map of(int from, int at) { return (struct map){from + 2, 3 * from + at}; }

static struct map up_to(int last, int at) {
    struct map all = of(0, at);
    for (int from = 1; from <= last; from++) {
        struct map next = of(from, at);
        compose(&all, &next, &(int){1}, NULL);
        all = next;
    }
    return all;
}

static void expect(const struct map *got, int last, int first_at, int count) {
    for (int at = 0; at < count; at++) {
        struct map should = up_to(last, first_at + at);
        EQUAL(got[at].a, should.a);
        EQUAL(got[at].b, should.b);
    }
}

static void own(int length, int large) {
    static struct map mine[64 * LENGTH], got[64 * LENGTH];
    MPI_Datatype pair;
    MPI_Op op;
    int commutes, counts[64], before = 0;
    MPI_Type_contiguous(2, MPI_INT64_T, &pair);
    MPI_Type_commit(&pair);
    if (large) MPI_Op_create_c(compose_c, 0, &op);
    else MPI_Op_create(compose, 0, &op);
    MPI_Op_commutative(op, &commutes);
    EQUAL(commutes, 0);
    for (int at = 0; at < size * length; at++) mine[at] = of(rank, at);
    MPI_Allreduce(mine, got, length, pair, op, MPI_COMM_WORLD);
    expect(got, size - 1, 0, length);
    MPI_Reduce(mine, got, length, pair, op, size - 1, MPI_COMM_WORLD);
    if (rank == size - 1) expect(got, size - 1, 0, length);
    MPI_Scan(mine, got, length, pair, op, MPI_COMM_WORLD);
    expect(got, rank, 0, length);
    MPI_Exscan(mine, got, length, pair, op, MPI_COMM_WORLD);
    if (rank > 0) expect(got, rank - 1, 0, length);
    MPI_Reduce_scatter_block(mine, got, length, pair, op, MPI_COMM_WORLD);
    expect(got, size - 1, rank * length, length);
    for (int at = 0; at < size; at++) {
        counts[at] = (at + 1) % 3 * length / 2;
        if (at < rank) before += counts[at];
    }
    MPI_Reduce_scatter(mine, got, counts, pair, op, MPI_COMM_WORLD);
    expect(got, size - 1, before, counts[rank]);
    /* In place, and in flight. */
    MPI_Request request;
    memcpy(got, mine, sizeof *mine * (size_t)length);
    MPI_Iallreduce(MPI_IN_PLACE, got, length, pair, op, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(got, size - 1, 0, length);
    memcpy(got, mine, sizeof *mine * (size_t)length);
    MPI_Reduce(rank == 0 ? MPI_IN_PLACE : (void *)mine, got, length, pair, op, 0, MPI_COMM_WORLD);
    if (rank == 0) expect(got, size - 1, 0, length);
    memcpy(got, mine, sizeof *mine * (size_t)length);
    MPI_Scan_init(MPI_IN_PLACE, got, length, pair, op, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(got, rank, 0, length);
    MPI_Request_free(&request);
    struct map one = of(0, 0), two = of(1, 0);
    MPI_Reduce_local(&one, &two, 1, pair, op);
    expect(&two, 1, 0, 1);
    MPI_Op_free(&op);
    CHECK(op == MPI_OP_NULL);
    MPI_Type_free(&pair);
}

/* A type with gaps: of each struct, the function sees both numbers where they are. */

struct gapped { int8_t skipped; int32_t number; int64_t unseen; int16_t other; };

static int seen_extent;

static void add_gapped(void *in, void *inout, int *count, MPI_Datatype *type) {
    struct gapped *left = in, *right = inout;
    MPI_Aint lb, extent;
    MPI_Type_get_extent(*type, &lb, &extent);
    seen_extent = (int)extent;
    for (int at = 0; at < *count; at++) {
        right[at].number += left[at].number;
        right[at].other = (int16_t)(left[at].other + right[at].other);
    }
}

static void gaps(int length) {
    static struct gapped mine[64 * LENGTH], got[64 * LENGTH];
    MPI_Aint at[2] = {offsetof(struct gapped, number), offsetof(struct gapped, other)};
    MPI_Datatype types[2] = {MPI_INT32_T, MPI_INT16_T}, bare, type;
    MPI_Type_create_struct(2, (int[]){1, 1}, at, types, &bare);
    MPI_Type_create_resized(bare, 0, sizeof(struct gapped), &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&bare);
    MPI_Op op;
    MPI_Op_create(add_gapped, 1, &op);
    for (int i = 0; i < size * length; i++) {
        mine[i] = (struct gapped){5, rank + i, 6, (int16_t)(2 * rank - i)};
        got[i] = (struct gapped){9, 0, 8, 0};
    }
    MPI_Allreduce(mine, got, length, type, op, MPI_COMM_WORLD);
    int ranks = size * (size - 1) / 2;
    for (int i = 0; i < length; i++) {
        EQUAL(got[i].number, ranks + size * i);
        EQUAL(got[i].other, (int16_t)(2 * ranks - size * i));
        /* What the type leaves out stays as it is. */
        EQUAL(got[i].skipped, 9);
        EQUAL(got[i].unseen, 8);
    }
    MPI_Reduce_scatter_block(mine, got, length, type, op, MPI_COMM_WORLD);
    for (int i = 0; i < length; i++) EQUAL(got[i].number, ranks + size * (rank * length + i));
    struct gapped one = {0, 3, 0, 4}, two = {1, 5, 2, 6};
    MPI_Reduce_local(&one, &two, 1, type, op);
    EQUAL(two.number, 8);
    EQUAL(two.other, 10);
    EQUAL(seen_extent, (int)sizeof(struct gapped));
    /* The function gets a type although the program has freed its handle (MPI 5.0 §5.1.9). */
    MPI_Request request;
    seen_extent = 0;
    MPI_Iallreduce(mine, got, length, type, op, MPI_COMM_WORLD, &request);
    MPI_Type_free(&type);
    MPI_Op_free(&op);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < length; i++) EQUAL(got[i].number, ranks + size * i);
    CHECK(seen_extent == 0 || seen_extent == (int)sizeof(struct gapped));
}

/* A function may use its operands as the types that they are, so their addresses suit these types. */

struct line { alignas(64) int64_t number; };

#define ALIGNED(name, c, number)                                       \
    static void name(void *in, void *inout, int *count, MPI_Datatype *type) { \
        CHECK(*type != MPI_DATATYPE_NULL);                             \
        EQUAL((uintptr_t)in % alignof(c), 0);                          \
        EQUAL((uintptr_t)inout % alignof(c), 0);                       \
        for (int at = 0; at < *count; at++) ((c *)inout)[at] number += ((c *)in)[at] number; \
    }
ALIGNED(add_complex, long double complex, )
ALIGNED(add_lines, struct line, .number)

/* Every reduction: each has other memory of the library on the way. */
static void reduce_aligned(void *mine, void *got, int length, MPI_Datatype type,
                           MPI_User_function *function) {
    MPI_Op op;
    int counts[64];
    for (int at = 0; at < size; at++) counts[at] = at == size - 1 ? length : 0;
    for (int commutes = 0; commutes < 2; commutes++) {
        MPI_Op_create(function, commutes, &op);
        MPI_Reduce_local(mine, got, length, type, op);
        MPI_Reduce(mine, got, length, type, op, size - 1, MPI_COMM_WORLD);
        MPI_Scan(mine, got, length, type, op, MPI_COMM_WORLD);
        MPI_Exscan(mine, got, length, type, op, MPI_COMM_WORLD);
        MPI_Reduce_scatter(mine, got, counts, type, op, MPI_COMM_WORLD);
        MPI_Allreduce(mine, got, length, type, op, MPI_COMM_WORLD);
        MPI_Op_free(&op);
    }
}

static void aligned(int length) {
    static long double complex turns[LENGTH], turned[LENGTH];
    static struct line lines[LENGTH], sums[LENGTH];
    MPI_Datatype line;
    MPI_Type_contiguous(sizeof(struct line), MPI_BYTE, &line);
    MPI_Type_commit(&line);
    for (int at = 0; at < length; at++) {
        turns[at] = rank + at * I, turned[at] = 0;
        lines[at].number = rank + at, sums[at].number = 0;
    }
    reduce_aligned(turns, turned, length, MPI_C_LONG_DOUBLE_COMPLEX, add_complex);
    /* Others have this memory from malloc, which aligns to 16 bytes. */
    if (is_hikyaku()) reduce_aligned(lines, sums, length, line, add_lines);
    for (int at = 0; at < length; at++) {
        CHECK(turned[at] == size * (size - 1) / 2 + (long double)size * at * I);
        if (is_hikyaku()) EQUAL(sums[at].number, size * (size - 1) / 2 + size * at);
    }
    MPI_Type_free(&line);
}

/* The operations of accumulates are for windows alone (MPI 5.0 §12.3.4). */
static void accumulates(void) {
    int mine = 5, got = 7;
    MPI_Request request;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (int which = 0; which < 2; which++) {
        MPI_Op op = which ? MPI_NO_OP : MPI_REPLACE;
        CLASS(MPI_Allreduce(&mine, &got, 1, MPI_INT, op, MPI_COMM_WORLD), MPI_ERR_OP);
        CLASS(MPI_Reduce(&mine, &got, 1, MPI_INT, op, 0, MPI_COMM_WORLD), MPI_ERR_OP);
        CLASS(MPI_Iscan(&mine, &got, 1, MPI_INT, op, MPI_COMM_WORLD, &request), MPI_ERR_OP);
        CLASS(MPI_Reduce_local(&mine, &got, 1, MPI_INT, op), MPI_ERR_OP);
    }
    EQUAL(got, 7);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

/* Two numbers that are far apart: what lies between takes no memory. */
enum { FAR = 256 << 20 };

static void add_far(void *in, void *inout, int *count, MPI_Datatype *type) {
    (void)type;
    for (int at = 0; at < *count; at++)
        for (int which = 0; which < 2; which++)
            *(int *)((char *)inout + which * FAR) += *(int *)((char *)in + which * FAR);
}

static void apart_by_far(void) {
    struct rusage before, after;
    char *in = mmap(NULL, FAR + 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *out = mmap(NULL, FAR + 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MPI_Datatype type;
    MPI_Op op;
    MPI_Type_create_hindexed(2, (int[]){1, 1}, (MPI_Aint[]){0, FAR}, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Op_create(add_far, 1, &op);
    *(int *)in = 1, *(int *)(in + FAR) = 2, *(int *)out = 3, *(int *)(out + FAR) = 4;
    getrusage(RUSAGE_SELF, &before);
    MPI_Reduce_local(in, out, 1, type, op);
    getrusage(RUSAGE_SELF, &after);
    EQUAL(*(int *)out, 4);
    EQUAL(*(int *)(out + FAR), 6);
    CHECK(after.ru_maxrss - before.ru_maxrss < FAR >> 12);
    MPI_Op_free(&op);
    MPI_Type_free(&type);
    munmap(in, FAR + 4), munmap(out, FAR + 4);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    accumulates();
    apart_by_far();
    chars();
    shorts();
    ints();
    longs();
    wides();
    others();
    sums(0);
    sums(2);
    sums(LENGTH);
    /* Short, in parts, and so long that hikyaku tries both its ways. */
    apart(40, 9);
    apart(3001, 9);
    apart(100003, 24);
    own(1, 0);
    own(6, 1);
    own(LENGTH, 0);
    gaps(1);
    gaps(LENGTH);
    aligned(1);
    aligned(7);
    aligned(LENGTH);
    CHECK(calls > 0);
    return end();
}
