/* Operations of an intercommunicator that are in flight at the same time (MPI 5.0 §6.12: they are
 * started in the same order by all ranks, and end in any). */
#include "../check.h"

enum { TURNS = 4, KINDS = 6 };

/* Even ranks on one side, odd ranks on the other. */
static MPI_Comm sides(int *own, int *others) {
    MPI_Comm local, between;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &local);
    MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, 1 - rank % 2, 3, &between);
    MPI_Comm_free(&local);
    MPI_Comm_size(between, own);
    MPI_Comm_remote_size(between, others);
    return between;
}

/* The sum of the ranks on the other side. */
static int sum_of_others(void) {
    int sum = 0;
    for (int other = 1 - rank % 2; other < size; other += 2) sum += other;
    return sum;
}

static void together(MPI_Comm between, int own, int others) {
    int sums[TURNS], told[TURNS], rooted[TURNS], turn, at;
    int *parts = malloc((size_t)own * (size_t)others * sizeof *parts);
    int *scattered = malloc((size_t)others * TURNS * sizeof *scattered);
    MPI_Comm twins[TURNS];
    MPI_Request requests[TURNS * KINDS];
    int here = rank % 2 == 0, root = !here ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
    for (at = 0; at < own * others; at++) parts[at] = rank;
    for (turn = 0, at = 0; turn < TURNS; turn++) {
        told[turn] = here ? turn : -1;
        rooted[turn] = -1;
        MPI_Iallreduce(&rank, &sums[turn], 1, MPI_INT, MPI_SUM, between, &requests[at++]);
        MPI_Ibcast(&told[turn], 1, MPI_INT, root, between, &requests[at++]);
        MPI_Comm_idup(between, &twins[turn], &requests[at++]);
        MPI_Ireduce_scatter_block(parts, scattered + turn * others, others, MPI_INT, MPI_SUM, between,
                                  &requests[at++]);
        MPI_Ibarrier(between, &requests[at++]);
        MPI_Ireduce(&rank, &rooted[turn], 1, MPI_INT, MPI_SUM, root, between, &requests[at++]);
        /* A rank that is late finds what others have done in another order. */
        if (turn % 2 == rank % 2) MPI_Waitall(at, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Waitall(at, requests, MPI_STATUSES_IGNORE);
    for (turn = 0; turn < TURNS; turn++) {
        EQUAL(sums[turn], sum_of_others());
        EQUAL(told[turn], turn);
        if (rank == 0) EQUAL(rooted[turn], sum_of_others());
        MPI_Allreduce(&rank, &sums[turn], 1, MPI_INT, MPI_SUM, twins[turn]);
        EQUAL(sums[turn], sum_of_others());
        MPI_Comm_free(&twins[turn]);
        for (at = 0; at < others; at++) EQUAL(scattered[turn * others + at], sum_of_others());
    }
    free(parts);
    free(scattered);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    if (size > 1) {
        int own, others;
        MPI_Comm between = sides(&own, &others);
        together(between, own, others);
        MPI_Comm_free(&between);
    }
    return end();
}
