/* Persistent exchanges of the ranks of two nodes, half of them on each, with all of the other node, by the
 * scheme that an info object names.
 *
 *   exchanged WHAT ROUNDS SCHEME    SCHEME: fast, mrc, combined, or none
 *
 *   rounds    so many of each form of the collective
 *   long      the same, of blocks that are long
 *   many      the same of more exchanges at once than there are queues for
 *   scarce    the same, of which one rank has no queue left
 *   memory    the same, of long blocks, of which one rank has no memory left that others reach
 *   refused   a scheme that there is not is an error, and one that there is can be had afterwards */
#include "check.h"

enum { MOST = 64, LENGTH = 3, LONG = 20000, MANY = 30 };

static int peers[MOST], count;
static MPI_Comm others;
static MPI_Info chosen = MPI_INFO_NULL, queues;

static int value(int from, int to, int round, int at) {
    return from * 1000003 + to * 10007 + round * 101 + at;
}

static void choose(const char *scheme) {
    if (strcmp(scheme, "none") == 0) return;
    MPI_Info_create(&chosen);
    MPI_Info_set(chosen, "hikyaku_exchange", scheme);
    MPI_Info_set(chosen, "another_key", "that nobody knows");
}

/* One exchange in one of its forms, and its buffers. */
enum { ALLGATHER, ALLTOALL, ALLTOALLV, ALLTOALLW, FORMS };

struct exchange {
    int form, length, *out, *into;
    int counts[MOST], places[MOST];
    MPI_Aint bytes[MOST];
    MPI_Datatype types[MOST];
    MPI_Request kept;
};

static int make(struct exchange *it, int form, int length) {
    it->form = form, it->length = length;
    it->out = calloc((size_t)(count * length + 1), sizeof(int));
    it->into = calloc((size_t)(count * length + 1), sizeof(int));
    for (int edge = 0; edge < count; edge++) {
        it->counts[edge] = length, it->places[edge] = edge * length, it->types[edge] = MPI_INT;
        it->bytes[edge] = (MPI_Aint)sizeof(int) * edge * length;
    }
    int *out = it->out, *into = it->into, *counts = it->counts, *places = it->places;
    switch (form) {
    case ALLGATHER:
        return MPI_Neighbor_allgather_init(out, length, MPI_INT, into, length, MPI_INT, others, chosen, &it->kept);
    case ALLTOALL:
        return MPI_Neighbor_alltoall_init(out, length, MPI_INT, into, length, MPI_INT, others, chosen, &it->kept);
    case ALLTOALLV:
        return MPI_Neighbor_alltoallv_init(out, counts, places, MPI_INT, into, counts, places, MPI_INT, others,
                                           chosen, &it->kept);
    default:
        return MPI_Neighbor_alltoallw_init(out, counts, it->bytes, it->types, into, counts, it->bytes, it->types,
                                           others, chosen, &it->kept);
    }
}

static void fill(struct exchange *it, int round) {
    for (int edge = 0; edge < count; edge++)
        for (int at = 0; at < it->length; at++) {
            int to = it->form == ALLGATHER ? 0 : peers[edge];
            it->out[edge * it->length + at] = value(rank, to, round, at);
            it->into[edge * it->length + at] = -1;
        }
}

static void look(const struct exchange *it, int round) {
    for (int edge = 0; edge < count; edge++)
        for (int at = 0; at < it->length; at++) {
            int to = it->form == ALLGATHER ? 0 : rank;
            EQUAL(it->into[edge * it->length + at], value(peers[edge], to, round, at));
        }
}

static void drop(struct exchange *it) {
    MPI_Request_free(&it->kept);
    free(it->out), free(it->into);
}

static void rounds(int rounds, int length) {
    for (int form = 0; form < FORMS; form++) {
        struct exchange it;
        EQUAL(make(&it, form, length), MPI_SUCCESS);
        for (int round = 0; round < rounds; round++) {
            fill(&it, round);
            MPI_Start(&it.kept);
            MPI_Wait(&it.kept, MPI_STATUS_IGNORE);
            look(&it, round);
        }
        drop(&it);
    }
}

static void many(int rounds) {
    static struct exchange all[MANY];
    MPI_Request kept[MANY];
    for (int at = 0; at < MANY; at++) {
        EQUAL(make(&all[at], at % FORMS, LENGTH), MPI_SUCCESS);
        kept[at] = all[at].kept;
    }
    for (int round = 0; round < rounds; round++) {
        for (int at = 0; at < MANY; at++) fill(&all[at], round + at);
        MPI_Startall(MANY, kept);
        MPI_Waitall(MANY, kept, MPI_STATUSES_IGNORE);
        for (int at = 0; at < MANY; at++) look(&all[at], round + at);
    }
    for (int at = 0; at < MANY; at++) {
        all[at].kept = kept[at];
        drop(&all[at]);
    }
}

/* Rank 0 alone has edges, to itself. */
static MPI_Comm with_itself(void) {
    MPI_Comm made;
    int zero = 0, edges = rank == 0;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, edges, &zero, MPI_UNWEIGHTED, edges, &zero, MPI_UNWEIGHTED,
                                   MPI_INFO_NULL, 0, &made);
    return made;
}

/* It has a queue for each exchange of them. */
static void scarce(int count_of_rounds) {
    MPI_Comm itself = with_itself();
    MPI_Request taken[MANY];
    int out = 7, into = 0;
    for (int at = 0; at < MANY; at++)
        MPI_Neighbor_alltoall_init(&out, 1, MPI_INT, &into, 1, MPI_INT, itself, queues, &taken[at]);
    rounds(count_of_rounds, LENGTH);
    for (int at = 0; at < MANY; at++) MPI_Request_free(&taken[at]);
    MPI_Comm_free(&itself);
    rounds(count_of_rounds, LENGTH);
}

/* Exchanges of rank 0 with itself, each with half of the last one's data, have places for it as long as there
 * is memory. What is left is less than long blocks need. */
static void memory(int count_of_rounds) {
    enum { TRIES = 15, BYTES = 32 << 20 };
    MPI_Comm itself = with_itself();
    MPI_Request taken[TRIES];
    char *out = malloc(BYTES), *into = malloc(BYTES);
    for (int at = 0; at < TRIES; at++) {
        int bytes = BYTES >> at;
        MPI_Neighbor_alltoall_init(out, bytes, MPI_CHAR, into, bytes, MPI_CHAR, itself, queues, &taken[at]);
    }
    rounds(count_of_rounds, LONG);
    for (int at = 0; at < TRIES; at++) MPI_Request_free(&taken[at]);
    free(out), free(into);
    MPI_Comm_free(&itself);
    rounds(count_of_rounds, LONG);
}

static void refused(void) {
    struct exchange it;
    MPI_Info right = chosen;
    MPI_Comm_set_errhandler(others, MPI_ERRORS_RETURN);
    for (int form = 0; form < FORMS; form++) {
        MPI_Info_create(&chosen);
        MPI_Info_set(chosen, "hikyaku_exchange", "Combined");
        CLASS(make(&it, form, LENGTH), MPI_ERR_INFO_VALUE);
        free(it.out), free(it.into);
        MPI_Info_free(&chosen);
        chosen = right;
        rounds(1, LENGTH);
    }
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(argc == 4 && size <= MOST && size % 2 == 0);
    int often = atoi(argv[2]), half = size / 2;
    for (int other = 0; other < size; other++)
        if (other / half != rank / half) peers[count++] = other;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, count, peers, MPI_UNWEIGHTED, count, peers, MPI_UNWEIGHTED,
                                   MPI_INFO_NULL, 0, &others);
    choose(argv[3]);
    MPI_Info_create(&queues);
    MPI_Info_set(queues, "hikyaku_exchange", "fast");
    if (strcmp(argv[1], "rounds") == 0) rounds(often, LENGTH);
    if (strcmp(argv[1], "long") == 0) rounds(often, LONG);
    if (strcmp(argv[1], "many") == 0) many(often);
    if (strcmp(argv[1], "scarce") == 0) scarce(often);
    if (strcmp(argv[1], "memory") == 0) memory(often);
    if (strcmp(argv[1], "refused") == 0) refused();
    if (chosen != MPI_INFO_NULL) MPI_Info_free(&chosen);
    MPI_Info_free(&queues);
    MPI_Comm_free(&others);
    return end();
}
