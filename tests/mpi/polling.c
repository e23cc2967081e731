/* Ranks that share one processor and poll: a call that has found nothing gives the processor away,
 * so that few calls do. One that kept it until its time was over would be made thousands of times. */
#define _GNU_SOURCE
#include <sched.h>

#include "check.h"

enum { ROUNDS = 50, MOST = 200 };

static long vain;

static void poll_one(MPI_Request *request) {
    for (int done = 0;; vain++) {
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (done) return;
    }
}

static void on_one_processor(void) {
    cpu_set_t all, one;
    int first = 0;
    CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
    while (!CPU_ISSET(first, &all)) first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
}

int main(int argc, char **argv) {
    int in = 0, out, sum, done, periodic = 1;
    MPI_Comm ring;
    MPI_Request request, two[2], kept;
    on_one_processor();
    begin(&argc, &argv);
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &ring);
    int halo[2], around[2] = {rank, rank};
    MPI_Neighbor_alltoall_init(around, 1, MPI_INT, halo, 1, MPI_INT, ring, MPI_INFO_NULL, &kept);

    const char *kinds[] = {"message", "probe", "barrier", "allreduce", "testall", "testany",
                           "testsome", "get_status", "kept"};
    for (unsigned kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        const char *name = kinds[kind];
        MPI_Barrier(MPI_COMM_WORLD);
        vain = 0;
        for (out = 0; out < ROUNDS; out++) {
            if (strcmp(name, "message") == 0) {
                MPI_Irecv(&in, 1, MPI_INT, previous, 1, MPI_COMM_WORLD, &request);
                MPI_Send(&out, 1, MPI_INT, next, 1, MPI_COMM_WORLD);
                poll_one(&request);
                EQUAL(in, out);
            } else if (strcmp(name, "probe") == 0) {
                MPI_Send(&out, 1, MPI_INT, next, 1, MPI_COMM_WORLD);
                for (done = 0;; vain++) {
                    MPI_Iprobe(previous, 1, MPI_COMM_WORLD, &done, MPI_STATUS_IGNORE);
                    if (done) break;
                }
                MPI_Recv(&in, 1, MPI_INT, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            } else if (strcmp(name, "barrier") == 0) {
                MPI_Ibarrier(MPI_COMM_WORLD, &request);
                poll_one(&request);
            } else if (strcmp(name, "kept") == 0) {
                MPI_Start(&kept);
                poll_one(&kept);
                EQUAL(halo[0], previous);
            } else {
                MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, two);
                two[1] = MPI_REQUEST_NULL;
                for (done = 0;; vain++) {
                    int at, places[2];
                    if (strcmp(name, "testall") == 0) {
                        MPI_Testall(2, two, &done, MPI_STATUSES_IGNORE);
                    } else if (strcmp(name, "testany") == 0) {
                        MPI_Testany(2, two, &at, &done, MPI_STATUS_IGNORE);
                    } else if (strcmp(name, "testsome") == 0) {
                        MPI_Testsome(2, two, &done, places, MPI_STATUSES_IGNORE);
                    } else if (strcmp(name, "get_status") == 0) {
                        MPI_Request_get_status(two[0], &done, MPI_STATUS_IGNORE);
                    } else {
                        MPI_Test(two, &done, MPI_STATUS_IGNORE);
                    }
                    if (done) break;
                }
                MPI_Wait(two, MPI_STATUS_IGNORE);
                EQUAL(sum, size * (size - 1) / 2);
            }
        }
        if (vain > ROUNDS * MOST) check_failed(__FILE__, __LINE__, name, vain);
    }
    MPI_Request_free(&kept);
    MPI_Comm_free(&ring);
    return end();
}
