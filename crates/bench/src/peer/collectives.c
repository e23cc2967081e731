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

/* Sums of doubles in place. The sums are of zeros, so that no repetition overflows. */
static const char *zeros(const struct command *c) {
    for (unsigned long long i = 0; i < c->bytes; i++) buffer[i] = 0;
    return NULL;
}

static unsigned long long allreduces(const struct command *c) {
    unsigned long long start = now_ns();
    int numbers = (int)(c->bytes / sizeof(double));
    for (unsigned long long i = 0; i < c->repetitions; i++)
        MPI_Allreduce(MPI_IN_PLACE, buffer, numbers, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return now_ns() - start;
}

/* The ranks take turns as root, so that none can run ahead of the others and each sends what it
   has just received. */
static unsigned long long broadcasts(const struct command *c) {
    unsigned long long start = now_ns();
    static int root;
    for (unsigned long long i = 0; i < c->repetitions; i++) {
        MPI_Bcast(buffer, (int)c->bytes, MPI_BYTE, root, MPI_COMM_WORLD);
        root = (root + 1) % size;
    }
    return now_ns() - start;
}

static unsigned two_of_each(const struct command *c) {
    (void)c;
    return 2 * (unsigned)size;
}

/* What a rank gives is the block of the rank behind it from the time before: freshly received. */
static unsigned long long allgathers(const struct command *c) {
    unsigned long long start = now_ns();
    static int turn;
    char *half[2] = {buffer, buffer + c->bytes * (unsigned)size};
    for (unsigned long long i = 0; i < c->repetitions; i++) {
        char *mine = half[turn] + c->bytes * (unsigned)((rank + 1) % size);
        MPI_Allgather(mine, (int)c->bytes, MPI_BYTE, half[1 - turn], (int)c->bytes, MPI_BYTE,
                      MPI_COMM_WORLD);
        turn = 1 - turn;
    }
    return now_ns() - start;
}

const struct measurement collectives[] = {
    {"barrier", none, barriers, NULL, NULL},
    {"allreduce", one, allreduces, zeros, NULL},
    {"broadcast", one, broadcasts, NULL, NULL},
    {"allgather", two_of_each, allgathers, NULL, NULL},
    {0},
};
