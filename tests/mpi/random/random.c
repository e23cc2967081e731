/* Random programs of communicators, threads and requests against an oracle (MPI 5.0 chapters 3, 6,
 * 7 and 11). All ranks draw one plan from a seed: what each receives, and each status, is as it
 * says. How it waits a rank draws for itself. A failure names its seed, and so do the names of
 * communicators, for the report of a job that hangs. `MPI_RANDOM_SEED=` runs one alone. */
#include "../threads/threads.h"

enum { STEPS = 50, COMMS = 8, MOST = 12, OPEN = 3, RANKS = 64 };

/* A communicator. All ranks know each, also those that it does not have. */
struct comm {
    MPI_Comm handle;
    int size;         /* 0: there is none in this place. */
    int me;           /* This rank's number; -1: not a member. */
    int ranks[RANKS]; /* Of MPI_COMM_WORLD, by number. */
};

struct message {
    int from, to, tag, length, is_taken;
    unsigned key; /* What its bytes are made of. */
};

enum { BARRIER, BCAST, REDUCE, ALLREDUCE, SCAN, REDUCE_SCATTER, SCATTER, GATHER, ALLGATHER,
       ALLTOALL, KINDS, EXCHANGE };
enum { ANY_SOURCE = 1, ANY_TAG = 2 };

/* What a step has in flight at this rank. */
struct round {
    int kind, step, me, size;
    int count, first; /* Requests, and the first of them that was not over at once. */
    MPI_Request requests[2 * MOST];
    MPI_Status statuses[2 * MOST];
    void *memory[2 * MOST];
    /* Of messages: receives come first. */
    int messages, receives, wildcards, room, asked[MOST];
    struct message message[MOST];
    /* Of a collective, whose memory is what goes in and what comes out. */
    int root, length, op;
    unsigned key;
};

/* One thread of all ranks. */
struct lane {
    int number, step;
    uint64_t plan, own; /* States of generators: the same at all ranks, and this rank's. */
    struct comm comms[COMMS];
    struct round *open[OPEN];
};

static int seed;

static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static int draw(uint64_t *state, int below) {
    *state += 0x9e3779b97f4a7c15u;
    return (int)(mix(*state) % (uint64_t)below);
}

static void wrong(const struct lane *lane, int line, const char *what, int step) {
    char text[300];
    snprintf(text, sizeof text, "seed %d, thread %d, step %d at step %d: %s", seed, lane->number,
             step, lane->step, what);
    check_failed(__FILE__, line, text, step);
}

/* A condition that holds of what began in this step. */
#define RIGHT(step, condition) \
    ((condition) ? (void)0 : wrong(lane, __LINE__, #condition, step))

static unsigned char byte_of(unsigned key, int at) {
    return (unsigned char)(key + (unsigned)at * 7 + ((unsigned)at >> 8));
}

/* Receives in the order in which they were posted: each has the first message of its sender, of its
 * tag unless any tag would do, that none before it has. */
static void check_messages(const struct lane *lane, struct round *round) {
    for (int at = 0; at < round->receives; at++) {
        const MPI_Status *status = &round->statuses[at];
        const struct message *asked = &round->message[round->asked[at]];
        struct message *found = NULL;
        for (int of = 0; of < round->messages && !found; of++) {
            struct message *it = &round->message[of];
            int fits = round->wildcards & ANY_TAG || it->tag == status->MPI_TAG;
            if (it->to == round->me && it->from == status->MPI_SOURCE && fits && !it->is_taken)
                found = it;
        }
        RIGHT(round->step, found);
        found->is_taken = 1;
        RIGHT(round->step, round->wildcards & ANY_SOURCE || status->MPI_SOURCE == asked->from);
        RIGHT(round->step, status->MPI_TAG == found->tag);
        RIGHT(round->step, round->wildcards & ANY_TAG || found->tag == asked->tag);
        int count;
        MPI_Get_count(status, MPI_BYTE, &count);
        RIGHT(round->step, count == found->length);
        const unsigned char *got = round->memory[at];
        for (int byte = 0; byte < count; byte++)
            RIGHT(round->step, got[byte] == byte_of(found->key, byte));
        for (int byte = count; byte < round->room; byte++) RIGHT(round->step, got[byte] == 0xee);
    }
}

static void receive(struct lane *lane, struct round *round, MPI_Comm comm, int is_blocking) {
    for (int at = 0; at < round->messages; at++) {
        const struct message *it = &round->message[at];
        if (it->to != round->me) continue;
        int here = round->receives++;
        int from = round->wildcards & ANY_SOURCE ? MPI_ANY_SOURCE : it->from;
        int tag = round->wildcards & ANY_TAG ? MPI_ANY_TAG : it->tag;
        MPI_Status *status = &round->statuses[here];
        round->asked[here] = at;
        void *into = round->memory[here] = malloc((size_t)round->room);
        memset(into, 0xee, (size_t)round->room);
        if (!is_blocking) {
            MPI_Irecv(into, round->room, MPI_BYTE, from, tag, comm, &round->requests[here]);
        } else if (draw(&lane->own, 2)) {
            MPI_Recv(into, round->room, MPI_BYTE, from, tag, comm, status);
        } else {
            MPI_Message found;
            MPI_Mprobe(from, tag, comm, &found, MPI_STATUS_IGNORE);
            MPI_Mrecv(into, round->room, MPI_BYTE, &found, status);
        }
    }
}

static void send(struct lane *lane, struct round *round, MPI_Comm comm, int is_blocking) {
    for (int at = 0; at < round->messages; at++) {
        const struct message *it = &round->message[at];
        if (it->from != round->me) continue;
        int here = round->count++, is_synchronous = draw(&lane->own, 3) == 0;
        unsigned char *out = round->memory[here] = malloc((size_t)it->length + 1);
        for (int byte = 0; byte < it->length; byte++) out[byte] = byte_of(it->key, byte);
        MPI_Request *request = &round->requests[here];
        *request = MPI_REQUEST_NULL;
        switch (is_blocking * 2 + is_synchronous) {
        case 0: MPI_Isend(out, it->length, MPI_BYTE, it->to, it->tag, comm, request); break;
        case 1: MPI_Issend(out, it->length, MPI_BYTE, it->to, it->tag, comm, request); break;
        case 2: MPI_Send(out, it->length, MPI_BYTE, it->to, it->tag, comm); break;
        default: MPI_Ssend(out, it->length, MPI_BYTE, it->to, it->tag, comm);
        }
    }
}

/* Draws messages, and posts this rank's. Returns whether a receive would take anything at all: then
 * the round has to end before the next message. Tags tell the other rounds apart. */
static int exchange(struct lane *lane, const struct comm *comm, struct round *round) {
    static const int lengths[] = {0, 1, 8, 264, 265, 5000, 70000};
    int is_greedy = 0;
    for (int of = 0; of < comm->size; of++) {
        int wildcards = draw(&lane->plan, 4);
        is_greedy |= wildcards == (ANY_SOURCE | ANY_TAG);
        if (of == comm->me) round->wildcards = wildcards;
    }
    round->messages = 1 + draw(&lane->plan, MOST);
    for (int at = 0; at < round->messages; at++) {
        struct message *it = &round->message[at];
        it->from = draw(&lane->plan, comm->size);
        it->to = draw(&lane->plan, comm->size);
        it->tag = lane->step * 4 + draw(&lane->plan, 3);
        it->length = lengths[draw(&lane->plan, 7)];
        it->key = (unsigned)draw(&lane->plan, 1 << 30);
        if (round->room < it->length + 8) round->room = it->length + 8;
    }
    if (comm->me < 0) return is_greedy;
    /* Who blocks in receives has sent before, and who blocks in sends has posted its receives. */
    int how = draw(&lane->own, 3), receives = 0;
    for (int at = 0; at < round->messages; at++) receives += round->message[at].to == comm->me;
    round->count = receives;
    if (how == 0 && !round->wildcards) {
        round->first = receives;
        send(lane, round, comm->handle, 0);
        receive(lane, round, comm->handle, 1);
    } else {
        receive(lane, round, comm->handle, 0);
        send(lane, round, comm->handle, how == 1);
    }
    return is_greedy;
}

static int64_t value(unsigned key, int of, int at) {
    return (int64_t)(mix(key + (uint64_t)of * 1000003 + (uint64_t)at) & 0xffffff);
}

static int64_t fold(int op, int64_t one, int64_t other) {
    return op == 0 ? one + other : op == 1 ? (one > other ? one : other) : one ^ other;
}

/* What stands in place `at` of what comes out. */
static int64_t expected(const struct round *round, int at) {
    const int length = round->length, me = round->me, root = round->root, kind = round->kind;
    const int first = kind == REDUCE_SCATTER ? me * length : 0;
    const int last = kind == SCAN ? me : round->size - 1;
    if ((kind == REDUCE || kind == GATHER) && me != root) return -1;
    if (kind == BCAST) return value(round->key, root, at);
    if (kind == SCATTER) return value(round->key, root, me * length + at);
    if (kind == GATHER || kind == ALLGATHER) return value(round->key, at / length, at % length);
    if (kind == ALLTOALL) return value(round->key, at / length, me * length + at % length);
    int64_t all = value(round->key, 0, first + at);
    for (int of = 1; of <= last; of++)
        all = fold(round->op, all, value(round->key, of, first + at));
    return all;
}

static void check_collective(const struct lane *lane, const struct round *round) {
    const int64_t *got = round->memory[1];
    const int is_of_all = round->kind >= GATHER;
    const int places = round->kind == BARRIER ? 0 : round->length * (is_of_all ? round->size : 1);
    for (int at = 0; at < places; at++) RIGHT(round->step, got[at] == expected(round, at));
}

#define CALL(blocking, started, ...) \
    (is_started ? (void)MPI_I##started(__VA_ARGS__, request) : (void)MPI_##blocking(__VA_ARGS__))

static void collective(struct lane *lane, const struct comm *comm, struct round *round) {
    static const int lengths[] = {1, 3, 60, 5000};
    const MPI_Datatype type = MPI_INT64_T;
    const MPI_Op ops[] = {MPI_SUM, MPI_MAX, MPI_BXOR};
    const MPI_Comm all = comm->handle;
    round->kind = draw(&lane->plan, KINDS);
    const int is_started = draw(&lane->plan, 2);
    const int root = round->root = draw(&lane->plan, comm->size);
    const int n = round->length = lengths[draw(&lane->plan, 4)];
    const MPI_Op op = ops[round->op = draw(&lane->plan, 3)];
    round->key = (unsigned)draw(&lane->plan, 1 << 30);
    if (comm->me < 0) return;
    const int most = n * comm->size, is_source = round->kind == BCAST && root == comm->me;
    int64_t *in = round->memory[0] = malloc(sizeof *in * (size_t)most);
    int64_t *out = round->memory[1] = malloc(sizeof *out * (size_t)most);
    for (int at = 0; at < most; at++) in[at] = value(round->key, comm->me, at);
    for (int at = 0; at < most; at++) out[at] = is_source ? in[at] : -1;
    round->count = is_started;
    MPI_Request *request = round->requests;
    switch (round->kind) {
    case BARRIER: CALL(Barrier, barrier, all); break;
    case BCAST: CALL(Bcast, bcast, out, n, type, root, all); break;
    case REDUCE: CALL(Reduce, reduce, in, out, n, type, op, root, all); break;
    case ALLREDUCE: CALL(Allreduce, allreduce, in, out, n, type, op, all); break;
    case SCAN: CALL(Scan, scan, in, out, n, type, op, all); break;
    case REDUCE_SCATTER:
        CALL(Reduce_scatter_block, reduce_scatter_block, in, out, n, type, op, all);
        break;
    case GATHER: CALL(Gather, gather, in, n, type, out, n, type, root, all); break;
    case ALLGATHER: CALL(Allgather, allgather, in, n, type, out, n, type, all); break;
    case SCATTER: CALL(Scatter, scatter, in, n, type, out, n, type, root, all); break;
    default: CALL(Alltoall, alltoall, in, n, type, out, n, type, all);
    }
}

/* Waits for what a round has in flight, in one of the ways to, and looks at all that has come. */
static void complete(struct lane *lane, struct round *round) {
    const int count = round->count - round->first;
    MPI_Request *requests = round->requests + round->first;
    MPI_Status *statuses = round->statuses + round->first, some[2 * MOST];
    int flag = 0, done = 0, places[2 * MOST];
    switch (draw(&lane->own, 5)) {
    case 0: MPI_Waitall(count, requests, statuses); break;
    case 1: for (; !flag; sched_yield()) MPI_Testall(count, requests, &flag, statuses); break;
    case 2: for (int at = count; at-- > 0;) MPI_Wait(&requests[at], &statuses[at]); break;
    case 3:
        while (MPI_Waitany(count, requests, places, some), places[0] != MPI_UNDEFINED)
            statuses[places[0]] = some[0];
        break;
    default:
        while (MPI_Waitsome(count, requests, &done, places, some), done != MPI_UNDEFINED)
            for (int at = 0; at < done; at++) statuses[places[at]] = some[at];
    }
    for (int at = 0; at < count; at++) RIGHT(round->step, requests[at] == MPI_REQUEST_NULL);
    if (round->kind == EXCHANGE) check_messages(lane, round);
    else check_collective(lane, round);
    for (int at = 0; at < 2 * MOST; at++) free(round->memory[at]);
    free(round);
}

/* Messages or a collective, over now or when the rank likes. */
static void communicate(struct lane *lane, const struct comm *comm, int is_collective) {
    struct round *round = calloc(1, sizeof *round);
    round->kind = EXCHANGE;
    round->step = lane->step;
    round->me = comm->me;
    round->size = comm->size;
    int is_greedy = 0, place = draw(&lane->own, OPEN + 1);
    if (is_collective) collective(lane, comm, round);
    else is_greedy = exchange(lane, comm, round);
    if (comm->me < 0) {
        free(round);
        return;
    }
    struct round *over = round;
    if (!is_greedy && place < OPEN) {
        over = lane->open[place];
        lane->open[place] = round;
    }
    if (over) complete(lane, over);
    if (is_greedy) MPI_Barrier(comm->handle);
}

/* Takes in a communicator of these ranks of the world, of which this may be one. */
static void adopt(struct lane *lane, MPI_Comm handle, const int *ranks, int count) {
    struct comm *comm = lane->comms;
    while (comm->size) comm++;
    *comm = (struct comm){.handle = handle, .size = count, .me = -1};
    for (int at = 0; at < count; at++) {
        comm->ranks[at] = ranks[at];
        if (ranks[at] == rank) comm->me = at;
    }
    if (comm->me < 0) return;
    int is, many;
    MPI_Comm_rank(handle, &is);
    MPI_Comm_size(handle, &many);
    RIGHT(lane->step, is == comm->me && many == count);
    char name[MPI_MAX_OBJECT_NAME];
    snprintf(name, sizeof name, "seed %d, thread %d, step %d", seed, lane->number, lane->step);
    MPI_Comm_set_name(handle, name);
}

static void duplicate(struct lane *lane, const struct comm *comm) {
    MPI_Comm made = MPI_COMM_NULL;
    MPI_Request request;
    const int is_started = draw(&lane->plan, 2);
    if (comm->me >= 0 && is_started) MPI_Comm_idup(comm->handle, &made, &request);
    if (comm->me >= 0 && is_started) MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (comm->me >= 0 && !is_started) MPI_Comm_dup(comm->handle, &made);
    adopt(lane, made, comm->ranks, comm->size);
}

/* Two parts, and some ranks in none, in the order of their keys. */
static void split(struct lane *lane, const struct comm *comm) {
    MPI_Comm made = MPI_COMM_NULL;
    int colors[RANKS], keys[RANKS], ranks[RANKS];
    for (int at = 0; at < comm->size; at++) {
        colors[at] = draw(&lane->plan, 5) / 2;
        keys[at] = draw(&lane->plan, 3);
    }
    if (comm->me >= 0) {
        int color = colors[comm->me] == 2 ? MPI_UNDEFINED : colors[comm->me];
        MPI_Comm_split(comm->handle, color, keys[comm->me], &made);
        RIGHT(lane->step, (color == MPI_UNDEFINED) == (made == MPI_COMM_NULL));
    }
    for (int color = 0; color < 2; color++) {
        int count = 0;
        for (int key = 0; key < 3; key++)
            for (int at = 0; at < comm->size; at++)
                if (colors[at] == color && keys[at] == key) ranks[count++] = comm->ranks[at];
        if (count) adopt(lane, made, ranks, count);
    }
}

/* Some ranks in some order; the others do not call. */
static void create_group(struct lane *lane, const struct comm *comm) {
    int numbers[RANKS], ranks[RANKS], count = 1 + draw(&lane->plan, comm->size), is_member = 0;
    for (int at = 0; at < comm->size; at++) numbers[at] = at;
    for (int at = 0; at < count; at++) {
        int other = at + draw(&lane->plan, comm->size - at), number = numbers[other];
        numbers[other] = numbers[at];
        numbers[at] = number;
        ranks[at] = comm->ranks[number];
        is_member |= number == comm->me;
    }
    MPI_Comm made = MPI_COMM_NULL;
    MPI_Group all, some;
    if (is_member) {
        MPI_Comm_group(comm->handle, &all);
        MPI_Group_incl(all, count, numbers, &some);
        MPI_Comm_create_group(comm->handle, some, lane->step, &made);
        MPI_Group_free(&all);
        MPI_Group_free(&some);
    }
    adopt(lane, made, ranks, count);
}

/* What is in flight of it goes on. */
static void release(struct comm *comm) {
    if (comm->me >= 0) MPI_Comm_free(&comm->handle);
    comm->size = 0;
}

static void walk(int number) {
    struct lane lane = {.number = number, .plan = mix((uint64_t)(seed * 8 + number))};
    lane.own = mix(lane.plan + (uint64_t)rank);
    int everyone[RANKS], chosen = 0;
    for (int at = 0; at < size; at++) everyone[at] = at;
    adopt(&lane, comms[number], everyone, size);
    for (lane.step = 0; lane.step < STEPS; lane.step++) {
        int live[COMMS], count = 0, kind = draw(&lane.plan, 12);
        for (int at = 0; at < COMMS; at++)
            if (lane.comms[at].size) live[count++] = at;
        /* Often the same one again, so that messages of several steps meet. */
        if (!lane.comms[chosen].size || draw(&lane.plan, 3) == 0)
            chosen = live[draw(&lane.plan, count)];
        struct comm *comm = &lane.comms[chosen];
        /* A split needs two places. The first communicator stays. */
        if (kind < 4 && count + 1 >= COMMS) kind = 4;
        if (kind < 2) split(&lane, comm);
        else if (kind == 2) duplicate(&lane, comm);
        else if (kind == 3) create_group(&lane, comm);
        else if (kind == 4 && chosen) release(comm);
        else communicate(&lane, comm, kind >= 8);
    }
    for (int at = 0; at < OPEN; at++)
        if (lane.open[at]) complete(&lane, lane.open[at]);
    for (int at = 1; at < COMMS; at++)
        if (lane.comms[at].size) release(&lane.comms[at]);
}

int main(int argc, char **argv) {
    begin_threads(&argc, &argv);
    const char *only = getenv("MPI_RANDOM_SEED");
    /* Ranks of others may poll without pause, and then a busy machine makes them slow. */
    const int is_long = getenv("HIKYAKU_LONG") && is_hikyaku();
    int seeds[2] = {only ? atoi(only) : 1, only ? 1 : is_long ? 15 : 4};
    MPI_Bcast(seeds, 2, MPI_INT, 0, MPI_COMM_WORLD);
    for (seed = seeds[0]; seed < seeds[0] + seeds[1]; seed++) each(1 + seed % 3, walk);
    return end_threads();
}
