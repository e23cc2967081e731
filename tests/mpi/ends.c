/* How a job of 4 ranks ends: the argument says. Only for our own library. */
#define _POSIX_C_SOURCE 200809L

#include <hikyaku.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static int is(const char *argument, const char *name) { return strcmp(argument, name) == 0; }

/* The C interface joins the job, and MPI finds the rank that is there. */
static void first(void) {
    CHECK(hikyaku_init() == 0);
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    EQUAL(rank, hikyaku_rank());
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    EQUAL(size, hikyaku_size());
    int sum;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    EQUAL(sum, size * (size - 1) / 2);
    MPI_Finalize();
    CHECK(hikyaku_finalize() == 0);
}

/* More than a pipe holds, so that SIGPIPE ends the ranks while they wait for each other. */
static void print_together(void) {
    for (int at = 0; at < 1000000; at++) {
        printf("line %d of rank %d\n", at, rank);
        fflush(stdout);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* More than there is room for on the way, to a rank that receives none of it. */
static void send_unreceived(void) {
    static char bytes[1000];
    MPI_Request request;
    for (int at = 0; at < 1000; at++) {
        MPI_Isend(bytes, sizeof bytes, MPI_CHAR, (rank + 1) % size, 0, MPI_COMM_WORLD, &request);
    }
}

/* The last call of the job, in which each rank sends and none receives. Whether it is such a one. */
static int calls_with_other_roots(const char *call) {
    int mine = rank, all[4] = {0}, next = (rank + 1) % size;
    if (is(call, "reduce"))
        return MPI_Reduce(&mine, all, 1, MPI_INT, MPI_SUM, next, MPI_COMM_WORLD), 1;
    if (is(call, "gather"))
        return MPI_Gather(&mine, 1, MPI_INT, all, 1, MPI_INT, next, MPI_COMM_WORLD), 1;
    if (is(call, "bcast")) return MPI_Bcast(&mine, 1, MPI_INT, rank, MPI_COMM_WORLD), 1;
    if (is(call, "scatter"))
        return MPI_Scatter(all, 1, MPI_INT, &mine, 1, MPI_INT, rank, MPI_COMM_WORLD), 1;
    if (is(call, "another")) {
        /* At rank 1 the second one has the lower handle: the place that was freed before. */
        MPI_Comm both[2], own[70];
        for (int at = 0; rank == 1 && at < 70; at++) MPI_Comm_dup(MPI_COMM_SELF, &own[at]);
        for (int at = 70; rank == 1 && at-- > 0;) MPI_Comm_free(&own[at]);
        for (int at = 0; at < 2; at++) {
            MPI_Comm_dup(MPI_COMM_WORLD, &both[at]);
            /* The first call waits. */
            MPI_Barrier(both[at]);
            MPI_Bcast(&mine, 1, MPI_INT, at ? rank : 0, both[at]);
        }
        return CHECK((MPI_Comm_toint(both[1]) > MPI_Comm_toint(both[0])) == (rank != 1)), 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 2) return 9;
    if (is(argv[1], "first")) return first(), 0;
    begin(&argc, &argv);
    int from = -1;
    MPI_Request request;
    if (is(argv[1], "uneven")) {
        /* Rank 2 alone finds that it is wrong, and the others hear that it has failed. */
        int counts[4] = {1, 1, 1, 1}, places[4] = {0, 1, 2, 3}, takes[4] = {1, 1, rank != 2, 1};
        int out[4] = {0}, in[4];
        MPI_Alltoallv(out, counts, places, MPI_INT, in, takes, places, MPI_INT, MPI_COMM_WORLD);
    }
    if (is(argv[1], "all")) MPI_Send(&rank, -1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    if (is(argv[1], "printing")) print_together();
    if (calls_with_other_roots(argv[1])) return end();
    if (is(argv[1], "early")) {
        /* As a rank of mpi4py that an exception ends: the others still want something of it. */
        MPI_Bcast(&from, 1, MPI_INT, 1, MPI_COMM_WORLD);
        if (rank != 1) MPI_Recv(&from, 1, MPI_INT, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return end();
    }
    if (is(argv[1], "unreceived")) return send_unreceived(), end();
    if (is(argv[1], "open")) {
        /* Nobody sends this: it is dropped. */
        MPI_Irecv(&from, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &request);
        return end();
    }
    if (rank == 1) {
        if (is(argv[1], "one")) MPI_Bcast(&rank, 1, MPI_INT, 77, MPI_COMM_WORLD);
        if (is(argv[1], "abort 0")) MPI_Abort(MPI_COMM_WORLD, 0);
        if (is(argv[1], "abort 7")) MPI_Abort(MPI_COMM_WORLD, 7);
        if (is(argv[1], "abort 256")) MPI_Abort(MPI_COMM_WORLD, 256);
        if (is(argv[1], "killed")) raise(SIGKILL);
        if (is(argv[1], "told")) raise(SIGKILL);
    }
    if (is(argv[1], "told")) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        CLASS(MPI_Recv(&from, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
              MPI_ERR_PROC_ABORTED);
        int code = MPI_Barrier(MPI_COMM_WORLD), length;
        char text[MPI_MAX_ERROR_STRING];
        CLASS(code, MPI_ERR_PROC_ABORTED);
        MPI_Error_string(code, text, &length);
        CHECK(strncmp(text, "a process has ended: ", 21) == 0);
        printf("told\n");
        return 0;
    }
    if (is(argv[1], "own") && rank == 3) MPI_Send(&rank, 1, MPI_INT, 2, 0, MPI_COMM_SELF);
    /* One that is in no call of MPI ends as well. */
    if (rank == 2) pause();
    MPI_Barrier(MPI_COMM_WORLD);
    return end();
}
