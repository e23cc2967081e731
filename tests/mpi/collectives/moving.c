/* Collectives that move data, in their three forms: blocking, in flight, and started again (MPI 5.0
 * §6.4 to §6.8). Each rank's block differs in content and, in the v and w forms, in length. */
#include "forms.h"

enum { MOST = 64, UNIT = 700 };

static int out[MOST * UNIT], into[MOST * UNIT];

static int value(int from, int to, int at) { return from * 10000 + to * 100 + at % 97; }

static void clear(void) {
    for (int at = 0; at < size * UNIT; at++) into[at] = -1;
}

static void rooted(int root, int length) {
    for (int at = 0; at < length; at++) into[at] = rank == root ? value(root, 0, at) : -1;
    CALL(Bcast, into, length, MPI_INT, root);
    for (int at = 0; at < length; at++) EQUAL(into[at], value(root, 0, at));
    for (int in_place = 0; in_place < 2; in_place++) {
        int is_in_place = in_place && rank == root;
        clear();
        for (int at = 0; at < length; at++) out[at] = value(rank, 0, at);
        if (is_in_place) memcpy(into + root * length, out, sizeof *out * (size_t)length);
        CALL(Gather, is_in_place ? MPI_IN_PLACE : (void *)out, length, MPI_INT, into, length,
             MPI_INT, root);
        for (int from = 0; rank == root && from < size; from++)
            for (int at = 0; at < length; at++)
                EQUAL(into[from * length + at], value(from, 0, at));
        for (int to = 0; to < size; to++)
            for (int at = 0; at < length; at++) out[to * length + at] = value(root, to, at);
        clear();
        CALL(Scatter, out, length, MPI_INT, is_in_place ? MPI_IN_PLACE : (void *)into, length,
             MPI_INT, root);
        for (int at = 0; !is_in_place && at < length; at++) EQUAL(into[at], value(root, rank, at));
    }
}

/* Blocks of 0, 3, 6, ... elements, in reverse order with gaps. */
static void rooted_v(int root) {
    int counts[MOST], places[MOST], mine = rank * 3;
    for (int at = 0; at < size; at++) counts[at] = at * 3, places[at] = (size - 1 - at) * UNIT + 2;
    for (int at = 0; at < mine; at++) out[at] = value(rank, 1, at);
    clear();
    CALL(Gatherv, out, mine, MPI_INT, into, counts, places, MPI_INT, root);
    for (int from = 0; rank == root && from < size; from++) {
        for (int at = 0; at < counts[from]; at++) EQUAL(into[places[from] + at], value(from, 1, at));
        EQUAL(into[places[from] + counts[from]], -1);
    }
    for (int to = 0; to < size; to++)
        for (int at = 0; at < counts[to]; at++) out[places[to] + at] = value(root, to, at);
    clear();
    CALL(Scatterv, out, counts, places, MPI_INT, into, mine, MPI_INT, root);
    for (int at = 0; at < mine; at++) EQUAL(into[at], value(root, rank, at));
    EQUAL(into[mine], -1);
}

static void of_all(int length) {
    int counts[MOST], places[MOST];
    for (int in_place = 0; in_place < 2; in_place++) {
        clear();
        for (int at = 0; at < length; at++) out[at] = value(rank, 0, at);
        if (in_place) memcpy(into + rank * length, out, sizeof *out * (size_t)length);
        CALL(Allgather, in_place ? MPI_IN_PLACE : (void *)out, length, MPI_INT, into, length, MPI_INT);
        for (int from = 0; from < size; from++)
            for (int at = 0; at < length; at++) EQUAL(into[from * length + at], value(from, 0, at));
        for (int to = 0; to < size; to++)
            for (int at = 0; at < length; at++) out[to * length + at] = value(rank, to, at);
        clear();
        if (in_place) memcpy(into, out, sizeof *out * (size_t)(size * length));
        CALL(Alltoall, in_place ? MPI_IN_PLACE : (void *)out, length, MPI_INT, into, length, MPI_INT);
        for (int from = 0; from < size; from++)
            for (int at = 0; at < length; at++) EQUAL(into[from * length + at], value(from, rank, at));
    }
    for (int at = 0; at < size; at++) counts[at] = at % 3 * 2, places[at] = at * UNIT + at;
    for (int at = 0; at < counts[rank]; at++) out[at] = value(rank, 2, at);
    clear();
    CALL(Allgatherv, out, counts[rank], MPI_INT, into, counts, places, MPI_INT);
    for (int from = 0; from < size; from++) {
        for (int at = 0; at < counts[from]; at++) EQUAL(into[places[from] + at], value(from, 2, at));
        EQUAL(into[places[from] + counts[from]], -1);
    }
}

/* Blocks one after the other: of some ranks nothing, of one more than others, or nothing at all. */
static void of_all_packed(void) {
    int counts[MOST], places[MOST];
    for (int longest = 0; longest < UNIT; longest += UNIT / 4)
        for (int in_place = 0; in_place < 2; in_place++) {
            int end = 0;
            for (int at = 0; at < size; at++) {
                counts[at] = at == size - 1 ? longest : at % 3 * longest / 4;
                places[at] = end, end += counts[at];
            }
            int *own = in_place ? into + places[rank] : out;
            clear();
            for (int at = 0; at < counts[rank]; at++) own[at] = value(rank, 3, at);
            CALL(Allgatherv, in_place ? MPI_IN_PLACE : (void *)out, counts[rank], MPI_INT, into,
                 counts, places, MPI_INT);
            for (int from = 0; from < size; from++)
                for (int at = 0; at < counts[from]; at++)
                    EQUAL(into[places[from] + at], value(from, 3, at));
            EQUAL(into[end], -1);
        }
}

/* From i to j goes (i + 2 j) % 5 elements; as columns where it goes by types of its own. */
static void of_all_v(void) {
    int sends[MOST], receives[MOST], from_at[MOST], to_at[MOST], from_bytes[MOST], to_bytes[MOST];
    MPI_Datatype ints[MOST], columns[MOST];
    for (int at = 0; at < size; at++) {
        sends[at] = (rank + 2 * at) % 5;
        receives[at] = (at + 2 * rank) % 5;
        from_at[at] = at * UNIT, to_at[at] = (size - 1 - at) * UNIT;
        from_bytes[at] = from_at[at] * (int)sizeof(int), to_bytes[at] = to_at[at] * (int)sizeof(int);
        ints[at] = MPI_INT;
        MPI_Datatype column;
        MPI_Type_vector(1, 1, 1, MPI_INT, &column);
        MPI_Type_create_resized(column, 0, (MPI_Aint)(at % 2 + 2) * (MPI_Aint)sizeof(int), &columns[at]);
        MPI_Type_commit(&columns[at]);
        MPI_Type_free(&column);
        for (int which = 0; which < sends[at]; which++)
            out[from_at[at] + which] = value(rank, at, which);
    }
    clear();
    CALL(Alltoallv, out, sends, from_at, MPI_INT, into, receives, to_at, MPI_INT);
    for (int from = 0; from < size; from++) {
        for (int at = 0; at < receives[from]; at++)
            EQUAL(into[to_at[from] + at], value(from, rank, at));
        EQUAL(into[to_at[from] + receives[from]], -1);
    }
    clear();
    CALL(Alltoallw, out, sends, from_bytes, ints, into, receives, to_bytes, columns);
    for (int from = 0; from < size; from++)
        for (int at = 0; at < receives[from]; at++) {
            EQUAL(into[to_at[from] + at * (from % 2 + 2)], value(from, rank, at));
            EQUAL(into[to_at[from] + at * (from % 2 + 2) + 1], -1);
        }
    for (int at = 0; at < size; at++) MPI_Type_free(&columns[at]);
    /* Between ranks that exchange nothing there need be no type: here all but neighbours. */
    clear();
    for (int at = 0; at < size; at++) {
        sends[at] = at == right(), receives[at] = at == left();
        if (!sends[at]) ints[at] = MPI_DATATYPE_NULL;
        columns[at] = receives[at] ? MPI_INT : MPI_DATATYPE_NULL;
        out[from_at[at]] = value(rank, at, 0);
    }
    CALL(Alltoallw, out, sends, from_bytes, ints, into, receives, to_bytes, columns);
    for (int from = 0; from < size; from++)
        EQUAL(into[to_at[from]], receives[from] ? value(from, rank, 0) : -1);
}

/* A table's columns become rows on the way. */
static void of_types(void) {
    MPI_Datatype column, one;
    MPI_Type_vector(4, 1, 3, MPI_INT, &column);
    MPI_Type_create_resized(column, 0, sizeof(int), &one);
    MPI_Type_commit(&one);
    for (int at = 0; at < 12; at++) out[at] = rank * 100 + at;
    clear();
    CALL(Allgather, out, 3, one, into, 12, MPI_INT);
    for (int from = 0; from < size; from++)
        for (int at = 0; at < 12; at++)
            EQUAL(into[from * 12 + at], from * 100 + at % 4 * 3 + at / 4);
    MPI_Type_free(&one);
    MPI_Type_free(&column);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int lengths[] = {0, 1, 5, UNIT};
    for (int which = 0; which < 2; which++) {
        if (which == 0) comm = MPI_COMM_WORLD;
        else MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        for (form = 0; form < 3; form++) {
            for (int at = 0; at < 4; at++) {
                rooted(0, lengths[at]);
                rooted(size - 1, lengths[at]);
                of_all(lengths[at]);
            }
            rooted_v(size / 2);
            of_all_packed();
            of_all_v();
            of_types();
        }
    }
    MPI_Comm_free(&comm);
    /* Several in flight at once, finished in another order. */
    MPI_Request requests[3];
    int sum, all[MOST], news = rank == 0 ? 7 : 0;
    MPI_Ibcast(&news, 1, MPI_INT, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[1]);
    MPI_Iallgather(&rank, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD, &requests[2]);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int at = 2; at >= 0; at--) MPI_Wait(&requests[at], MPI_STATUS_IGNORE);
    CHECK(news == 7 && sum == size * (size - 1) / 2 && all[size - 1] == size - 1);
    return end();
}
