/* Ranks that wait for ever, each in a way of its own, so that the report of the job says what it is. */
#define _POSIX_C_SOURCE 200809L

#include <time.h>

#include "check.h"

/* Calls made in vain by one that computes then. */
enum { SOME = 1000 };

static void rest(long milliseconds) {
    nanosleep(&(struct timespec){.tv_nsec = milliseconds * 1000000}, NULL);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    EQUAL(size, 9);
    MPI_Comm rows, halves, copy, named;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &rows);
    MPI_Comm_set_name(rows, rank % 2 == 0 ? "even" : "odd");
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &halves);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_dup(MPI_COMM_WORLD, &named);
    MPI_Comm_set_name(named, "a copy of all");
    MPI_Comm_set_name(named, "a copy");
    int one, two, flag = 0;
    MPI_Request requests[2];
    MPI_Irecv(&one, 1, MPI_INT, 8, 5, MPI_COMM_WORLD, &requests[0]);
    switch (rank) {
        case 0: MPI_Recv(&two, 1, MPI_INT, 1, 7, rows, MPI_STATUS_IGNORE); break;
        case 1: MPI_Probe(1, MPI_ANY_TAG, halves, MPI_STATUS_IGNORE); break;
        case 2: MPI_Ssend(&two, 1, MPI_INT, 1, 7, copy); break;
        case 3: MPI_Barrier(named); break;
        case 4: while (!flag) MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE); break;
        case 5: while (!flag) MPI_Iprobe(MPI_ANY_SOURCE, 3, named, &flag, MPI_STATUS_IGNORE); break;
        case 6:
            MPI_Irecv(&two, 1, MPI_INT, 0, 7, rows, &requests[1]);
            while (!flag) MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
            break;
        case 7:
            MPI_Ibarrier(rows, &requests[1]);
            for (; !flag; rest(20)) MPI_Test(&requests[1], &flag, MPI_STATUS_IGNORE);
            break;
        case 8: {
            /* It is long done when the job's time is up. */
            for (int turn = 0; turn < SOME; turn++)
                MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
            for (;;) rest(100);
        }
    }
    return end();
}
