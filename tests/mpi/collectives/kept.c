/* Persistent collectives beside others, and between two groups. MPI_CHAR has sums. */
#include "../check.h"

enum { TURNS = 3, KINDS = 3 };

static void started(MPI_Comm comm, int root, int gives, int from_all) {
    int told, sum, other = 1;
    MPI_Request kept[KINDS], left;
    MPI_Bcast_init(&told, 1, MPI_INT, root, comm, MPI_INFO_NULL, &kept[0]);
    MPI_Barrier_init(comm, MPI_INFO_NULL, &kept[1]);
    MPI_Allreduce_init(&rank, &sum, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &kept[2]);
    for (int turn = 0; turn < TURNS; turn++) {
        told = gives ? 100 + turn : -1, sum = -1;
        for (int at = 0; at < KINDS; at++) MPI_Start(&kept[(at + turn) % KINDS]);
        MPI_Iallreduce(&rank, &other, 1, MPI_INT, MPI_SUM, comm, &left);
        MPI_Wait(&left, MPI_STATUS_IGNORE);
        EQUAL(other, from_all);
        MPI_Waitall(KINDS, kept, MPI_STATUSES_IGNORE);
        EQUAL(told, 100 + turn);
        EQUAL(sum, from_all);
    }
    for (int at = 0; at < KINDS; at++) MPI_Request_free(&kept[at]);
}

static void text(void) {
    char one = 1, sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD);
    EQUAL(sum, size);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    started(MPI_COMM_WORLD, 0, rank == 0, size * (size - 1) / 2);
    text();
    if (size > 1) {
        MPI_Comm local, between;
        int others = 0, here = rank % 2 == 0;
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &local);
        MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, here, 3, &between);
        for (int other = here; other < size; other += 2) others += other;
        started(between, !here ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL, here, others);
        MPI_Comm_free(&between);
        MPI_Comm_free(&local);
    }
    return end();
}
