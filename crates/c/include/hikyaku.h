/* hikyaku.h: ranks, messages and shared variables, for C11 and later, and C++.
 *
 * SYNOPSIS
 *
 *     #include <hikyaku.h>
 *
 *     cc program.c -lhikyaku_c
 *     hikyaku run -n 4 -- ./program
 *
 * DESCRIPTION
 *
 *     A job is started by hikyaku run, as so many processes, the ranks, of one program. A program
 *     that is started by itself is a world of one rank. See docs/c.md for a guide.
 *
 *     One thread of a process is the rank: the one that calls hikyaku_init. A call from another
 *     thread is an error, except for hikyaku_error and hikyaku_version. A child process that a rank
 *     forks is not a rank: it must not call these functions, and ends by exec or _exit.
 *
 *     A rank whose process ends without hikyaku_finalize has died: ranks that wait for it get an error.
 *     With an exit code that is not 0, hikyaku run ends the job.
 *
 * RETURN VALUE
 *
 *     All functions except the two that return a text return an int:
 *
 *       0       done; or a number, if the function returns one
 *       > 0     HIKYAKU_BUSY: not done, and nobody's fault; or a number
 *       < 0     an error, one of hikyaku_code. hikyaku_error gives a line that says why.
 *
 *     An error leaves everything as it was, unless a function says otherwise. Arguments are checked
 *     before anything is sent.
 */

#ifndef HIKYAKU_H
#define HIKYAKU_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a function returns beside numbers. */
enum hikyaku_code {
    HIKYAKU_OK = 0,          /* done */
    HIKYAKU_BUSY = 1,        /* others have the variable, or its turn did not come in time */
    HIKYAKU_E_ARGUMENT = -1, /* an invalid argument: NULL, a rank or name that does not exist */
    HIKYAKU_E_ORDER = -2,    /* not now: before hikyaku_init, held already, not held, freed */
    HIKYAKU_E_THREAD = -3,   /* not the rank's thread, or a process forked from it */
    HIKYAKU_E_PEER = -4,     /* another rank died, left the job, or abandoned the call */
    HIKYAKU_E_DISAGREE = -5, /* ranks called with arguments that do not fit each other's */
    HIKYAKU_E_ROOM = -6,     /* no room: memory, or the 8,192 sync variables of a job */
    HIKYAKU_E_JOB = -7,      /* the job cannot be joined */
    HIKYAKU_E_BUG = -8       /* a bug in hikyaku; please report it */
};

/* Types of elements. */
enum hikyaku_type {
    HIKYAKU_INT8 = 1,    /* int8_t */
    HIKYAKU_INT16 = 2,   /* int16_t */
    HIKYAKU_INT32 = 3,   /* int32_t */
    HIKYAKU_INT64 = 4,   /* int64_t */
    HIKYAKU_UINT8 = 5,   /* uint8_t, and bytes */
    HIKYAKU_UINT16 = 6,  /* uint16_t */
    HIKYAKU_UINT32 = 7,  /* uint32_t */
    HIKYAKU_UINT64 = 8,  /* uint64_t */
    HIKYAKU_FLOAT = 9,   /* float */
    HIKYAKU_DOUBLE = 10  /* double */
};

/* The line that says why a call of this thread failed last; "" if none has. It is there until the
 * next call of this thread that fails, and is not to be changed or freed. */
const char *hikyaku_error(void);

/* The version of the library, such as "0.1.0". */
const char *hikyaku_version(void);


/* ---- The job ------------------------------------------------------------------------------- */

/* Joins the job, once, as the rank that the environment names.
 *
 * Errors: HIKYAKU_E_ORDER if this thread has called it before; HIKYAKU_E_THREAD if another has;
 * HIKYAKU_E_JOB, for example if another process is this rank. */
int hikyaku_init(void);

/* Leaves the job in order: what was sent arrives, and variables are there as long as a rank uses
 * them. All handles of shared variables become invalid, and the process cannot join again.
 *
 * Errors: HIKYAKU_E_ORDER if a shared variable is held. */
int hikyaku_finalize(void);

/* This rank, from 0 on; and how many ranks there are. */
int hikyaku_rank(void);
int hikyaku_size(void);

/* The (virtual) node that this rank is on, from 0 on; and how many there are. Ranks of a node share
 * one copy of a shared variable. */
int hikyaku_node(void);
int hikyaku_nodes(void);

/* Waits until every rank has come here. */
int hikyaku_barrier(void);


/* ---- Messages ------------------------------------------------------------------------------ */

enum {
    HIKYAKU_ANY_SOURCE = -1, /* any rank's message, the first to arrive first */
    HIKYAKU_ANY_TAG = -1     /* a message of any tag */
};

/* What hikyaku_recv found. */
typedef struct hikyaku_received {
    int source;   /* who sent it */
    int tag;      /* its tag */
    size_t count; /* how many elements it has */
} hikyaku_received;

/* Sends count elements of a type to a rank, and returns when they may be changed again. Tags are 0
 * and greater. data may be NULL if count is 0. */
int hikyaku_send(const void *data, size_t count, int element, int to, int tag);

/* Receives a message, of at most room elements, into the front of into; waits for it. Messages of
 * one rank and tag come in the order in which they were sent. received may be NULL.
 *
 * Errors: HIKYAKU_E_DISAGREE if the message is longer than room (what fits is there) or is no whole
 * number of elements; HIKYAKU_E_PEER if the rank that is waited for has died or left. */
int hikyaku_recv(void *into, size_t room, int element, int from, int tag,
                 hikyaku_received *received);

/* How hikyaku_allreduce combines two elements. Integers wrap around. */
enum hikyaku_op {
    HIKYAKU_SUM = 1,
    HIKYAKU_PRODUCT = 2,
    HIKYAKU_MIN = 3, /* of a NaN and a number, the number */
    HIKYAKU_MAX = 4
};

/* Gives every rank the data of root. Every rank calls it, with the same count. */
int hikyaku_broadcast(void *data, size_t count, int element, int root);

/* Combines the data of all ranks, element by element, in place: every rank gets the same bits.
 * Every rank calls it, with the same count. */
int hikyaku_allreduce(void *data, size_t count, int element, int op);


/* ---- Shared variables ---------------------------------------------------------------------- */

/* A shared variable is an array bound to a lock. Whoever has the lock has the newest contents: many
 * ranks to read or one to write, in the order in which they asked. docs/shared.md says more.
 *
 *     hikyaku_shared x;
 *     uint64_t shape[1] = {1000};
 *     void *data;
 *
 *     hikyaku_shared_create("field", HIKYAKU_DOUBLE, 1, shape, NULL, &x);
 *     if (hikyaku_write_begin(x, 0, HIKYAKU_WAIT, &data, NULL) == 0) {
 *         ((double *)data)[0] += 1;
 *         hikyaku_end(x, 0);
 *     }
 *     hikyaku_shared_free(x);
 */

/* A handle of a shared variable of this rank. Using a freed handle, or {0}, is HIKYAKU_E_ORDER. */
typedef struct hikyaku_shared {
    uint64_t number;
} hikyaku_shared;

enum {
    /* hikyaku_options.flags: if a rank dies with the variable, the others go on with the newest
     * copy that is left, and hikyaku_shared_mark says so. Without, it is HIKYAKU_E_PEER for ever. */
    HIKYAKU_RECOVERABLE = 1,
    /* timeout: until its turn comes */
    HIKYAKU_WAIT = -1
};

/* How a variable is made. All zeros, or NULL in its place: in one part, not recoverable. */
typedef struct hikyaku_options {
    uint64_t rows;    /* rows a part, each with a lock of its own; 0: one part */
    uint64_t columns; /* columns a part, of an array of two dimensions; 0: whole rows */
    uint64_t flags;   /* 0 or HIKYAKU_RECOVERABLE */
} hikyaku_options;

/* Makes a shared variable of zeros. Every rank calls it, with the same arguments, in the same order
 * as other calls that all ranks make. An error at one rank is an error at all of them.
 *
 * Errors: HIKYAKU_E_DISAGREE names the rank whose arguments differ from rank 0's, and in what;
 * HIKYAKU_E_ARGUMENT if the name is taken or the shape is invalid; HIKYAKU_E_ROOM;
 * HIKYAKU_E_PEER if another rank could not make its part. */
int hikyaku_shared_create(const char *name, int element, size_t dimensions, const uint64_t *shape,
                          const hikyaku_options *options, hikyaku_shared *made);

/* Finds a variable that this rank has made, by its name. It gives another handle, to be freed too.
 *
 * Errors: HIKYAKU_E_ARGUMENT if there is none, or if it has elements of another type. */
int hikyaku_shared_find(const char *name, int element, hikyaku_shared *found);

/* Frees a handle. After the last one this rank has done with the variable; others may still use it.
 * Its elements must not be accessed any more.
 *
 * Errors: HIKYAKU_E_ORDER if it is held, or was freed. */
int hikyaku_shared_free(hikyaku_shared shared);

/* Acquires a part of a variable (0 if it has only one) for reading and writing, alone; or for
 * reading, beside other readers. data is set to where the elements are, count to how many there are
 * (NULL: not wanted). They may be used until hikyaku_end and not after.
 *
 * timeout is HIKYAKU_WAIT, or 0 to try once, or how many nanoseconds the turn may take to come.
 *
 * Returns HIKYAKU_BUSY, and sets nothing, if others held it and did not release it in time.
 *
 * Errors: HIKYAKU_E_ORDER if this rank has it already; HIKYAKU_E_PEER if it was lost with a rank that
 * died; HIKYAKU_E_ARGUMENT if there is no such part. */
int hikyaku_write_begin(hikyaku_shared shared, uint64_t part, int64_t timeout, void **data,
                        size_t *count);
int hikyaku_read_begin(hikyaku_shared shared, uint64_t part, int64_t timeout, const void **data,
                       size_t *count);

/* Releases a part that was acquired through this handle.
 *
 * Errors: HIKYAKU_E_ORDER if it is not held. */
int hikyaku_end(hikyaku_shared shared, uint64_t part);

/* What a death has left of the contents. */
enum hikyaku_loss {
    HIKYAKU_WHOLE = 0, /* nothing is wrong */
    HIKYAKU_TORN = 1,  /* they may be in the middle of an update */
    HIKYAKU_STALE = 2  /* they are older than what was lost */
};

typedef struct hikyaku_mark {
    int what;   /* one of hikyaku_loss */
    int victim; /* the rank that died, or -1 */
} hikyaku_mark;

/* What is wrong with a part of a recoverable variable that is held. The end of the next write clears
 * it.
 *
 * Errors: HIKYAKU_E_ORDER if it is not held through this handle. */
int hikyaku_shared_mark(hikyaku_shared shared, uint64_t part, hikyaku_mark *mark);

/* What a node may do with its copy: the states of paper 001. */
enum hikyaku_state {
    HIKYAKU_WLOCK = 0, /* held for writing */
    HIKYAKU_RLOCK = 1, /* held for reading */
    HIKYAKU_CLEAN = 2, /* not held, and the newest */
    HIKYAKU_DIRTY = 3  /* not held, and old */
};

/* The state of a part here, and the node that owns it, as far as this node knows. No message is
 * sent. */
int hikyaku_shared_state(hikyaku_shared shared, uint64_t part);
int hikyaku_shared_owner(hikyaku_shared shared, uint64_t part);

/* Bytes of contents that this rank has fetched from other nodes, and how often. Each may be NULL. */
int hikyaku_shared_moved(hikyaku_shared shared, uint64_t *bytes, uint64_t *times);

/* How many parts a variable has. */
int hikyaku_shared_parts(hikyaku_shared shared, uint64_t *parts);

/* The shape of the array: at most room numbers are stored. Returns how many dimensions it has. */
int hikyaku_shared_shape(hikyaku_shared shared, size_t room, uint64_t *shape);

/* Where a part begins in the array, and its shape, in the same way. Each may be NULL. */
int hikyaku_shared_part(hikyaku_shared shared, uint64_t part, size_t room, uint64_t *origin,
                        uint64_t *shape);

#ifdef __cplusplus
}
#endif

#endif
