/* Persistent collectives match those that other ranks made in the same order, in whatever order each
 * rank starts and completes them (MPI 4.1 §7.13): every kind, also beside others, between two groups, and
 * more than there are contexts. MPI_CHAR has sums. */
#include "../check.h"

enum { TURNS = 3, MOST = 256, KINDS = 17, AMONG_ONE_GROUP = 2 };

/* What one rank of a communicator has for all kinds: a row of numbers for each. */
struct side {
    MPI_Comm comm;
    /* This rank and how many there are in its group; how many there are where data come from and go to. */
    int here, mine, theirs, is_inter;
    /* Whom operations with a root go to or come from; whether this rank is the root, or gives to it. */
    int root, is_root, gives;
    int ones[MOST], places[MOST], bytes[MOST];
    MPI_Datatype types[MOST];
    int out[KINDS][MOST], in[KINDS][MOST];
};

/* What rank `from` gives in operation `kind` to rank `to`, in a turn. */
static int value(int kind, int from, int to, int turn) {
    return 1 + kind + 100 * from + 10000 * to + 1000000 * turn;
}

static MPI_Request make(struct side *it, int kind) {
    MPI_Request made;
    MPI_Comm comm = it->comm;
    int *out = it->out[kind], *in = it->in[kind], *ones = it->ones, *places = it->places;
    MPI_Info none = MPI_INFO_NULL;
    MPI_Datatype one = MPI_INT;
    int root = it->root;
    switch (kind) {
    case 0: MPI_Barrier_init(comm, none, &made); break;
    case 1: MPI_Bcast_init(it->is_root ? out : in, 1, one, root, comm, none, &made); break;
    case 2: MPI_Gather_init(out, 1, one, in, 1, one, root, comm, none, &made); break;
    case 3: MPI_Gatherv_init(out, 1, one, in, ones, places, one, root, comm, none, &made); break;
    case 4: MPI_Scatter_init(out, 1, one, in, 1, one, root, comm, none, &made); break;
    case 5: MPI_Scatterv_init(out, ones, places, one, in, 1, one, root, comm, none, &made); break;
    case 6: MPI_Allgather_init(out, 1, one, in, 1, one, comm, none, &made); break;
    case 7: MPI_Allgatherv_init(out, 1, one, in, ones, places, one, comm, none, &made); break;
    case 8: MPI_Alltoall_init(out, 1, one, in, 1, one, comm, none, &made); break;
    case 9:
        MPI_Alltoallv_init(out, ones, places, one, in, ones, places, one, comm, none, &made);
        break;
    case 10:
        MPI_Alltoallw_init(out, ones, it->bytes, it->types, in, ones, it->bytes, it->types, comm,
                           none, &made);
        break;
    case 11: MPI_Reduce_init(out, in, 1, one, MPI_SUM, root, comm, none, &made); break;
    case 12: MPI_Allreduce_init(out, in, 1, one, MPI_SUM, comm, none, &made); break;
    case 13:
        MPI_Reduce_scatter_block_init(out, in, it->theirs, one, MPI_SUM, comm, none, &made);
        break;
    case 14: {
        int counts[MOST];
        for (int at = 0; at < it->mine; at++) counts[at] = it->theirs;
        MPI_Reduce_scatter_init(out, in, counts, one, MPI_SUM, comm, none, &made);
        break;
    }
    case 15: MPI_Scan_init(out, in, 1, one, MPI_SUM, comm, none, &made); break;
    default: MPI_Exscan_init(out, in, 1, one, MPI_SUM, comm, none, &made); break;
    }
    return made;
}

static void fill(struct side *it, int kind, int turn) {
    for (int at = 0; at < MOST; at++) {
        it->out[kind][at] = value(kind, it->here, at, turn);
        it->in[kind][at] = -1;
    }
}

/* The sum of what ranks 0 to `count` give for `to`. */
static int sum_of(int kind, int count, int to, int turn) {
    int sum = 0;
    for (int from = 0; from < count; from++) sum += value(kind, from, to, turn);
    return sum;
}

static void look(struct side *it, int kind, int turn) {
    int *in = it->in[kind], root = it->root >= 0 ? it->root : 0;
    switch (kind) {
    case 0: return;
    case 1:
        if (it->gives) EQUAL(in[0], value(kind, root, 0, turn));
        return;
    case 2:
    case 3:
        for (int from = 0; it->is_root && from < it->theirs; from++)
            EQUAL(in[from], value(kind, from, 0, turn));
        return;
    case 4:
    case 5:
        if (it->gives || (it->is_root && !it->is_inter)) EQUAL(in[0], value(kind, root, it->here, turn));
        return;
    case 6:
    case 7:
        for (int from = 0; from < it->theirs; from++) EQUAL(in[from], value(kind, from, 0, turn));
        return;
    case 8:
    case 9:
    case 10:
        for (int from = 0; from < it->theirs; from++)
            EQUAL(in[from], value(kind, from, it->here, turn));
        return;
    case 11:
        if (it->is_root) EQUAL(in[0], sum_of(kind, it->theirs, 0, turn));
        return;
    case 12: EQUAL(in[0], sum_of(kind, it->theirs, 0, turn)); return;
    case 13:
    case 14:
        for (int at = 0; at < it->theirs; at++)
            EQUAL(in[at], sum_of(kind, it->theirs, it->here * it->theirs + at, turn));
        return;
    case 15: EQUAL(in[0], sum_of(kind, it->here + 1, 0, turn)); return;
    default:
        if (it->here > 0) EQUAL(in[0], sum_of(kind, it->here, 0, turn));
        return;
    }
}

static struct side side_of(MPI_Comm comm) {
    static struct side made;
    made.comm = comm;
    MPI_Comm_test_inter(comm, &made.is_inter);
    MPI_Comm_rank(comm, &made.here);
    MPI_Comm_size(comm, &made.mine);
    made.theirs = made.mine;
    if (made.is_inter) MPI_Comm_remote_size(comm, &made.theirs);
    for (int at = 0; at < MOST; at++) {
        made.ones[at] = 1, made.places[at] = at, made.bytes[at] = at * (int)sizeof(int);
        made.types[at] = MPI_INT;
    }
    return made;
}

/* Each rank starts all kinds in an order of its own, which is another in each turn, and completes them
 * in another one. */
static void in_any_order(struct side *it) {
    int kinds = it->is_inter ? KINDS - AMONG_ONE_GROUP : KINDS;
    MPI_Request kept[KINDS], left;
    for (int kind = 0; kind < kinds; kind++) kept[kind] = make(it, kind);
    for (int turn = 0; turn < TURNS; turn++) {
        int other = -1, one = 1;
        for (int kind = 0; kind < kinds; kind++) fill(it, kind, turn);
        for (int at = 0; at < kinds; at++)
            MPI_Start(&kept[((rank % 2 ? kinds - at : at) + rank + turn) % kinds]);
        MPI_Iallreduce(&one, &other, 1, MPI_INT, MPI_SUM, it->comm, &left);
        MPI_Wait(&left, MPI_STATUS_IGNORE);
        EQUAL(other, it->theirs);
        for (int at = 0; at < kinds; at++) MPI_Wait(&kept[(at + turn) % kinds], MPI_STATUS_IGNORE);
        for (int kind = 0; kind < kinds; kind++) look(it, kind, turn);
    }
    /* Rank 0 completes one before it starts the one that the others have started first. */
    fill(it, 12, TURNS), fill(it, 6, TURNS);
    int first = rank == 0 ? 6 : 12, second = rank == 0 ? 12 : 6;
    MPI_Start(&kept[first]);
    if (rank == 0) MPI_Wait(&kept[first], MPI_STATUS_IGNORE);
    MPI_Start(&kept[second]);
    MPI_Wait(&kept[second], MPI_STATUS_IGNORE);
    MPI_Wait(&kept[first], MPI_STATUS_IGNORE);
    look(it, 12, TURNS), look(it, 6, TURNS);
    for (int kind = 0; kind < kinds; kind++) MPI_Request_free(&kept[kind]);
}

/* Between two ranks, more often than there are contexts: some are never started, and some end at a
 * rank that only sends before the other has begun. */
static void many(MPI_Comm comm) {
    int told[2] = {0, 0}, turns = size == 2 && is_hikyaku() ? 5000 : 50;
    for (int turn = 0; turn < turns; turn++) {
        MPI_Request kept;
        int root = turn % 2, mine = -1;
        told[0] = told[1] = turn;
        MPI_Scatter_init(told, 1, MPI_INT, &mine, 1, MPI_INT, root, comm, MPI_INFO_NULL, &kept);
        if (turn % 3 > 0) {
            MPI_Start(&kept);
            MPI_Wait(&kept, MPI_STATUS_IGNORE);
            EQUAL(mine, turn);
        }
        MPI_Request_free(&kept);
    }
}

/* The lists of types are read once, and the types may be freed. Lists that are not significant at a
 * rank may be anything. */
static void lists(void) {
    int out[64], in[64], counts[64], places[64], bytes[64];
    /* The compiler, which knows what the functions read, does not see where it points. */
    int *volatile nowhere = (int *)8, *none = nowhere;
    MPI_Datatype types[64], pair;
    MPI_Request kept;
    MPI_Type_contiguous(1, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    for (int at = 0; at < size; at++) {
        counts[at] = 1, places[at] = at, bytes[at] = at * (int)sizeof(int), types[at] = pair;
        out[at] = 100 * rank + at, in[at] = -1;
    }
    MPI_Alltoallw_init(out, counts, bytes, types, in, counts, bytes, types, MPI_COMM_WORLD,
                       MPI_INFO_NULL, &kept);
    MPI_Type_free(&pair);
    MPI_Start(&kept);
    MPI_Wait(&kept, MPI_STATUS_IGNORE);
    for (int at = 0; at < size; at++) EQUAL(in[at], 100 * at + rank);
    MPI_Request_free(&kept);
    MPI_Alltoallv_init(MPI_IN_PLACE, none, none, MPI_INT, in, counts, places, MPI_INT,
                       MPI_COMM_WORLD, MPI_INFO_NULL, &kept);
    MPI_Start(&kept);
    MPI_Wait(&kept, MPI_STATUS_IGNORE);
    for (int at = 0; at < size; at++) EQUAL(in[at], 100 * rank + at);
    MPI_Request_free(&kept);
    int is_root = rank == 0;
    MPI_Gatherv_init(out, 1, MPI_INT, in, is_root ? counts : none, is_root ? places : none, MPI_INT,
                     0, MPI_COMM_WORLD, MPI_INFO_NULL, &kept);
    MPI_Start(&kept);
    MPI_Wait(&kept, MPI_STATUS_IGNORE);
    for (int at = 0; is_root && at < size; at++) EQUAL(in[at], 100 * at);
    MPI_Request_free(&kept);
}

static void text(void) {
    char one = 1, sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD);
    EQUAL(sum, size);
}

int main(int argc, char **argv) {
    MPI_Comm part, between;
    begin(&argc, &argv);
    text();
    lists();
    struct side all = side_of(MPI_COMM_WORLD);
    all.root = size / 2, all.is_root = rank == all.root, all.gives = !all.is_root;
    in_any_order(&all);
    MPI_Comm_split(MPI_COMM_WORLD, rank < 2, 0, &part);
    if (rank < 2 && size > 1) many(part);
    MPI_Comm_free(&part);
    if (size > 1) {
        int is_even = rank % 2 == 0;
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &part);
        MPI_Intercomm_create(part, 0, MPI_COMM_WORLD, is_even, 3, &between);
        struct side two = side_of(between);
        two.is_root = rank == 0, two.gives = !is_even;
        two.root = !is_even ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
        in_any_order(&two);
        MPI_Comm_free(&between);
        MPI_Comm_free(&part);
    }
    return end();
}
