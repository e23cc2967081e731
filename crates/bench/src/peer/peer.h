/*
 * The comparison program of `hikyaku bench`, shared part: what a command is, and what a file of
 * measurements offers to the one that serves the conductor (main.c).
 *
 *   main.c         the conductor's socket, timing, memory
 *   messages.c     between two ranks: latency, rate, bandwidth, both directions at once
 *   collectives.c  barrier, allreduce, broadcast, gather, scatter, reduce, allgather(v),
 *                 alltoall(v), reduce_scatter_block, scan
 *   exchange.c     with two neighbours: halo, and what waiting in it costs
 */
#ifndef PEER_H
#define PEER_H

#include <mpi.h>
#include <stddef.h>

/* As in control.rs. */
enum { TAG = 7, WINDOW_LIMIT = 1024, BATCH_LIMIT = 1000, BYTES_LIMIT = 1 << 30 };

struct command {
    char verb[16];
    unsigned long long bytes;
    unsigned allocated; /* hikyaku's own memory: no meaning here, kept for the common format */
    unsigned window, batches;
    unsigned long long repetitions;
    unsigned warm; /* what is sent is the same untouched buffer each time */
};

/* One batch: runs the command's repetitions and returns the nanoseconds that count. */
typedef unsigned long long batch(const struct command *);

/* What a measurement of fresh data sends from: the set that it has just received into, or another
   one, with which that takes turns. */
enum fresh_sets { IN_PLACE = 1, IN_TURNS = 2 };

/* A measurement: the word of its command, the blocks of BYTES in a set, its sets, its batch.
   `prepare` and `clean_up` stand outside the time, once in a command; NULL where there is nothing
   to do, and `prepare` returns what is wrong, or NULL. */
struct measurement {
    const char *verb;
    unsigned (*blocks)(const struct command *);
    enum fresh_sets sets;
    batch *run;
    const char *(*prepare)(const struct command *);
    void (*clean_up)(void);
};

/* Each ends with an entry whose verb is NULL. */
extern const struct measurement messages[], collectives[], exchanges[];

extern int rank, size;

/* The blocks asked for, written once. As in buffers.rs: what is sent first, and what is received
   into first. Warm, nothing writes set[0] and nothing reads set[1] between messages; fresh and in
   place, both are one. */
extern char *set[2];

/* Which set is sent next, where fresh data takes turns: the first one when a command begins. */
extern int from;
void take_turns(const struct command *);

unsigned long long now_ns(void);

#endif
