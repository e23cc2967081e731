/* Collectives and objects of several threads of each rank at once. */
#define _POSIX_C_SOURCE 200809L
#include <time.h>

#include "threads.h"

static void nap(long microseconds) {
    nanosleep(&(struct timespec){.tv_nsec = microseconds * 1000}, NULL);
}

static void exchange(int number, MPI_Comm comm) {
    int own, count;
    MPI_Comm_rank(comm, &own);
    MPI_Comm_size(comm, &count);
    for (int turn = 0; turn < 10; turn++) {
        double mine[300], into[300];
        int all[64], one = own == 0 ? number * 100 + turn : -1;
        for (int at = 0; at < 300; at++) mine[at] = rank + number + at;
        MPI_Request request;
        MPI_Allreduce(mine, into, 300, MPI_DOUBLE, MPI_SUM, comm);
        const double sum = into[0];
        for (int at = 0; at < 300; at++) CHECK(into[at] == sum + count * at);
        MPI_Bcast(&one, 1, MPI_INT, 0, comm);
        EQUAL(one, number * 100 + turn);
        MPI_Iallreduce(mine, into, 300, MPI_DOUBLE, MPI_SUM, comm, &request);
        if (turn % 2) {
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else {
            for (int flag = 0; !flag; sched_yield()) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        }
        CHECK(into[0] == sum);
        MPI_Barrier(comm);
        one = own + number;
        MPI_Allgather(&one, 1, MPI_INT, all, 1, MPI_INT, comm);
        for (int at = 0; at < count; at++) EQUAL(all[at], at + number);
        int parts[64];
        for (int at = 0; at < count; at++) parts[at] = own + at;
        MPI_Alltoall(parts, 1, MPI_INT, all, 1, MPI_INT, comm);
        for (int at = 0; at < count; at++) EQUAL(all[at], at + own);
        MPI_Scatter(parts, 1, MPI_INT, &one, 1, MPI_INT, 0, comm);
        EQUAL(one, own);
        MPI_Gather(&own, 1, MPI_INT, all, 1, MPI_INT, 0, comm);
        if (own == 0) EQUAL(all[count - 1], count - 1);
        MPI_Reduce(&own, &one, 1, MPI_INT, MPI_SUM, 0, comm);
        if (own == 0) EQUAL(one, count * (count - 1) / 2);
    }
}

static void on_own_communicators(int number) { exchange(number, comms[number]); }

/* Communicators that all threads make at once, in another order at each rank. */
static void make(int at) {
    const int number = (at + rank) % THREADS;
    MPI_Comm same, half, some;
    MPI_Group group;
    MPI_Comm_dup(comms[number], &same);
    MPI_Comm_split(same, rank % 2, -rank, &half);
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Comm_create_group(MPI_COMM_WORLD, group, number, &some);
    exchange(number, half);
    exchange(number, some);
    MPI_Group_free(&group);
    MPI_Comm_free(&same);
    MPI_Comm_free(&half);
    MPI_Comm_free(&some);
}

/* Two groups that threads join at once, with one tag. */
static void join(int number) {
    MPI_Comm half, both;
    if (size == 1) return;
    MPI_Comm_split(comms[number], rank % 2, 0, &half);
    for (int turn = 0; turn < 8; turn++) {
        int theirs = -1;
        if ((turn + number + rank) % 3 == 0) nap(500);
        MPI_Intercomm_create(half, 0, comms[number], 1 - rank % 2, 4, &both);
        MPI_Allreduce(&number, &theirs, 1, MPI_INT, MPI_MAX, both);
        EQUAL(theirs, number);
        MPI_Comm_free(&both);
    }
    MPI_Comm_free(&half);
}

/* An operation of the program's, which calls MPI. */
static void add(void *left, void *into, int *length, MPI_Datatype *type) {
    int bytes;
    MPI_Type_size(*type, &bytes);
    EQUAL(bytes, sizeof(long));
    for (int at = 0; at < *length; at++) ((long *)into)[at] += ((long *)left)[at];
}

static void reduce(int number) {
    MPI_Op op;
    MPI_Op_create(add, 1, &op);
    for (int turn = 0; turn < 30; turn++) {
        long one[3] = {rank, turn, number}, into[3];
        MPI_Allreduce(one, into, 3, MPI_LONG, op, comms[number]);
        EQUAL(into[0], (long)size * (size - 1) / 2);
        EQUAL(into[1], (long)size * turn);
        EQUAL(into[2], (long)size * number);
    }
    MPI_Op_free(&op);
}

/* Attributes whose functions call MPI. */
static int copy(MPI_Comm comm, int key, void *state, void *value, void *into, int *flag) {
    int count;
    (void)key, (void)state;
    MPI_Comm_size(comm, &count);
    EQUAL(count, size);
    *(void **)into = value;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete(MPI_Comm comm, int key, void *value, void *state) {
    int own;
    (void)key, (void)state;
    MPI_Comm_rank(comm, &own);
    EQUAL(own, rank);
    ++*(int *)value;
    return MPI_SUCCESS;
}

static void attributes(int number) {
    int key, deleted = 0, flag;
    int *value;
    MPI_Comm twin;
    MPI_Comm_create_keyval(copy, delete, &key, NULL);
    MPI_Comm_set_attr(comms[number], key, &deleted);
    for (int turn = 0; turn < 10; turn++) {
        MPI_Comm_dup(comms[number], &twin);
        MPI_Comm_get_attr(twin, key, &value, &flag);
        CHECK(flag && value == &deleted);
        MPI_Comm_free(&twin);
        EQUAL(deleted, turn + 1);
    }
    MPI_Comm_delete_attr(comms[number], key);
    EQUAL(deleted, 11);
    MPI_Comm_free_keyval(&key);
}

/* Objects that are no communicators. */
static void objects(int number) {
    for (int turn = 0; turn < 100; turn++) {
        MPI_Datatype type, pair;
        MPI_Info info;
        char text[16];
        int bytes, flag, room = sizeof text;
        MPI_Type_contiguous(turn + 1, MPI_INT, &type);
        MPI_Type_vector(2, 1, 2, type, &pair);
        MPI_Type_commit(&pair);
        MPI_Type_size(pair, &bytes);
        EQUAL(bytes, 2 * 4 * (turn + 1));
        MPI_Type_free(&pair);
        MPI_Type_free(&type);
        MPI_Info_create(&info);
        MPI_Info_set(info, "number", number % 2 ? "odd" : "even");
        MPI_Info_get_string(info, "number", &room, text, &flag);
        CHECK(flag && strcmp(text, number % 2 ? "odd" : "even") == 0);
        MPI_Info_free(&info);
    }
}

/* One thread's errors are no others'. */
static void half_wrong(int number) {
    for (int turn = 0; turn < 50; turn++) {
        int out = turn, into;
        if (number % 2) {
            if (is_hikyaku()) CLASS(MPI_Send(&out, 1, MPI_INT, size, 0, comms[number]), MPI_ERR_RANK);
        } else {
            MPI_Sendrecv(&out, 1, MPI_INT, right(), 0, &into, 1, MPI_INT, left(), 0, comms[number],
                         MPI_STATUS_IGNORE);
            EQUAL(into, turn);
        }
    }
}

/* Operations of one thread while another one waits all the time. */
static void add_slowly(void *left, void *into, int *length, MPI_Datatype *type) {
    nap(1500);
    add(left, into, length, type);
}

static void beside_a_wait(int number) {
    long out[2] = {rank, rank}, into[2], one = 0;
    if (number == 0) {
        MPI_Recv(&one, 1, MPI_LONG, rank, 5, comms[0], MPI_STATUS_IGNORE);
        return;
    }
    MPI_Comm grid;
    MPI_Request kept, once;
    MPI_Op op;
    MPI_Op_create(add_slowly, 1, &op);
    MPI_Cart_create(comms[1], 1, &size, &(int){1}, 0, &grid);
    MPI_Neighbor_alltoall_init(out, 1, MPI_LONG, into, 1, MPI_LONG, grid, MPI_INFO_NULL, &kept);
    for (int turn = 0; turn < 6; turn++) {
        if ((turn + rank) % 2) nap(1500);
        MPI_Start(&kept);
        MPI_Wait(&kept, MPI_STATUS_IGNORE);
        EQUAL(into[0], left());
        MPI_Neighbor_alltoall(out, 1, MPI_LONG, into, 1, MPI_LONG, grid);
        EQUAL(into[1], right());
        MPI_Iallreduce(out, into, 2, MPI_LONG, op, comms[1], &once);
        MPI_Wait(&once, MPI_STATUS_IGNORE);
        EQUAL(into[1], (long)size * (size - 1) / 2);
    }
    MPI_Request_free(&kept);
    MPI_Comm_free(&grid);
    MPI_Op_free(&op);
    MPI_Send(&one, 1, MPI_LONG, rank, 5, comms[0]);
}

/* Long data, more of which is sent when there is room. */
static void long_scans(int number) {
    enum { LENGTH = 60000 };
    int *out = malloc(LENGTH * sizeof *out), *into = malloc(LENGTH * sizeof *into);
    for (int turn = 0; turn < 4; turn++) {
        if ((turn + number + rank) % 3 == 0) nap(1000);
        for (int at = 0; at < LENGTH; at++) out[at] = rank + at;
        MPI_Scan(out, into, LENGTH, MPI_INT, MPI_SUM, comms[number]);
        for (int at = 0; at < LENGTH; at += 999)
            EQUAL(into[at], rank * (rank + 1) / 2 + (rank + 1) * at);
    }
    free(out);
    free(into);
}

int main(int argc, char **argv) {
    begin_threads(&argc, &argv);
    each(THREADS, on_own_communicators);
    each(THREADS, make);
    each(THREADS, join);
    each(THREADS, reduce);
    each(2, beside_a_wait);
    each(THREADS, long_scans);
    each(THREADS, attributes);
    each(THREADS, objects);
    for (int at = 0; at < THREADS; at++) MPI_Comm_set_errhandler(comms[at], MPI_ERRORS_RETURN);
    each(THREADS, half_wrong);
    return end_threads();
}
