/* Threads for tests: several at once do something, each with a number. */

#ifndef THREADS_H
#define THREADS_H

#include <pthread.h>
#include <sched.h>

#include "../check.h"

#define THREADS 4

/* One communicator a thread. */
static MPI_Comm comms[THREADS];

struct worker {
    pthread_t thread;
    int number;
    void (*work)(int number);
};

static void *work_of(void *at) {
    struct worker *worker = at;
    worker->work(worker->number);
    return NULL;
}

/* Every thread of `count` does `work`, and all have ended after it. */
static inline void each(int count, void (*work)(int number)) {
    struct worker workers[16];
    for (int at = 0; at < count; at++) {
        workers[at] = (struct worker){.number = at, .work = work};
        EQUAL(pthread_create(&workers[at].thread, NULL, work_of, &workers[at]), 0);
    }
    for (int at = 0; at < count; at++) EQUAL(pthread_join(workers[at].thread, NULL), 0);
}

static inline void begin_threads(int *argc, char ***argv) {
    int level;
    EQUAL(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &level), MPI_SUCCESS);
    EQUAL(level, MPI_THREAD_MULTIPLE);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int at = 0; at < THREADS; at++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[at]);
}

static inline int end_threads(void) {
    for (int at = 0; at < THREADS; at++) MPI_Comm_free(&comms[at]);
    return end();
}

#endif
