/* What the tests of MPI in C share: checks that name their line, and who one is. A test is right if
 * it passes on every library of the standard's binary interface; it prints nothing and ends with 0. */

#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

static void check_failed(const char *file, int line, const char *what, long is) {
    fprintf(stderr, "%s:%d: rank %d of %d: %s (%ld)\n", file, line, rank, size, what, is);
    MPI_Abort(MPI_COMM_WORLD, 9);
    abort();
}

/* A condition that holds. */
#define CHECK(condition) \
    ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, #condition, 0))

/* Two integers that are equal. */
#define EQUAL(is, should)                                            \
    do {                                                             \
        long is_ = (long)(is);                                       \
        if (is_ != (long)(should))                                   \
            check_failed(__FILE__, __LINE__, #is " is not " #should, is_); \
    } while (0)

/* The class of a call's error code. */
static inline int class_of(int code) {
    int class = -1;
    MPI_Error_class(code, &class);
    return class;
}

#define CLASS(call, class) EQUAL(class_of(call), class)

static inline void begin(int *argc, char ***argv) {
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
}

static inline int end(void) {
    MPI_Finalize();
    return 0;
}

/* Whether this is our own library. Others may leave out what the standard asks for: MPICH 5.0.2, as
 * it comes from PyPI, checks some arguments only, writes no status for MPI_Isendrecv, and returns
 * MPI_SUCCESS after a handler of the program's own. */
static inline int is_hikyaku(void) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(text, &length);
    return strncmp(text, "hikyaku", 7) == 0;
}

/* Ranks of MPICH 5.0.2 that end their last session and begin MPI again sometimes get messages of the
 * time before, and hang: there a session stays open from the first call to the last. */
static inline MPI_Session kept_open(MPI_Info info) {
    MPI_Session session = MPI_SESSION_NULL;
    if (!is_hikyaku()) EQUAL(MPI_Session_init(info, MPI_ERRORS_ARE_FATAL, &session), MPI_SUCCESS);
    return session;
}

static inline void close_kept(MPI_Session session) {
    if (session != MPI_SESSION_NULL) MPI_Session_finalize(&session);
}

/* The next and the previous rank of a ring. */
static inline int right(void) { return (rank + 1) % size; }
static inline int left(void) { return (rank + size - 1) % size; }

/* A ring and a sum in a communicator. */
static inline void works(MPI_Comm comm) {
    int here, many, got, sum;
    MPI_Comm_rank(comm, &here);
    MPI_Comm_size(comm, &many);
    MPI_Sendrecv(&here, 1, MPI_INT, (here + 1) % many, 0, &got, 1, MPI_INT,
                 (here + many - 1) % many, 0, comm, MPI_STATUS_IGNORE);
    EQUAL(got, (here + many - 1) % many);
    MPI_Allreduce(&here, &sum, 1, MPI_INT, MPI_SUM, comm);
    EQUAL(sum, many * (many - 1) / 2);
}

#endif
