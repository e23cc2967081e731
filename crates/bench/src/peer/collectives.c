/* What all ranks do together, in the forms of kinds/barrier.rs and kinds/collectives.rs. */
#include "peer.h"

static unsigned none(const struct command *c) {
    (void)c;
    return 0;
}

static unsigned one(const struct command *c) {
    (void)c;
    return 1;
}

static unsigned long long barriers(const struct command *c) {
    unsigned long long start = now_ns();
    for (unsigned long long i = 0; i < c->repetitions; i++) MPI_Barrier(MPI_COMM_WORLD);
    return now_ns() - start;
}

/* Sums of doubles: fresh, in place; warm, from one buffer into another. The sums are of zeros, so
   that no repetition overflows. */
static const char *zeros(const struct command *c) {
    for (unsigned long long i = 0; i < c->bytes; i++) set[0][i] = 0;
    return NULL;
}

static unsigned long long allreduces(const struct command *c) {
    unsigned long long start = now_ns();
    int numbers = (int)(c->bytes / sizeof(double));
    const void *given = c->warm ? set[0] : MPI_IN_PLACE;
    for (unsigned long long i = 0; i < c->repetitions; i++)
        MPI_Allreduce(given, set[1], numbers, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return now_ns() - start;
}

/* The ranks take turns as root, so that none can run ahead of the others. Fresh, each sends what it
   has just received; warm, an untouched buffer. */
static unsigned long long broadcasts(const struct command *c) {
    unsigned long long start = now_ns();
    static int root;
    for (unsigned long long i = 0; i < c->repetitions; i++) {
        MPI_Bcast(set[rank != root], (int)c->bytes, MPI_BYTE, root, MPI_COMM_WORLD);
        root = (root + 1) % size;
    }
    return now_ns() - start;
}

static unsigned one_of_each(const struct command *c) {
    (void)c;
    return (unsigned)size;
}

/* As broadcasts. Fresh, what a rank gives it has received when it was root last. */
static unsigned long long gathers(const struct command *c) {
    unsigned long long start = now_ns();
    static int root;
    for (unsigned long long i = 0; i < c->repetitions; i++) {
        MPI_Gather(set[from], (int)c->bytes, MPI_BYTE, set[1 - from], (int)c->bytes, MPI_BYTE, root,
                   MPI_COMM_WORLD);
        if (rank == root) take_turns(c);
        root = (root + 1) % size;
    }
    return now_ns() - start;
}

/* As broadcasts. Fresh, the first block that a root gives it has received the time before. */
static unsigned long long scatters(const struct command *c) {
    unsigned long long start = now_ns();
    static int root;
    for (unsigned long long i = 0; i < c->repetitions; i++) {
        MPI_Scatter(set[from], (int)c->bytes, MPI_BYTE, set[1 - from], (int)c->bytes, MPI_BYTE,
                    root, MPI_COMM_WORLD);
        take_turns(c);
        root = (root + 1) % size;
    }
    return now_ns() - start;
}

/* As allreduces, at one rank in turn. */
static unsigned long long reduces(const struct command *c) {
    unsigned long long start = now_ns();
    static int root;
    int numbers = (int)(c->bytes / sizeof(double));
    for (unsigned long long i = 0; i < c->repetitions; i++) {
        const void *given = c->warm ? set[0] : rank == root ? MPI_IN_PLACE : set[1];
        MPI_Reduce(given, set[1], numbers, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD);
        root = (root + 1) % size;
    }
    return now_ns() - start;
}

/* Fresh, what a rank gives is the block of the next rank from the time before; warm, it is an
   untouched block. */
static unsigned long long allgathers(const struct command *c) {
    unsigned long long start = now_ns();
    for (unsigned long long i = 0; i < c->repetitions; i++) {
        char *mine = set[from] + c->bytes * (unsigned)((rank + 1) % size);
        MPI_Allgather(mine, (int)c->bytes, MPI_BYTE, set[1 - from], (int)c->bytes, MPI_BYTE,
                      MPI_COMM_WORLD);
        take_turns(c);
    }
    return now_ns() - start;
}

/* Fresh, what a rank gives to each has come from it the time before; warm, it is an untouched
   buffer. */
static unsigned long long alltoalls(const struct command *c) {
    unsigned long long start = now_ns();
    for (unsigned long long i = 0; i < c->repetitions; i++) {
        MPI_Alltoall(set[from], (int)c->bytes, MPI_BYTE, set[1 - from], (int)c->bytes, MPI_BYTE,
                     MPI_COMM_WORLD);
        take_turns(c);
    }
    return now_ns() - start;
}

const struct measurement collectives[] = {
    {"barrier", none, IN_PLACE, barriers, NULL, NULL},
    {"allreduce", one, IN_PLACE, allreduces, zeros, NULL},
    {"broadcast", one, IN_PLACE, broadcasts, NULL, NULL},
    {"gather", one_of_each, IN_TURNS, gathers, NULL, NULL},
    {"scatter", one_of_each, IN_TURNS, scatters, NULL, NULL},
    {"reduce", one, IN_PLACE, reduces, zeros, NULL},
    {"allgather", one_of_each, IN_TURNS, allgathers, NULL, NULL},
    {"alltoall", one_of_each, IN_TURNS, alltoalls, NULL, NULL},
    {0},
};
