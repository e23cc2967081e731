/* Persistent collectives by session queues. When all ranks have started, one rank waits for its result
 * while the others compute without MPI calls. Then the others have their results too: the first test
 * of each succeeds. Ranks notify each other by files. Run with options such as --coll barrier=session. */
#define _GNU_SOURCE
#include "check.h"
#include <math.h>
#include <time.h>
#include <unistd.h>

enum { KINDS = 6, LENGTH = 20000, ROUNDS = 4, SECONDS = 30 };

static char folder[64];

static void name_of(char *name, const char *what, int kind, int round, int who) {
    sprintf(name, "%s/%s-%d-%d-%d", folder, what, kind, round, who);
}

static void tell(const char *what, int kind, int round, int who) {
    char name[128];
    name_of(name, what, kind, round, who);
    FILE *file = fopen(name, "w");
    CHECK(file != NULL);
    fclose(file);
}

/* Computes until a file is there. */
static void until(const char *what, int kind, int round, int who) {
    char name[128];
    name_of(name, what, kind, round, who);
    time_t end = time(NULL) + SECONDS;
    while (access(name, F_OK) != 0) {
        CHECK(time(NULL) < end);
        usleep(100);
    }
}

static double given[LENGTH], mine[LENGTH];
static int *all;

static MPI_Request make(int kind) {
    MPI_Request made;
    MPI_Comm comm = MPI_COMM_WORLD;
    switch (kind) {
    case 0: MPI_Barrier_init(comm, MPI_INFO_NULL, &made); break;
    case 1: MPI_Bcast_init(mine, LENGTH, MPI_DOUBLE, size - 1, comm, MPI_INFO_NULL, &made); break;
    case 2: MPI_Allgather_init(given, 999, MPI_INT, all, 999, MPI_INT, comm, MPI_INFO_NULL, &made); break;
    case 3:
        MPI_Allgather_init(MPI_IN_PLACE, 0, MPI_INT, all, 999, MPI_INT, comm, MPI_INFO_NULL, &made);
        break;
    case 4:
        MPI_Allreduce_init(given, mine, LENGTH, MPI_DOUBLE, MPI_SUM, comm, MPI_INFO_NULL, &made);
        break;
    default:
        MPI_Allreduce_init(MPI_IN_PLACE, mine, LENGTH, MPI_DOUBLE, MPI_MAX, comm, MPI_INFO_NULL, &made);
        break;
    }
    return made;
}

static void fill(int kind, int round) {
    for (int at = 0; at < LENGTH; at++) given[at] = mine[at] = 100 * round + rank + at;
    for (int at = 0; at < 999 * size; at++) all[at] = -1;
    if (kind == 2) for (int at = 0; at < 999; at++) ((int *)given)[at] = 100 * round + rank;
    if (kind == 3) for (int at = 0; at < 999; at++) all[rank * 999 + at] = 100 * round + rank;
    /* Of a NaN and a number, the NaN, as of the other forms. */
    if (kind == 5 && rank == 0) mine[7] = NAN;
}

static void look(int kind, int round) {
    for (int at = 0; at < LENGTH; at += 7) {
        double sum = size * (100.0 * round + at) + size * (size - 1) / 2;
        if (kind == 1) CHECK(mine[at] == 100 * round + size - 1 + at);
        if (kind == 4) CHECK(mine[at] == sum);
        if (kind == 5 && at != 7) CHECK(mine[at] == 100 * round + size - 1 + at);
        if (kind == 5 && at == 7) CHECK(isnan(mine[at]));
    }
    if (kind == 2 || kind == 3)
        for (int at = 0; at < 999 * size; at++) EQUAL(all[at], 100 * round + at / 999);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    all = malloc(sizeof(int) * 999 * size);
    strcpy(folder, "/tmp/hikyaku-offloaded-XXXXXX");
    if (rank == 0) CHECK(mkdtemp(folder) != NULL);
    MPI_Bcast(folder, sizeof folder, MPI_CHAR, 0, MPI_COMM_WORLD);
    for (int kind = 0; kind < KINDS; kind++) {
        MPI_Request kept = make(kind);
        for (int round = 0; round < ROUNDS; round++) {
            int waits = round % size, done = 0;
            fill(kind, round);
            MPI_Start(&kept);
            tell("started", kind, round, rank);
            if (rank == waits) {
                for (int other = 0; other < size; other++) until("started", kind, round, other);
                MPI_Wait(&kept, MPI_STATUS_IGNORE);
                tell("done", kind, round, 0);
            } else {
                until("done", kind, round, 0);
                MPI_Test(&kept, &done, MPI_STATUS_IGNORE);
                CHECK(done);
            }
            look(kind, round);
            MPI_Barrier(MPI_COMM_WORLD);
        }
        MPI_Request_free(&kept);
    }
    if (rank == 0) {
        char command[128];
        sprintf(command, "rm -r %s", folder);
        CHECK(system(command) == 0);
    }
    MPI_Finalize();
    return 0;
}
