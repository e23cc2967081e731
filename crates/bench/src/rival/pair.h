/*
 * What the programs of a rival have in common: two processes, each pinned to a core of its own,
 * which connect to the conductor's Unix socket and obey the commands of control.rs:
 *
 *   VERB BYTES ALLOCATED WINDOW BATCHES REPETITIONS WARM
 *
 * A program includes this file and defines what it declares.
 */
#ifndef PAIR_H
#define PAIR_H

#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BATCH_LIMIT = 1000 };

struct command {
    char verb[16];
    unsigned long long bytes;
    unsigned batches;
    unsigned long long repetitions;
    unsigned warm; /* what is sent is the same untouched buffer each time */
};

static int rank;
static char library[64]; /* what the program uses, with version */

/* What a process does once it is pinned, before its first command. */
static void begin(void);
/* Makes ready for a command; what is wrong with it, or NULL. */
static const char *prepare(const struct command *);
/* One repetition. */
static void repeat(const struct command *);
/* After the last repetition of a command. */
static void finish(const struct command *);

static void fail(const char *what) {
    fprintf(stderr, "rival: %s: %s\n", what, strerror(errno));
    exit(1);
}

static unsigned long long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (unsigned long long)t.tv_sec * 1000000000ull + (unsigned long long)t.tv_nsec;
}

/* To a core of its own, if there are two. */
static void pin(void) {
    cpu_set_t all, one;
    int found = 0;
    if (sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < 2) return;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all) || found++ != rank) continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof one, &one);
        return;
    }
}

static void hello(FILE *answers) {
    cpu_set_t set;
    int listed = 0;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    fprintf(answers, "{\"rank\":%d,\"size\":2,\"pid\":%d,\"library\":\"%s\",\"cpus\":[", rank,
            (int)getpid(), library);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set)) fprintf(answers, listed++ ? ",%d" : "%d", cpu);
    fprintf(answers, "]}\n");
}

static void measure(FILE *answers, const struct command *c) {
    static unsigned long long elapsed[BATCH_LIMIT];
    const char *refused = "the command asks for more than the program has";
    if (c->batches > BATCH_LIMIT || (refused = prepare(c))) {
        fprintf(answers, "{\"error\":\"%s\"}\n", refused);
        return;
    }
    for (unsigned b = 0; b < c->batches; b++) {
        unsigned long long start = now_ns();
        for (unsigned long long r = 0; r < c->repetitions; r++) repeat(c);
        elapsed[b] = now_ns() - start;
    }
    finish(c);
    fprintf(answers, "{\"nanoseconds\":[");
    for (unsigned b = 0; b < c->batches; b++) fprintf(answers, b ? ",%llu" : "%llu", elapsed[b]);
    fprintf(answers, "]}\n");
}

/* Until "quit", or until the conductor has gone. */
static void serve(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || strlen(path) >= sizeof address.sun_path) fail(path);
    strcpy(address.sun_path, path);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) fail(path);
    FILE *commands = fdopen(fd, "r"), *answers = fdopen(dup(fd), "w");
    char line[256];
    if (!commands || !answers) fail(path);
    hello(answers);
    fflush(answers);
    while (fgets(line, sizeof line, commands)) {
        struct command c;
        if (sscanf(line, "%15s %llu %*u %*u %u %llu %u", c.verb, &c.bytes, &c.batches,
                   &c.repetitions, &c.warm) != 5)
            fprintf(answers, "{\"error\":\"a malformed command\"}\n");
        else if (!strcmp(c.verb, "quit")) return;
        else measure(answers, &c);
        fflush(answers);
    }
}

/* Starts both and waits for them: the exit code. One that fails ends the other. */
static int run_pair(const char *path) {
    pid_t parent = getpid(), children[2];
    for (rank = 0; rank < 2; rank++) {
        if ((children[rank] = fork()) < 0) fail("fork");
        if (children[rank] > 0) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) exit(1);
        pin();
        begin();
        serve(path);
        exit(0);
    }
    for (int left = 2, status = 0; left > 0;) {
        pid_t ended = wait(&status);
        if (ended != children[0] && ended != children[1]) continue;
        left--;
        if (status == 0) continue;
        kill(children[ended == children[0]], SIGKILL);
        return 1;
    }
    return 0;
}

#endif
