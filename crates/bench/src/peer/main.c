/*
 * The comparison program of `hikyaku bench`: the same measurements through MPI.
 *
 * It is built with a peer's own mpicc and started with that peer's mpiexec. Every rank connects to
 * the conductor's Unix socket (argv[1]), sends its rank, and then sleeps in read(2) between the
 * blocks that it runs, so that it does not disturb other measurements in the meantime. The
 * protocol is that of control.rs: a command is one line of seven words, an answer one line of JSON.
 *
 *   command:  VERB BYTES ALLOCATED WINDOW BATCHES REPETITIONS WARM
 *   answer:   {"nanoseconds":[...]} | {"resident_kib":..,"shared_kib":..} | {"error":".."}
 *
 * With the single argument "start" it initialises, passes one barrier and leaves.
 */
#define _GNU_SOURCE
#include "peer.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* All buffers of a measurement together and a cache line, as in buffers.rs. */
static const unsigned long long BUFFER_LIMIT = 4ull << 30, LINE_BYTES = 64;

int rank, size, from;
char *set[2];
static char *buffer;
static unsigned long long capacity;
static unsigned long long elapsed[BATCH_LIMIT];

unsigned long long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (unsigned long long)t.tv_sec * 1000000000ull + (unsigned long long)t.tv_nsec;
}

void take_turns(const struct command *c) {
    if (!c->warm) from = 1 - from;
}

static int reserve(unsigned long long bytes) {
    if (bytes <= capacity) return 1;
    free(buffer);
    capacity = 0;
    /* From malloc, where a program's buffers are and ours too: its alignment is part of the cost.
       Written once, so that no page fault is timed. */
    buffer = malloc(bytes);
    if (!buffer) return 0;
    memset(buffer, 1, bytes);
    capacity = bytes;
    return 1;
}

/* What the command asks for is checked here, before anything is computed from it. */
static const char *refusal(const struct command *c, const struct measurement *m) {
    static const char too_much[] = "the command asks for more than the program has";
    if (c->batches > BATCH_LIMIT || c->window > WINDOW_LIMIT || c->bytes > BYTES_LIMIT)
        return too_much;
    unsigned long long bytes = c->bytes * m->blocks(c);
    /* What is warm shares no cache line with what is received. */
    unsigned long long lines = (bytes + LINE_BYTES - 1) / LINE_BYTES + 1;
    unsigned long long second = c->warm ? lines * LINE_BYTES : bytes * (m->sets - 1);
    if (second + bytes > BUFFER_LIMIT || !reserve(second + bytes + 8)) return too_much;
    from = 0;
    set[0] = buffer;
    set[1] = buffer + second;
    return m->prepare ? m->prepare(c) : NULL;
}

static void measure(FILE *answer, const struct command *c, const struct measurement *m) {
    const char *refused = refusal(c, m);
    if (refused) {
        fprintf(answer, "{\"error\":\"%s\"}\n", refused);
        return;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (unsigned b = 0; b < c->batches; b++) elapsed[b] = m->run(c);
    if (m->clean_up) m->clean_up();
    fprintf(answer, "{\"nanoseconds\":[");
    for (unsigned b = 0; b < c->batches; b++) fprintf(answer, b ? ",%llu" : "%llu", elapsed[b]);
    fprintf(answer, "]}\n");
}

static const struct measurement *find(const char *verb) {
    const struct measurement *tables[] = {messages, collectives, exchanges};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const struct measurement *m = tables[t]; m->verb; m++)
            if (!strcmp(m->verb, verb)) return m;
    return NULL;
}

static void memory(FILE *answer) {
    unsigned long long resident = 0, shared = 0;
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) {
        sscanf(line, "VmRSS: %llu", &resident);
        sscanf(line, "RssShmem: %llu", &shared);
    }
    if (status) fclose(status);
    fprintf(answer, "{\"resident_kib\":%llu,\"shared_kib\":%llu}\n", resident, shared);
}

/* `block` receives what the other rank's `release` sends: what an idle rank costs. */
static void idle(FILE *answer, int blocked) {
    char byte = 0;
    if (blocked) MPI_Recv(&byte, 1, MPI_BYTE, 1 - rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else MPI_Send(&byte, 1, MPI_BYTE, 1 - rank, TAG, MPI_COMM_WORLD);
    fprintf(answer, "{\"nanoseconds\":[]}\n");
}

static void hello(FILE *answer) {
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0, first = 1;
    cpu_set_t set;
    MPI_Get_library_version(library, &length);
    for (char *c = library; *c; c++) {
        if (*c == '\n' || *c == '\r') *c = '\0';
        else if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ') *c = ' ';
        if (!*c) break;
    }
    fprintf(answer, "{\"rank\":%d,\"size\":%d,\"pid\":%d,\"library\":\"%s\",\"cpus\":[", rank, size,
            (int)getpid(), library);
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &set)) continue;
        fprintf(answer, first ? "%d" : ",%d", cpu);
        first = 0;
    }
    fprintf(answer, "]}\n");
}

static int connect_to(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) return -1;
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) return -1;
    return fd;
}

/* Until "quit", or until the conductor has gone. */
static void serve(FILE *commands, FILE *answers) {
    char line[256];
    hello(answers);
    fflush(answers);
    while (fgets(line, sizeof line, commands)) {
        struct command c;
        const struct measurement *m;
        if (sscanf(line, "%15s %llu %u %u %u %llu %u", c.verb, &c.bytes, &c.allocated, &c.window,
                   &c.batches, &c.repetitions, &c.warm) != 7)
            fprintf(answers, "{\"error\":\"a malformed command\"}\n");
        else if ((m = find(c.verb))) measure(answers, &c, m);
        else if (!strcmp(c.verb, "memory")) memory(answers);
        else if (!strcmp(c.verb, "block")) idle(answers, 1);
        else if (!strcmp(c.verb, "release")) idle(answers, 0);
        else if (!strcmp(c.verb, "quit")) return;
        else fprintf(answers, "{\"error\":\"an unknown command\"}\n");
        fflush(answers);
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc == 2 && !strcmp(argv[1], "start")) {
        MPI_Barrier(MPI_COMM_WORLD);
    } else {
        int fd = argc == 2 ? connect_to(argv[1]) : -1;
        FILE *commands = fd < 0 ? NULL : fdopen(fd, "r");
        FILE *answers = fd < 0 ? NULL : fdopen(dup(fd), "w");
        if (!commands || !answers) {
            fprintf(stderr, "peer: cannot connect to the conductor\n");
            MPI_Abort(MPI_COMM_WORLD, 2);
            return 2;
        }
        serve(commands, answers);
        fclose(answers);
        fclose(commands);
    }
    free(buffer);
    MPI_Finalize();
    return 0;
}
