/* Communicators are made, kept apart and freed (MPI 5.0 §7.4). */
#define _DEFAULT_SOURCE

#include <sys/resource.h>

#include "../check.h"

static void duplicates(void) {
    MPI_Comm twin;
    int result, mine = rank, got;
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    MPI_Comm_compare(MPI_COMM_WORLD, twin, &result);
    EQUAL(result, MPI_CONGRUENT);
    MPI_Comm_compare(twin, twin, &result);
    EQUAL(result, MPI_IDENT);
    works(twin);
    /* A message of one is none of the other's. */
    MPI_Request request;
    MPI_Irecv(&got, 1, MPI_INT, left(), MPI_ANY_TAG, twin, &request);
    int other;
    MPI_Sendrecv(&mine, 1, MPI_INT, right(), 0, &other, 1, MPI_INT, left(), 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    mine += 100;
    MPI_Send(&mine, 1, MPI_INT, right(), 1, twin);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    EQUAL(got, left() + 100);
    EQUAL(other, left());
    MPI_Comm_free(&twin);
    CHECK(twin == MPI_COMM_NULL);
}

static void splits(void) {
    MPI_Comm part, node, none;
    int here, many, result;
    /* By parity, numbered from the last. */
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &part);
    MPI_Comm_rank(part, &here);
    MPI_Comm_size(part, &many);
    EQUAL(many, (size + 1 - rank % 2) / 2);
    EQUAL(here, many - 1 - rank / 2);
    works(part);
    MPI_Comm_compare(part, MPI_COMM_WORLD, &result);
    EQUAL(result, size == 1 ? MPI_CONGRUENT : MPI_UNEQUAL);
    MPI_Comm_free(&part);
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 4, 0, &none);
    if (rank == 0) {
        CHECK(none == MPI_COMM_NULL);
    } else {
        works(none);
        MPI_Comm_free(&none);
    }
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    works(node);
    /* A guided split by shared memory is the same; by what is not there it is none. */
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_hw_resource_type", "mpi_shared_memory");
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, rank, info, &part);
    CHECK(part != MPI_COMM_NULL);
    MPI_Comm_compare(part, node, &result);
    EQUAL(result, MPI_CONGRUENT);
    MPI_Comm_free(&part);
    MPI_Info_set(info, "mpi_hw_resource_type", "no_such_resource");
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, rank, info, &part);
    CHECK(part == MPI_COMM_NULL);
    MPI_Info_free(&info);
    MPI_Comm_free(&node);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_UNDEFINED, 0, MPI_INFO_NULL, &node);
    CHECK(node == MPI_COMM_NULL);
}

static void of_groups(void) {
    MPI_Group world, half;
    MPI_Comm made;
    int members[64], count = 0, is_member = 0;
    for (int at = size - 1; at >= 0; at -= 2) {
        members[count++] = at;
        is_member |= at == rank;
    }
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, count, members, &half);
    MPI_Comm_create(MPI_COMM_WORLD, half, &made);
    CHECK((made != MPI_COMM_NULL) == is_member);
    if (is_member) {
        int here;
        MPI_Comm_rank(made, &here);
        EQUAL(members[here], rank);
        works(made);
        MPI_Comm_free(&made);
        /* Only the members call this one. */
        MPI_Comm_create_group(MPI_COMM_WORLD, half, 5, &made);
        works(made);
        MPI_Comm_free(&made);
    }
    MPI_Comm_create(MPI_COMM_WORLD, MPI_GROUP_EMPTY, &made);
    CHECK(made == MPI_COMM_NULL);
    if (size > 1) {
        /* The group has ranks that the communicator does not have. */
        MPI_Comm alone;
        MPI_Comm_dup(MPI_COMM_SELF, &alone);
        MPI_Comm_set_errhandler(alone, MPI_ERRORS_RETURN);
        CLASS(MPI_Comm_create(alone, world, &made), MPI_ERR_GROUP);
        MPI_Comm_free(&alone);
    }
    MPI_Group_free(&half);
    MPI_Group_free(&world);
}

/* Far more than there may be at once. */
static void many(void) {
    for (int turn = 0; turn < 300; turn++) {
        MPI_Comm one, two;
        MPI_Comm_dup(MPI_COMM_WORLD, &one);
        MPI_Comm_split(one, rank % 2, 0, &two);
        MPI_Comm_free(&one);
        if (turn % 50 == 0) works(two);
        MPI_Comm_free(&two);
    }
}

/* The most memory that this rank has had at once, in KiB. */
static long resident(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* More communicators of two ranks than there are contexts, which are used again then: what one of them
 * sends as soon as it has the communicator reaches the other. They leave no memory behind. */
static void used_again(void) {
    MPI_Comm pair, node, made;
    int together;
    MPI_Comm_split(MPI_COMM_WORLD, rank < 2 ? 0 : MPI_UNDEFINED, 0, &pair);
    if (pair == MPI_COMM_NULL) return;
    MPI_Comm_split_type(pair, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &together);
    MPI_Comm_free(&node);
    /* Two ranks do it often enough: where more share processors each turn takes long, as it does
     * between nodes. */
    const int many = together == 2 && getenv("HIKYAKU_LONG") ? 100000 : 5000;
    int turns = size == 1 ? 0 : size == 2 && is_hikyaku() ? many : 50;
    long before = 0;
    for (int turn = 0; turn < turns; turn++) {
        if (turn == 5000) before = resident();
        int told = turn, from = turn % 2;
        MPI_Comm_dup(pair, &made);
        if (rank == from)
            MPI_Send(&told, 1, MPI_INT, 1 - from, 0, made);
        else
            MPI_Recv(&told, 1, MPI_INT, from, 0, made, MPI_STATUS_IGNORE);
        EQUAL(told, turn);
        MPI_Comm_free(&made);
    }
    /* 16 bytes of each would be more. */
    if (before) CHECK(resident() < before + 1024);
    MPI_Comm_free(&pair);
}

/* Communicators that cannot all share lines, and more operations in flight on the last of them than
 * are made by messages before it looks for lines again. */
static void many_in_flight(void) {
    enum { COMMS = 80, FLYING = 16 };
    MPI_Comm comms[COMMS], last;
    MPI_Request requests[3 * FLYING];
    int sums[FLYING], told[FLYING], at;
    for (at = 0; at < COMMS; at++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[at]);
        MPI_Barrier(comms[at]);
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &last);
    for (at = 0; at < FLYING; at++) {
        told[at] = rank == 0 ? at : -1;
        MPI_Ibarrier(last, &requests[3 * at]);
        MPI_Iallreduce(&rank, &sums[at], 1, MPI_INT, MPI_SUM, last, &requests[3 * at + 1]);
        MPI_Ibcast(&told[at], 1, MPI_INT, 0, last, &requests[3 * at + 2]);
    }
    MPI_Waitall(3 * FLYING, requests, MPI_STATUSES_IGNORE);
    for (at = 0; at < FLYING; at++) {
        EQUAL(sums[at], size * (size - 1) / 2);
        EQUAL(told[at], at);
    }
    MPI_Comm_free(&last);
    for (at = 0; at < COMMS; at++) MPI_Comm_free(&comms[at]);
}

static void names(void) {
    char name[MPI_MAX_OBJECT_NAME];
    int length, flag;
    MPI_Comm twin;
    MPI_Comm_get_name(MPI_COMM_WORLD, name, &length);
    CHECK(strcmp(name, "MPI_COMM_WORLD") == 0 && length == 14);
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    MPI_Comm_get_name(twin, name, &length);
    EQUAL(length, 0);
    MPI_Comm_set_name(twin, "ring");
    MPI_Comm_get_name(twin, name, &length);
    CHECK(strcmp(name, "ring") == 0 && length == 4);
    /* In an encoding of the program's own. */
    MPI_Comm_set_name(twin, "caf\xe9");
    MPI_Comm_get_name(twin, name, &length);
    CHECK(strcmp(name, "caf\xe9") == 0 && length == 4);
    MPI_Comm_test_inter(twin, &flag);
    EQUAL(flag, 0);
    MPI_Comm back = MPI_Comm_fromint(MPI_Comm_toint(twin));
    CHECK(back == twin);
    MPI_Comm_free(&twin);
    works(MPI_COMM_SELF);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    duplicates();
    splits();
    of_groups();
    many();
    used_again();
    many_in_flight();
    names();
    return end();
}
