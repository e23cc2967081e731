/* A rank computes without MPI calls until another rank has made progress. The first argument selects
 * what the other rank needs, the second is the file by which it reports progress, and the third is the
 * time limit in seconds. Prints whether the report came in time. Only for our own library. */
#define _POSIX_C_SOURCE 200809L

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { LENGTH = 8 << 20 };

static unsigned char mine[LENGTH], theirs[LENGTH];

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void nap(long milliseconds) {
    nanosleep(&(struct timespec){.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1000000}, NULL);
}

/* Whether the file is there within so many seconds. */
static int compute_until(const char *file, double limit) {
    const double start = seconds(CLOCK_MONOTONIC);
    while (access(file, F_OK) != 0) {
        if (seconds(CLOCK_MONOTONIC) - start > limit) return 0;
        nap(1);
    }
    return 1;
}

static void say(const char *file) {
    FILE *said = fopen(file, "w");
    CHECK(said != NULL);
    fclose(said);
}

/* Threads of this process that have the name. */
static int named(const char *name) {
    int found = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        char path[300], text[64] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = fopen(path, "r");
        if (file == NULL) continue;
        if (fgets(text, sizeof text, file) != NULL) found += strncmp(text, name, strlen(name)) == 0;
        fclose(file);
    }
    closedir(tasks);
    return found;
}

static pthread_t main_thread;
static int elsewhere;

static void add(void *in, void *inout, int *count, MPI_Datatype *type) {
    (void)type;
    elsewhere |= !pthread_equal(pthread_self(), main_thread);
    for (int at = 0; at < *count; at++) ((int *)inout)[at] += ((int *)in)[at];
}

/* Rank 0 has begun something and computes; rank 1 needs it to go on. */
static void exchange(const char *what, const char *file, double limit) {
    MPI_Request request;
    const int sends = strcmp(what, "send") == 0;
    if (rank == 0) {
        if (sends) MPI_Isend(mine, LENGTH, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
        else MPI_Irecv(theirs, LENGTH, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
        printf("%s\n", compute_until(file, limit) ? "in time" : "late");
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        if (sends) MPI_Recv(theirs, LENGTH, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else MPI_Send(mine, LENGTH, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        say(file);
    }
    if (rank == !sends ? 0 : 1) EQUAL(memcmp(theirs, mine, LENGTH), 0);
}

/* The same of a reduction of everybody, by an operation of MPI or of the program: so long that ranks combine for each
 * other. */
static void combine(MPI_Op op, const char *file, double limit) {
    enum { COUNT = 1 << 20 };
    static int one[COUNT], all[COUNT];
    MPI_Request request;
    for (int at = 0; at < COUNT; at++) one[at] = at;
    MPI_Iallreduce(one, all, COUNT, MPI_INT, op, MPI_COMM_WORLD, &request);
    if (rank == 0) {
        printf("%s\n", compute_until(file, limit) ? "in time" : "late");
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        say(file);
    }
    for (int at = 0; at < COUNT; at++) EQUAL(all[at], one[at] * size);
}

/* Messages of all kinds between waits that the thread gives way to. */
static void talk(void) {
    const int peer = size - 1 - rank;
    MPI_Request requests[2];
    for (int turn = 0; turn < 3000; turn++) {
        const int length = turn % 500 == 0 ? 300000 : turn % 97;
        MPI_Irecv(theirs, length, MPI_BYTE, peer, turn, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(mine, length, MPI_BYTE, peer, turn, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        if (turn % 1000 == 0) nap(5);
    }
    EQUAL(memcmp(theirs, mine, 96), 0);
}

int main(int argc, char **argv) {
    int level;
    CHECK(argc == 4);
    const char *what = argv[1], *file = argv[2];
    const double limit = atof(argv[3]);
    main_thread = pthread_self();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int at = 0; at < LENGTH; at++) mine[at] = (unsigned char)(at * 7);
    MPI_Query_thread(&level);
    EQUAL(level, MPI_THREAD_SINGLE);
    MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(what, "sum") == 0) combine(MPI_SUM, file, limit);
    else if (strcmp(what, "own") == 0) {
        MPI_Op op;
        MPI_Op_create(add, 1, &op);
        combine(op, file, limit);
        EQUAL(elsewhere, 0);
        MPI_Op_free(&op);
    } else if (strcmp(what, "talk") == 0) talk();
    else if (strcmp(what, "idle") == 0) {
        nap(100);
        const double before = seconds(CLOCK_PROCESS_CPUTIME_ID);
        nap(1000);
        const double used = seconds(CLOCK_PROCESS_CPUTIME_ID) - before;
        fprintf(stderr, "%.4f s of a processor in 1 s\n", used);
        CHECK(used < 0.05);
    } else if (strcmp(what, "fork") == 0) {
        for (int turn = 0; turn < 20; turn++) {
            const pid_t child = fork();
            if (child == 0) {
                alarm(20);
                exit(7);
            }
            int status;
            CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
            EQUAL(WEXITSTATUS(status), 7);
            MPI_Barrier(MPI_COMM_WORLD);
        }
    } else if (strcmp(what, "exit") == 0) exit(0);
    else if (strcmp(what, "abort") == 0) {
        if (rank == 0) MPI_Abort(MPI_COMM_WORLD, 3);
    } else exchange(what, file, limit);
    MPI_Barrier(MPI_COMM_WORLD);
    EQUAL(named("hikyaku-progre"), limit > 0 && getenv("HIKYAKU_PROGRESS_THREAD") != NULL);
    const int code = end();
    EQUAL(named("hikyaku-progre"), 0);
    return code;
}
