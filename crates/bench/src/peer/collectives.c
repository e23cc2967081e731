/* What all ranks do together, in the forms of kinds/barrier.rs and kinds/collectives.rs. */
#include "peer.h"

#include <stdlib.h>

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

static const char *zeros_of_each(const struct command *c) {
    for (unsigned long long i = 0; i < c->bytes * (unsigned)size; i++) set[0][i] = set[1][i] = 0;
    return NULL;
}

/* Lists of lengths and places of a block of each rank. */
static int *lengths, *places;

static const char *lists(const struct command *c) {
    lengths = malloc((unsigned)size * sizeof(int));
    places = malloc((unsigned)size * sizeof(int));
    if (lengths == NULL || places == NULL) return "no memory for lists of lengths";
    for (int r = 0; r < size; r++) {
        lengths[r] = (int)c->bytes;
        places[r] = r * (int)c->bytes;
    }
    return NULL;
}

static void free_lists(void) {
    free(lengths);
    free(places);
}

/* The ranks in reverse. */
static MPI_Comm reversed = MPI_COMM_NULL;

static const char *reverse(const struct command *c) {
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
    return zeros(c);
}

static void free_reversed(void) { MPI_Comm_free(&reversed); }

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

/* As allgathers. */
static unsigned long long allgathervs(const struct command *c) {
    unsigned long long start = now_ns();
    for (unsigned long long i = 0; i < c->repetitions; i++) {
        char *mine = set[from] + c->bytes * (unsigned)((rank + 1) % size);
        MPI_Allgatherv(mine, (int)c->bytes, MPI_BYTE, set[1 - from], lengths, places, MPI_BYTE,
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

/* As alltoalls. */
static unsigned long long alltoallvs(const struct command *c) {
    unsigned long long start = now_ns();
    for (unsigned long long i = 0; i < c->repetitions; i++) {
        MPI_Alltoallv(set[from], lengths, places, MPI_BYTE, set[1 - from], lengths, places,
                      MPI_BYTE, MPI_COMM_WORLD);
        take_turns(c);
    }
    return now_ns() - start;
}

/* Fresh, the first doubles that a rank gives it has received the time before. */
static unsigned long long reduce_scatters(const struct command *c) {
    unsigned long long start = now_ns();
    int numbers = (int)(c->bytes / sizeof(double));
    for (unsigned long long i = 0; i < c->repetitions; i++) {
        MPI_Reduce_scatter_block(set[from], set[1 - from], numbers, MPI_DOUBLE, MPI_SUM,
                                 MPI_COMM_WORLD);
        take_turns(c);
    }
    return now_ns() - start;
}

/* Up the ranks and down by turns, so that none can run ahead; else as allreduces. */
static unsigned long long scans(const struct command *c) {
    unsigned long long start = now_ns();
    static int down;
    int numbers = (int)(c->bytes / sizeof(double));
    const void *given = c->warm ? set[0] : MPI_IN_PLACE;
    for (unsigned long long i = 0; i < c->repetitions; i++) {
        MPI_Scan(given, set[1], numbers, MPI_DOUBLE, MPI_SUM, down ? reversed : MPI_COMM_WORLD);
        down = !down;
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
    {"allgatherv", one_of_each, IN_TURNS, allgathervs, lists, free_lists},
    {"alltoall", one_of_each, IN_TURNS, alltoalls, NULL, NULL},
    {"alltoallv", one_of_each, IN_TURNS, alltoallvs, lists, free_lists},
    {"reducescatter", one_of_each, IN_TURNS, reduce_scatters, zeros_of_each, NULL},
    {"scan", one, IN_PLACE, scans, reverse, free_reversed},
    {0},
};
