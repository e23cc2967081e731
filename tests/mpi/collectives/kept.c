/* Persistent collectives match those that other ranks made in the same order, in whatever order each
 * rank starts them (MPI 4.1 §7.13), also beside others and between two groups. MPI_CHAR has sums. */
#include "../check.h"

enum { TURNS = 3, KINDS = 3 };

static void in_any_order(MPI_Comm comm, int root, int gives, int from_all) {
    int told, sum, other = 1;
    MPI_Request kept[KINDS], left;
    MPI_Bcast_init(&told, 1, MPI_INT, root, comm, MPI_INFO_NULL, &kept[0]);
    MPI_Barrier_init(comm, MPI_INFO_NULL, &kept[1]);
    MPI_Allreduce_init(&rank, &sum, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &kept[2]);
    for (int turn = 0; turn < TURNS; turn++) {
        told = gives ? 100 + turn : -1, sum = -1;
        for (int at = 0; at < KINDS; at++) MPI_Start(&kept[(at + rank + turn) % KINDS]);
        MPI_Iallreduce(&rank, &other, 1, MPI_INT, MPI_SUM, comm, &left);
        MPI_Wait(&left, MPI_STATUS_IGNORE);
        EQUAL(other, from_all);
        MPI_Waitall(KINDS, kept, MPI_STATUSES_IGNORE);
        EQUAL(told, 100 + turn);
        EQUAL(sum, from_all);
    }
    for (int at = 0; at < KINDS; at++) MPI_Request_free(&kept[at]);
}

/* Made and freed far more often than there can be at once, and never started. */
static void many(void) {
    for (int turn = 0; turn < 300; turn++) {
        MPI_Request kept;
        MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &kept);
        if (turn % 50 == 0) {
            MPI_Start(&kept);
            MPI_Wait(&kept, MPI_STATUS_IGNORE);
        }
        MPI_Request_free(&kept);
    }
}

static void text(void) {
    char one = 1, sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD);
    EQUAL(sum, size);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    in_any_order(MPI_COMM_WORLD, 0, rank == 0, size * (size - 1) / 2);
    many();
    text();
    if (size > 1) {
        MPI_Comm local, between;
        int others = 0, here = rank % 2 == 0;
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &local);
        MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, here, 3, &between);
        for (int other = here; other < size; other += 2) others += other;
        in_any_order(between, !here ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL, here, others);
        MPI_Comm_free(&between);
        MPI_Comm_free(&local);
    }
    return end();
}
