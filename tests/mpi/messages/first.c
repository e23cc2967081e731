/* Receives that match the same messages are told in the order in which those came, by MPI_Testany
 * and MPI_Waitany too: HPCC's MPIRandomAccess stops at the last message and cancels the others. */
#include "../check.h"

enum { OPEN = 4, MESSAGES = 40 };

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int values[OPEN], index, flag = 0;
    MPI_Request requests[OPEN], gone[MESSAGES];
    MPI_Status status;
    if (!is_hikyaku()) return end();
    for (int waits = 0; waits < 2; waits++) {
        for (int at = 0; at < OPEN; at++)
            MPI_Irecv(&values[at], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                      &requests[at]);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int at = 0; at < MESSAGES; at++)
            MPI_Isend(&rank, 1, MPI_INT, right(), at, MPI_COMM_WORLD, &gone[at]);
        /* All of them are there, more than there are receives. */
        MPI_Waitall(MESSAGES, gone, MPI_STATUSES_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int at = 0; at < MESSAGES; at++) {
            if (waits)
                MPI_Waitany(OPEN, requests, &index, &status);
            else
                do MPI_Testany(OPEN, requests, &index, &flag, &status);
                while (!flag);
            EQUAL(status.MPI_TAG, at);
            EQUAL(values[index], left());
            if (at + OPEN < MESSAGES)
                MPI_Irecv(&values[index], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                          &requests[index]);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return end();
}
