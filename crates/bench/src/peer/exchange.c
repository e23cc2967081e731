/*
 * Exchanges with two neighbours, in the forms of kinds/halo.rs and kinds/late.rs: every rank of a
 * ring sends one block to the rank on its left and one to the rank on its right. Of two ranks each
 * is both neighbours of the other.
 *
 * A measurement has a form (which calls) and a clock (what of an iteration is timed); every word of
 * a command names one of each. Blocks lie in two sets. Fresh, every exchange sends what the one
 * before it has received; warm, all send the first set, which nothing writes, and receive into the
 * second, which nothing reads.
 */
#include "peer.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LEFT, RIGHT, SIDES };

/* As in late.rs, in nanoseconds. */
static const unsigned long long COMPUTE = 50000, LATENESS = 100000;

/* From one set of blocks into the other. */
struct exchange {
    char *send[SIDES], *receive[SIDES];
    MPI_Request requests[2 * SIDES];
};

/* An exchange begun is ended before the next begins. */
struct form {
    void (*prepare)(struct exchange *, int bytes);
    void (*begin)(struct exchange *, int bytes);
    void (*end)(struct exchange *);
    void (*clean_up)(struct exchange *);
};

static MPI_Comm ring = MPI_COMM_NULL;
static int neighbours[SIDES];
static struct exchange both[2];
static int turn, warm;
static int counts[SIDES];
static MPI_Aint places[SIDES];
static MPI_Datatype types[SIDES];

static unsigned blocks(const struct command *c) {
    (void)c;
    return SIDES;
}

static void nothing(struct exchange *e) { (void)e; }

static void nothing_of(struct exchange *e, int bytes) {
    (void)e;
    (void)bytes;
}

/* A block is tagged by the side it comes from, for two ranks are neighbours on both sides. */
static void begin_isend(struct exchange *e, int bytes) {
    for (int side = 0; side < SIDES; side++)
        MPI_Irecv(e->receive[side], bytes, MPI_BYTE, neighbours[side], TAG + 1 - side, ring,
                  &e->requests[side]);
    for (int side = 0; side < SIDES; side++)
        MPI_Isend(e->send[side], bytes, MPI_BYTE, neighbours[side], TAG + side, ring,
                  &e->requests[SIDES + side]);
}

static void end_isend(struct exchange *e) {
    MPI_Waitall(2 * SIDES, e->requests, MPI_STATUSES_IGNORE);
}

static void exchange_blocking(struct exchange *e, int bytes) {
    (void)bytes;
    MPI_Neighbor_alltoallw(e->send[0], counts, places, types, e->receive[0], counts, places, types,
                           ring);
}

static void prepare_persistent(struct exchange *e, int bytes) {
    (void)bytes;
    MPI_Neighbor_alltoallw_init(e->send[0], counts, places, types, e->receive[0], counts, places,
                                types, ring, MPI_INFO_NULL, e->requests);
}

static void begin_persistent(struct exchange *e, int bytes) {
    (void)bytes;
    MPI_Start(e->requests);
}

static void end_persistent(struct exchange *e) { MPI_Wait(e->requests, MPI_STATUS_IGNORE); }

static void free_persistent(struct exchange *e) { MPI_Request_free(e->requests); }

static const struct form isend = {nothing_of, begin_isend, end_isend, nothing};
static const struct form blocking = {nothing_of, exchange_blocking, nothing, nothing};
static const struct form persistent = {prepare_persistent, begin_persistent, end_persistent,
                                       free_persistent};
static const struct form *form;

static void exchange(struct exchange *e, int bytes) {
    form->begin(e, bytes);
    form->end(e);
}

/* What the block says that rank `from` sends to its `side`. */
static char mark(int from, int side) { return (char)(1 + (SIDES * from + side) % 127); }

/* Whether every block received is the one that each neighbour sent to its side `mirrored`. */
static int arrived(const struct exchange *e, unsigned long long bytes, int mirrored) {
    for (int side = 0; side < SIDES; side++) {
        char expected = mark(neighbours[side], mirrored ? 1 - side : side);
        for (unsigned long long i = 0; i < bytes; i++)
            if (e->receive[side][i] != expected) return 0;
    }
    return 1;
}

/* The ring, the two sets of blocks, and one exchange whose blocks are looked at: a fast exchange
   of the wrong blocks would be no figure. What is sent to the left arrives from the right; Open MPI
   5.0.11 has it the other way round in a persistent exchange of two ranks, where both neighbours
   are one. As many bytes move, so that is let pass. */
static const char *prepare(const struct command *c, const struct form *chosen) {
    if (ring == MPI_COMM_NULL) {
        int periodic = 1;
        MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &ring);
        MPI_Cart_shift(ring, 0, 1, &neighbours[LEFT], &neighbours[RIGHT]);
    }
    form = chosen;
    for (int side = 0; side < SIDES; side++) {
        counts[side] = (int)c->bytes;
        places[side] = (MPI_Aint)c->bytes * side;
        types[side] = MPI_BYTE;
        for (int i = 0; i < 2; i++) {
            char *block = set[i] + c->bytes * (unsigned)side;
            both[i].send[side] = both[1 - i].receive[side] = block;
            memset(block, i ? 0 : mark(rank, side), c->bytes);
        }
    }
    form->prepare(&both[0], (int)c->bytes);
    form->prepare(&both[1], (int)c->bytes);
    exchange(&both[0], (int)c->bytes);
    warm = (int)c->warm;
    turn = !warm;
    int right = arrived(&both[0], c->bytes, 1) ||
                (neighbours[LEFT] == neighbours[RIGHT] && arrived(&both[0], c->bytes, 0));
    /* All ranks or none go on to what is timed. */
    MPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return right ? NULL : "an exchange brought a wrong block";
}

static const char *prepare_isend(const struct command *c) { return prepare(c, &isend); }
static const char *prepare_blocking(const struct command *c) { return prepare(c, &blocking); }
static const char *prepare_init(const struct command *c) { return prepare(c, &persistent); }

static void clean_up(void) {
    form->clean_up(&both[0]);
    form->clean_up(&both[1]);
}

static struct exchange *next(void) {
    struct exchange *e = &both[turn];
    if (!warm) turn = 1 - turn;
    return e;
}

static unsigned long long compute(unsigned long long nanoseconds) {
    unsigned long long until = now_ns() + nanoseconds, now;
    do now = now_ns();
    while (now < until);
    return now;
}

/* Exchanges back to back. */
static unsigned long long whole(const struct command *c) {
    unsigned long long start = now_ns();
    for (unsigned long long i = 0; i < c->repetitions; i++) exchange(next(), (int)c->bytes);
    return now_ns() - start;
}

/* Both start, both compute, both wait: the time in the calls, `from` the first of them on. */
enum call { START, WAIT };

static unsigned long long in_calls(const struct command *c, enum call from) {
    unsigned long long sum = 0;
    for (unsigned long long i = 0; i < c->repetitions; i++) {
        struct exchange *e = next();
        unsigned long long begin = now_ns();
        form->begin(e, (int)c->bytes);
        unsigned long long begun = now_ns(), computed = compute(COMPUTE);
        form->end(e);
        sum += now_ns() - computed + (from == START ? begun - begin : 0);
    }
    return sum;
}

static unsigned long long waits(const struct command *c) { return in_calls(c, WAIT); }
static unsigned long long calls(const struct command *c) { return in_calls(c, START); }

static unsigned long long clock_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (unsigned long long)t.tv_sec * 1000000000ull + (unsigned long long)t.tv_nsec;
}

/* The processor time that the process takes in one round, but for what it computes in between.
   Without an exchange: what looking at the clocks takes. */
static unsigned long long spent(struct exchange *e, int bytes) {
    unsigned long long begin = clock_ns(CLOCK_PROCESS_CPUTIME_ID), start, computing;
    if (e) form->begin(e, bytes);
    start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    compute(e ? COMPUTE : 0);
    computing = clock_ns(CLOCK_THREAD_CPUTIME_ID) - start;
    if (e) form->end(e);
    unsigned long long all = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begin;
    return all > computing ? all - computing : 0;
}

static int by_size(const void *a, const void *b) {
    unsigned long long one = *(const unsigned long long *)a, other = *(const unsigned long long *)b;
    return (one > other) - (one < other);
}

/* The processor time of start and wait, helper threads included; as in late.rs and processor.rs. */
static unsigned long long processor(const struct command *c) {
    enum { EMPTY_ROUNDS = 65 };
    unsigned long long empty[EMPTY_ROUNDS], sum = 0;
    for (int i = 0; i < EMPTY_ROUNDS; i++) empty[i] = spent(NULL, 0);
    qsort(empty, EMPTY_ROUNDS, sizeof *empty, by_size);
    for (unsigned long long i = 0; i < c->repetitions; i++) sum += spent(next(), (int)c->bytes);
    unsigned long long looking = empty[EMPTY_ROUNDS / 2] * c->repetitions;
    return sum > looking ? sum - looking : 0;
}

/* Rank 1 is late. From its start to the end of rank 0's wait. */
static unsigned long long late(const struct command *c) {
    unsigned long long sum = 0, stamp;
    for (unsigned long long i = 0; i < c->repetitions; i++) {
        struct exchange *e = next();
        MPI_Barrier(MPI_COMM_WORLD);
        stamp = rank == 1 ? compute(LATENESS) : 0;
        form->begin(e, (int)c->bytes);
        compute(COMPUTE);
        form->end(e);
        unsigned long long end = now_ns();
        if (rank == 1) MPI_Send(&stamp, 8, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
        if (rank == 0) MPI_Recv(&stamp, 8, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sum += end - stamp;
    }
    return sum;
}

const struct measurement exchanges[] = {
    {"halo-isend", blocks, IN_TURNS, whole, prepare_isend, clean_up},
    {"halo-blocking", blocks, IN_TURNS, whole, prepare_blocking, clean_up},
    {"halo-persist", blocks, IN_TURNS, whole, prepare_init, clean_up},
    {"wait-isend", blocks, IN_TURNS, waits, prepare_isend, clean_up},
    {"wait-persist", blocks, IN_TURNS, waits, prepare_init, clean_up},
    {"calls-isend", blocks, IN_TURNS, calls, prepare_isend, clean_up},
    {"calls-persist", blocks, IN_TURNS, calls, prepare_init, clean_up},
    {"cpu-isend", blocks, IN_TURNS, processor, prepare_isend, clean_up},
    {"cpu-persist", blocks, IN_TURNS, processor, prepare_init, clean_up},
    {"late-isend", blocks, IN_TURNS, late, prepare_isend, clean_up},
    {"late-persist", blocks, IN_TURNS, late, prepare_init, clean_up},
    {0},
};
