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
 *     hikyaku run starts a job: several processes, called ranks, of one program. A program that is
 *     started without it is a world of one rank. See docs/c.md for a guide.
 *
 *     One thread of a process is the rank: the one that calls hikyaku_init. A call from another
 *     thread is an error, except for hikyaku_error and hikyaku_version. A child process that a rank
 *     forks is not a rank: it must not call these functions, and must end with exec or _exit.
 *
 *     A rank whose process ends without hikyaku_finalize has died: ranks that wait for it get an
 *     error. If its exit code is not 0, hikyaku run ends the job.
 *
 * RETURN VALUE
 *
 *     All functions except the two that return a string return an int:
 *
 *       0       done; or a number, if the function returns one
 *       > 0     HIKYAKU_BUSY: not done, but not an error; or a number
 *       < 0     an error, one of hikyaku_code. hikyaku_error returns a line with the reason.
 *
 *     A call that fails changes nothing, unless its description says otherwise. Arguments are
 *     checked before anything is sent.
 */

#ifndef HIKYAKU_H
#define HIKYAKU_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What functions return, unless they return a number. */
enum hikyaku_code {
    HIKYAKU_OK = 0,          /* done */
    HIKYAKU_BUSY = 1,        /* other ranks held the variable and did not release it in time */
    HIKYAKU_E_ARGUMENT = -1, /* an invalid argument: NULL, a rank or name that does not exist */
    HIKYAKU_E_ORDER = -2,    /* a call out of order: before hikyaku_init, or on a variable that is
                                already held, not held, or freed */
    HIKYAKU_E_THREAD = -3,   /* not the rank's thread, or a process forked from it */
    HIKYAKU_E_PEER = -4,     /* another rank died, left the job, or abandoned the call */
    HIKYAKU_E_DISAGREE = -5, /* ranks passed arguments that do not match */
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

/* The reason of this thread's last failed call, in one line; "" if no call has failed. It is valid
 * until the next failed call of this thread, and must not be changed or freed. */
const char *hikyaku_error(void);

/* The version of the library, such as "0.1.0". */
const char *hikyaku_version(void);


/* ---- The job ------------------------------------------------------------------------------- */

/* Joins the job, once, as the rank that the environment names.
 *
 * Errors: HIKYAKU_E_ORDER if this thread has called it before; HIKYAKU_E_THREAD if another has;
 * HIKYAKU_E_JOB, for example if another process is this rank. */
int hikyaku_init(void);

/* Leaves the job in order: messages that were sent arrive, and variables remain as long as a rank
 * uses them. All handles of shared variables become invalid, and the process cannot join again.
 *
 * Errors: HIKYAKU_E_ORDER if a shared variable is held. */
int hikyaku_finalize(void);

/* This rank's number, from 0, and the number of ranks. */
int hikyaku_rank(void);
int hikyaku_size(void);

/* The number of this rank's (virtual) node, from 0, and the number of nodes. Ranks of a node share
 * one copy of a shared variable. */
int hikyaku_node(void);
int hikyaku_nodes(void);

/* Waits until every rank has called it. */
int hikyaku_barrier(void);


/* ---- Messages ------------------------------------------------------------------------------ */

enum {
    HIKYAKU_ANY_SOURCE = -1, /* a message from any rank, in order of arrival */
    HIKYAKU_ANY_TAG = -1     /* a message of any tag */
};

/* What hikyaku_recv found. */
typedef struct hikyaku_received {
    int source;   /* the sender's rank */
    int tag;      /* the message's tag */
    size_t count; /* its number of elements */
} hikyaku_received;

/* Sends count elements of a type to a rank, and returns when they may be changed again. Tags are
 * not negative. data may be NULL if count is 0. */
int hikyaku_send(const void *data, size_t count, int element, int to, int tag);

/* Waits for a message of at most room elements and stores it at the start of into. Messages of one
 * rank and tag arrive in the order in which they were sent. received may be NULL.
 *
 * Errors: HIKYAKU_E_DISAGREE if the message is longer than room (its first room elements are
 * stored) or not a whole number of elements; HIKYAKU_E_PEER if the awaited rank has died or
 * left. */
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

/* A shared variable is an array bound to a lock. A rank that holds the lock sees the newest
 * contents. Many ranks can hold it for reading, or one for writing, in the order of their requests.
 * See docs/shared.md.
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
    /* hikyaku_options.flags: if a rank dies while it holds the variable or its only new copy, the
     * others continue with the newest remaining copy, and hikyaku_shared_mark reports it. Without
     * this flag, all later calls return HIKYAKU_E_PEER. */
    HIKYAKU_RECOVERABLE = 1,
    /* timeout: wait without a limit */
    HIKYAKU_WAIT = -1
};

/* How a variable is made. All zeros, or a NULL pointer: one part, not recoverable. */
typedef struct hikyaku_options {
    uint64_t rows;    /* rows per part; each part has its own lock; 0: one part */
    uint64_t columns; /* columns per part, for an array of two dimensions; 0: whole rows */
    uint64_t flags;   /* 0 or HIKYAKU_RECOVERABLE */
} hikyaku_options;

/* Makes a shared variable of zeros. Every rank calls it, with the same arguments, in the same order
 * as other calls that all ranks make. An error at one rank is an error at all of them.
 *
 * Errors: HIKYAKU_E_DISAGREE if a rank's arguments differ from rank 0's (hikyaku_error names the
 * rank and the argument); HIKYAKU_E_ARGUMENT if the name is taken or the shape is invalid;
 * HIKYAKU_E_ROOM; HIKYAKU_E_PEER if another rank could not make its part. */
int hikyaku_shared_create(const char *name, int element, size_t dimensions, const uint64_t *shape,
                          const hikyaku_options *options, hikyaku_shared *made);

/* Finds a variable that this rank has made, by its name. Returns another handle, which must be
 * freed too.
 *
 * Errors: HIKYAKU_E_ARGUMENT if there is no such variable, or if its elements have another type. */
int hikyaku_shared_find(const char *name, int element, hikyaku_shared *found);

/* Frees a handle. A rank that has freed its last handle no longer uses the variable, and must not
 * access its elements any more. Other ranks may still use it.
 *
 * Errors: HIKYAKU_E_ORDER if it is held, or was freed. */
int hikyaku_shared_free(hikyaku_shared shared);

/* Acquires a part of a variable (0 if it has only one) for reading and writing, alone; or for
 * reading, beside other readers. data is set to the address of the elements, and count to their
 * number (count may be NULL). They may be used until hikyaku_end.
 *
 * timeout is HIKYAKU_WAIT, or 0 to try once, or the maximum time to wait in nanoseconds.
 *
 * Returns HIKYAKU_BUSY, and sets nothing, if other ranks held it and did not release it in time.
 *
 * Errors: HIKYAKU_E_ORDER if this rank already holds it; HIKYAKU_E_PEER if it was lost with a rank
 * that died; HIKYAKU_E_ARGUMENT if there is no such part. */
int hikyaku_write_begin(hikyaku_shared shared, uint64_t part, int64_t timeout, void **data,
                        size_t *count);
int hikyaku_read_begin(hikyaku_shared shared, uint64_t part, int64_t timeout, const void **data,
                       size_t *count);

/* Releases a part that was acquired through this handle.
 *
 * Errors: HIKYAKU_E_ORDER if it is not held. */
int hikyaku_end(hikyaku_shared shared, uint64_t part);

/* The state of the contents after a rank's death. */
enum hikyaku_loss {
    HIKYAKU_WHOLE = 0, /* undamaged */
    HIKYAKU_TORN = 1,  /* possibly in the middle of an update */
    HIKYAKU_STALE = 2  /* an older copy; a newer one was lost */
};

typedef struct hikyaku_mark {
    int what;   /* one of hikyaku_loss */
    int victim; /* the rank that died, or -1 */
} hikyaku_mark;

/* The damage to a held part of a recoverable variable. The end of the next write clears it.
 *
 * Errors: HIKYAKU_E_ORDER if it is not held through this handle. */
int hikyaku_shared_mark(hikyaku_shared shared, uint64_t part, hikyaku_mark *mark);

/* The states of a node's copy, as in paper 001. */
enum hikyaku_state {
    HIKYAKU_WLOCK = 0, /* held for writing */
    HIKYAKU_RLOCK = 1, /* held for reading */
    HIKYAKU_CLEAN = 2, /* not held, up to date */
    HIKYAKU_DIRTY = 3  /* not held, outdated */
};

/* The state of this node's copy of a part, and the part's owner node, which may be out of date. No
 * message is sent. */
int hikyaku_shared_state(hikyaku_shared shared, uint64_t part);
int hikyaku_shared_owner(hikyaku_shared shared, uint64_t part);

/* Bytes of contents that this rank has fetched from other nodes, and the number of fetches. Each
 * pointer may be NULL. */
int hikyaku_shared_moved(hikyaku_shared shared, uint64_t *bytes, uint64_t *times);

/* The number of parts of a variable. */
int hikyaku_shared_parts(hikyaku_shared shared, uint64_t *parts);

/* Stores the shape of the array, at most room numbers. Returns the number of dimensions. */
int hikyaku_shared_shape(hikyaku_shared shared, size_t room, uint64_t *shape);

/* Stores the first index of a part in the array, and its shape, in the same way. Each pointer
 * may be NULL. */
int hikyaku_shared_part(hikyaku_shared shared, uint64_t part, size_t room, uint64_t *origin,
                        uint64_t *shape);

#ifdef __cplusplus
}
#endif

#endif
