/* What neighbours exchange: at once, left in flight, and kept to be started again and again (MPI 5.0
 * §8.6 to §8.9). Each block says where it comes from, along which edge, and in which round. */
#include "../check.h"

enum { ROUNDS = 7, MOST = 100000 };

static int value(int from, int edge, int round, int at) {
    return from * 1000003 + edge * 10007 + round * 101 + at;
}

/* A grid of one dimension, a ring unless `open`. The lower neighbour's block comes first, and is
 * what that neighbour has for its upper one. */
static MPI_Comm line(int open) {
    MPI_Comm made;
    int dims[] = {size}, periods[] = {!open};
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &made);
    return made;
}

static int waits(int how, MPI_Request *request) {
    int done = 0, index = -1;
    /* MPICH 5.0.2 has an invalid request where MPI_Testall meets a kept collective. */
    switch (how % (is_hikyaku() ? 5 : 4)) {
    case 0: return MPI_Wait(request, MPI_STATUS_IGNORE);
    case 1: return MPI_Waitall(1, request, MPI_STATUSES_IGNORE);
    case 2: return MPI_Waitany(1, request, &index, MPI_STATUS_IGNORE);
    case 3:
        while (!done) CHECK(MPI_Test(request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        return MPI_SUCCESS;
    default:
        while (!done) CHECK(MPI_Testall(1, request, &done, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
        return MPI_SUCCESS;
    }
}

/* Blocks of `length` of both neighbours, as one kept exchange and as others. */
static void along_a_line(int open, int length) {
    MPI_Comm comm = line(open);
    int lower, upper;
    MPI_Cart_shift(comm, 0, 1, &lower, &upper);
    int *out = malloc(sizeof *out * 2 * ((size_t)length + 1));
    int *into = malloc(sizeof *into * 2 * ((size_t)length + 1));
    MPI_Request kept, other;
    MPI_Neighbor_alltoall_init(out, length, MPI_INT, into, length, MPI_INT, comm, MPI_INFO_NULL, &kept);
    for (int round = 0; round < ROUNDS; round++) {
        for (int at = 0; at < length; at++) {
            out[at] = value(rank, 0, round, at);
            out[length + at] = value(rank, 1, round, at);
        }
        for (int form = 0; form < 3; form++) {
            memset(into, 0xff, sizeof *into * 2 * (size_t)length);
            switch (form) {
            case 0:
                MPI_Start(&kept);
                waits(round, &kept);
                CHECK(kept != MPI_REQUEST_NULL);
                break;
            case 1: MPI_Neighbor_alltoall(out, length, MPI_INT, into, length, MPI_INT, comm); break;
            case 2:
                MPI_Ineighbor_alltoall(out, length, MPI_INT, into, length, MPI_INT, comm, &other);
                waits(round, &other);
                CHECK(other == MPI_REQUEST_NULL);
                break;
            }
            for (int at = 0; at < length; at++) {
                EQUAL(into[at], lower == MPI_PROC_NULL ? -1 : value(lower, 1, round, at));
                EQUAL(into[length + at], upper == MPI_PROC_NULL ? -1 : value(upper, 0, round, at));
            }
        }
    }
    MPI_Request_free(&kept);
    free(out);
    free(into);
    MPI_Comm_free(&comm);
}

/* Every rank has edges to all, itself too, of other lengths each, some of nothing, with gaps on one
 * side; the buffers of sends change between start and wait, and several exchanges are in flight. */
static void to_everybody(void) {
    MPI_Comm comm;
    int *peers = malloc(sizeof *peers * (size_t)size);
    for (int at = 0; at < size; at++) peers[at] = (rank + at) % size;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, size, peers, MPI_UNWEIGHTED, size, peers,
                                   MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm);
    int *counts = malloc(sizeof *counts * (size_t)size), *ones = malloc(sizeof *ones * (size_t)size);
    MPI_Aint *places = malloc(sizeof *places * (size_t)size);
    MPI_Datatype *ints = malloc(sizeof *ints * (size_t)size);
    MPI_Datatype *gaps = malloc(sizeof *gaps * (size_t)size);
    int room = 0;
    for (int at = 0; at < size; at++) {
        counts[at] = (rank + peers[at]) % 4 * 5; /* the same at both ends; some are 0 */
        places[at] = room * (MPI_Aint)sizeof(int);
        room += 2 * counts[at] + 1;
        ones[at] = 1;
        ints[at] = MPI_INT;
        MPI_Type_vector(counts[at], 1, 2, MPI_INT, &gaps[at]);
        MPI_Type_commit(&gaps[at]);
    }
    int *out[2], *into[2];
    MPI_Request kept[2];
    for (int which = 0; which < 2; which++) {
        out[which] = malloc(sizeof(int) * (size_t)(room + 1));
        into[which] = malloc(sizeof(int) * (size_t)(room + 1));
        if (which == 0)
            MPI_Neighbor_alltoallw_init(out[0], ones, places, gaps, into[0], counts, places, ints,
                                        comm, MPI_INFO_NULL, &kept[0]);
        else
            MPI_Neighbor_alltoallw_init(out[1], counts, places, ints, into[1], ones, places, gaps,
                                        comm, MPI_INFO_NULL, &kept[1]);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int which = 0; which < 2; which++) {
            int step = which == 0 ? 2 : 1;
            memset(into[which], 0xff, sizeof(int) * (size_t)room);
            memset(out[which], 0xee, sizeof(int) * (size_t)room);
            for (int edge = 0; edge < size; edge++)
                for (int at = 0; at < counts[edge]; at++)
                    out[which][places[edge] / (MPI_Aint)sizeof(int) + step * at] =
                        value(rank, peers[edge] + which, round, at);
        }
        MPI_Startall(2, kept);
        if (round % 2)
            MPI_Waitall(2, kept, MPI_STATUSES_IGNORE);
        else
            for (int which = 1; which >= 0; which--) waits(round, &kept[which]);
        for (int which = 0; which < 2; which++) {
            int step = which == 0 ? 1 : 2;
            for (int edge = 0; edge < size; edge++) {
                int *block = into[which] + places[edge] / (MPI_Aint)sizeof(int);
                for (int at = 0; at < counts[edge]; at++) {
                    EQUAL(block[step * at], value(peers[edge], rank + which, round, at));
                    if (step == 2 && at + 1 < counts[edge]) EQUAL(block[2 * at + 1], -1);
                }
                EQUAL(block[2 * counts[edge]], -1);
            }
        }
    }
    for (int which = 0; which < 2; which++) {
        MPI_Request_free(&kept[which]);
        free(out[which]);
        free(into[which]);
    }
    for (int at = 0; at < size; at++) MPI_Type_free(&gaps[at]);
    free(peers), free(counts), free(ones), free(places), free(ints), free(gaps);
    MPI_Comm_free(&comm);
}

/* Ends of an edge that disagree on its size are an error where the exchange is made. */
static void disagreeing(void) {
    if (!is_hikyaku() || size < 2) return;
    MPI_Comm comm = line(0);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    int out[4] = {0}, into[4], more = rank == 0;
    MPI_Request kept;
    int code = MPI_Neighbor_alltoall_init(out, 1 + more, MPI_INT, into, 1 + more, MPI_INT, comm,
                                          MPI_INFO_NULL, &kept);
    CLASS(code, MPI_ERR_TRUNCATE);
    MPI_Comm_free(&comm);
}

/* Ends that disagree where the exchange is run at once: the receiver is told, whether the block is
 * long at one end, at both or at none, and the next exchange is right. */
static void disagreeing_at_once(void) {
    if (!is_hikyaku() || size < 2) return;
    enum { LONG = 70000 };
    int lengths[][2] = {{5, 3}, {3, 5}, {LONG, 3}, {3, LONG}, {LONG, LONG - 1}, {0, 7}, {LONG, 0}};
    MPI_Comm comm = line(0);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    int *out = calloc(2 * LONG, sizeof *out), *into = calloc(2 * LONG, sizeof *into);
    int places[] = {0, LONG}, hears = left() == 0 || right() == 0;
    for (int round = 0; round < 20; round++) {
        int *pair = lengths[round / 2 % 7], wrong = round % 2, right_one = pair[1];
        int sent = rank == 0 && wrong ? pair[0] : right_one;
        int counts[] = {sent, sent}, expected[] = {right_one, right_one};
        for (int at = 0; at < sent; at++) out[at] = out[LONG + at] = value(rank, 0, round, at);
        int code = MPI_Neighbor_alltoallv(out, counts, places, MPI_INT, into, expected, places, MPI_INT, comm);
        if (wrong && hears) {
            CLASS(code, pair[0] > pair[1] ? MPI_ERR_TRUNCATE : MPI_ERR_COUNT);
            continue;
        }
        EQUAL(code, MPI_SUCCESS);
        for (int at = 0; at < right_one; at++) {
            EQUAL(into[at], value(left(), 0, round, at));
            EQUAL(into[LONG + at], value(right(), 0, round, at));
        }
    }
    free(out), free(into);
    MPI_Comm_free(&comm);
}

/* The same of every call at once: lengths that are long and short and change, with gaps. */
static void of_changing_lengths(void) {
    MPI_Comm comm = line(0);
    enum { ROOM = 6000 };
    int *out = malloc(sizeof *out * 4 * ROOM), *into = malloc(sizeof *into * 4 * ROOM);
    for (int round = 0; round < 12; round++) {
        /* What goes up has another length than what goes down. */
        int lengths[] = {round * 97 % 1500, round * 1013 % ROOM};
        int ones[] = {1, 1}, counts[] = {lengths[1], lengths[0]};
        MPI_Aint from[] = {0, 2 * ROOM * sizeof(int)};
        MPI_Datatype ints[] = {MPI_INT, MPI_INT}, gaps[2];
        for (int side = 0; side < 2; side++) {
            MPI_Type_vector(lengths[side], 1, 2, MPI_INT, &gaps[side]);
            MPI_Type_commit(&gaps[side]);
            for (int at = 0; at < lengths[side]; at++)
                out[2 * ROOM * side + 2 * at] = value(rank, side, round, at);
        }
        memset(into, 0xff, sizeof *into * 4 * ROOM);
        if (round % 3)
            MPI_Neighbor_alltoallw(out, ones, from, gaps, into, counts, from, ints, comm);
        else {
            MPI_Request request;
            MPI_Ineighbor_alltoallw(out, ones, from, gaps, into, counts, from, ints, comm, &request);
            waits(round, &request);
        }
        for (int at = 0; at < lengths[1]; at++) EQUAL(into[at], value(left(), 1, round, at));
        for (int at = 0; at < lengths[0]; at++)
            EQUAL(into[2 * ROOM + at], value(right(), 0, round, at));
        EQUAL(into[lengths[1]], -1);
        EQUAL(into[2 * ROOM + lengths[0]], -1);
        /* What has no elements needs no type. */
        int none[] = {0, 0};
        MPI_Datatype nulls[] = {MPI_DATATYPE_NULL, MPI_DATATYPE_NULL};
        MPI_Neighbor_alltoallw(out, none, from, nulls, into, none, from, nulls, comm);
        for (int side = 0; side < 2; side++) MPI_Type_free(&gaps[side]);
    }
    free(out), free(into);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int lengths[] = {0, 1, 6, 3000, MOST};
    for (int which = 0; which < 5; which++) {
        along_a_line(0, lengths[which]);
        along_a_line(1, lengths[which]);
    }
    to_everybody();
    disagreeing();
    disagreeing_at_once();
    of_changing_lengths();
    return end();
}
