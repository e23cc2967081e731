/* Messages of several threads of each rank at once (MPI 5.0 §11.6). */
#define _POSIX_C_SOURCE 200809L
#include <time.h>

#include "threads.h"

/* Ints of the messages: inline, short, long. */
static const int lengths[] = {0, 1, 2, 75, 1300, 25000};
#define LENGTHS (int)(sizeof lengths / sizeof *lengths)
#define MOST 25000
#define TURNS 2

static int *filled(int length, int value) {
    int *numbers = malloc(sizeof(int) * (length + 1));
    for (int at = 0; at <= length; at++) numbers[at] = value + at;
    return numbers;
}

static void check_filled(const int *numbers, int length, int value) {
    for (int at = 0; at < length; at++) EQUAL(numbers[at], value + at);
}

static void levels(int number) {
    int level, is_main;
    MPI_Query_thread(&level);
    EQUAL(level, MPI_THREAD_MULTIPLE);
    MPI_Is_thread_main(&is_main);
    EQUAL(is_main, 0);
    (void)number;
}

/* Each thread passes messages around a ring, by tags of its own, blocking and not. */
static void ring(int tag, MPI_Comm comm) {
    int *into = filled(MOST, 0);
    for (int turn = 0; turn < TURNS; turn++) {
        for (int at = 0; at < LENGTHS; at++) {
            const int length = lengths[at];
            int *out = filled(length, rank * 100 + tag + turn);
            MPI_Request requests[2];
            MPI_Status status;
            MPI_Isend(out, length, MPI_INT, right(), tag, comm, &requests[0]);
            MPI_Recv(into, MOST, MPI_INT, left(), tag, comm, &status);
            MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
            EQUAL(status.MPI_SOURCE, left());
            EQUAL(status.MPI_TAG, tag);
            int count;
            MPI_Get_count(&status, MPI_INT, &count);
            EQUAL(count, length);
            check_filled(into, length, left() * 100 + tag + turn);

            MPI_Sendrecv(out, length, MPI_INT, left(), tag, into, MOST, MPI_INT, right(), tag, comm,
                         &status);
            check_filled(into, length, right() * 100 + tag + turn);

            MPI_Irecv(into, MOST, MPI_INT, MPI_ANY_SOURCE, tag, comm, &requests[0]);
            MPI_Issend(out, length, MPI_INT, right(), tag, comm, &requests[1]);
            if (turn % 2) {
                MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
            } else {
                for (int flag = 0; !flag; sched_yield())
                    MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
            }
            check_filled(into, length, left() * 100 + tag + turn);
            free(out);
        }
    }
    free(into);
}

static void own_tags(int number) { ring(number, MPI_COMM_WORLD); }
static void own_communicators(int number) { ring(7, comms[number]); }

/* Requests that one thread starts and others complete. */
static MPI_Request sends[THREADS], receives[THREADS];
static int started[THREADS], arrived[THREADS];

static void complete(int number) {
    MPI_Status status;
    if (number % 2) {
        MPI_Wait(&receives[number], &status);
        MPI_Wait(&sends[number], MPI_STATUS_IGNORE);
    } else {
        for (int flag = 0; !flag; sched_yield()) MPI_Test(&receives[number], &flag, &status);
        for (int flag = 0; !flag; sched_yield()) MPI_Test(&sends[number], &flag, MPI_STATUS_IGNORE);
    }
    EQUAL(status.MPI_TAG, number);
    EQUAL(arrived[number], left() * 10 + number);
}

static void of_other_threads(void) {
    for (int turn = 0; turn < 6; turn++) {
        for (int at = 0; at < THREADS; at++) {
            started[at] = rank * 10 + at;
            MPI_Irecv(&arrived[at], 1, MPI_INT, left(), at, MPI_COMM_WORLD, &receives[at]);
            MPI_Issend(&started[at], 1, MPI_INT, right(), at, MPI_COMM_WORLD, &sends[at]);
        }
        each(THREADS, complete);
    }
}

/* One waits in a receive for what other threads of the same rank and of others send. */
static void wait_for_other(int number) {
    const int other = number ^ 1;
    for (int turn = 0; turn < 20; turn++) {
        int out = turn, into = -1;
        if (number % 2) {
            MPI_Recv(&into, 1, MPI_INT, rank, number, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Ssend(&out, 1, MPI_INT, rank, other, MPI_COMM_WORLD);
        } else {
            MPI_Ssend(&out, 1, MPI_INT, rank, other, MPI_COMM_WORLD);
            MPI_Recv(&into, 1, MPI_INT, rank, number, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        EQUAL(into, turn);
    }
}

/* Blocking both ways, in an order that only two threads can keep. */
static void block_both_ways(int number) {
    int one = rank;
    if (number == 0) MPI_Recv(&one, 1, MPI_INT, left(), 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (number == 1) MPI_Ssend(&one, 1, MPI_INT, right(), 3, MPI_COMM_WORLD);
    if (number == 0) EQUAL(one, left());
}

/* A thread ends while another waits; only then that gets its message. */
static void wait_long(int number) {
    int one = -1;
    if (number < 3) {
        MPI_Recv(&one, 1, MPI_INT, left(), number, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        EQUAL(one, number);
        if (number < 2) {
            one++;
            MPI_Send(&one, 1, MPI_INT, right(), number + 1, MPI_COMM_WORLD);
        }
    } else {
        one = 0;
        MPI_Send(&one, 1, MPI_INT, right(), 0, MPI_COMM_WORLD);
    }
}

/* Threads share out what comes, each message to one of them. */
#define SHARED 40
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int taken, sum;

static void share_out(int number) {
    if (number == 0) {
        for (int turn = 0; turn < SHARED; turn++) {
            int *out = filled(turn, turn);
            MPI_Send(out, turn + 1, MPI_INT, right(), turn, comms[0]);
            free(out);
        }
        return;
    }
    for (;;) {
        pthread_mutex_lock(&lock);
        const int is_over = taken == SHARED;
        taken += !is_over;
        pthread_mutex_unlock(&lock);
        if (is_over) return;
        MPI_Message message;
        MPI_Status status;
        int count, flag = number != 1;
        if (flag) MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comms[0], &message, &status);
        for (; !flag; sched_yield())
            MPI_Improbe(left(), MPI_ANY_TAG, comms[0], &flag, &message, &status);
        MPI_Get_count(&status, MPI_INT, &count);
        EQUAL(count, status.MPI_TAG + 1);
        int *into = filled(count, -1);
        MPI_Mrecv(into, count, MPI_INT, &message, MPI_STATUS_IGNORE);
        check_filled(into, count, status.MPI_TAG);
        free(into);
        pthread_mutex_lock(&lock);
        sum += status.MPI_TAG;
        pthread_mutex_unlock(&lock);
    }
}

/* A probe of each thread by its tag. */
static void probe(int number) {
    for (int turn = 0; turn < 10; turn++) {
        MPI_Request request;
        MPI_Status status;
        int flag = number % 2, out = turn, into;
        MPI_Isend(&out, 1, MPI_INT, right(), number, MPI_COMM_WORLD, &request);
        if (flag) MPI_Probe(left(), number, MPI_COMM_WORLD, &status);
        for (; !flag; sched_yield())
            MPI_Iprobe(MPI_ANY_SOURCE, number, MPI_COMM_WORLD, &flag, &status);
        EQUAL(status.MPI_SOURCE, left());
        MPI_Recv(&into, 1, MPI_INT, left(), number, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        EQUAL(into, turn);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

/* The first of several, and some of them. */
static void any(int number) {
    for (int turn = 0; turn < 4; turn++) {
        MPI_Request requests[8];
        int out[4], into[4], seen = 0;
        for (int at = 0; at < 4; at++) {
            const int tag = number * 4 + at;
            MPI_Irecv(&into[at], 1, MPI_INT, left(), tag, MPI_COMM_WORLD, &requests[at]);
        }
        for (int at = 3; at >= 0; at--) {
            const int tag = number * 4 + at;
            out[at] = tag;
            MPI_Isend(&out[at], 1, MPI_INT, right(), tag, MPI_COMM_WORLD, &requests[4 + at]);
        }
        for (int left = 8; left > 0;) {
            int places[8] = {0}, count = 1;
            if (turn % 2) {
                MPI_Waitany(8, requests, &places[0], MPI_STATUS_IGNORE);
            } else {
                MPI_Waitsome(8, requests, &count, places, MPI_STATUSES_IGNORE);
            }
            for (int at = 0; at < count; at++) seen |= 1 << places[at];
            left -= count;
        }
        EQUAL(seen, 255);
        for (int at = 0; at < 4; at++) EQUAL(into[at], number * 4 + at);
    }
}

/* Buffered sends of threads while a function of the program runs, in which others get in. */
static void add(void *in, void *inout, int *count, MPI_Datatype *type) {
    int bytes;
    MPI_Type_size(*type, &bytes);
    EQUAL(bytes, sizeof(int));
    sched_yield();
    for (int at = 0; at < *count; at++) ((int *)inout)[at] += ((int *)in)[at];
}

static void buffered(int number) {
    enum { LENGTH = 20000 };
    int *out = filled(LENGTH, 0), *into = filled(LENGTH, 0);
    MPI_Op op;
    MPI_Op_create(add, 1, &op);
    for (int turn = 0; turn < 25; turn++) {
        MPI_Request request;
        if (number < 2) {
            MPI_Iallreduce(out, into, 2000, MPI_INT, op, comms[number], &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            EQUAL(into[1999], 1999 * size);
        } else {
            for (int at = 0; at < LENGTH; at++) out[at] = rank + turn + at;
            MPI_Bsend(out, LENGTH, MPI_INT, right(), turn, comms[number]);
            MPI_Recv(into, LENGTH, MPI_INT, left(), turn, comms[number], MPI_STATUS_IGNORE);
            check_filled(into, LENGTH, left() + turn);
            for (int flush = 0; flush < 5; flush++) {
                MPI_Buffer_iflush(&request);
                MPI_Request_free(&request);
            }
        }
    }
    MPI_Op_free(&op);
    free(out);
    free(into);
}

static pthread_barrier_t both;

/* One waits for what another one cancels. */
static void cancel(int number) {
    static MPI_Request waited;
    static int into[2];
    for (int kind = 0; kind < 2; kind++) {
        if (number == 0) {
            if (kind == 0) MPI_Irecv(into, 1, MPI_INT, rank, 9, comms[0], &waited);
            else MPI_Recv_init(into, 1, MPI_INT, rank, 9, comms[0], &waited);
            if (kind == 1) MPI_Start(&waited);
        }
        pthread_barrier_wait(&both);
        if (number == 0) {
            MPI_Status status;
            int flag;
            MPI_Wait(&waited, &status);
            MPI_Test_cancelled(&status, &flag);
            CHECK(flag);
            if (kind == 1) MPI_Request_free(&waited);
        } else {
            MPI_Request same = waited;
            nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
            MPI_Cancel(&same);
        }
        pthread_barrier_wait(&both);
    }
}

/* One waits at rank 0 for what another one asks the status of. Other ranks start only afterwards. */
enum kind { ALLREDUCE, NEIGHBOURS, ONE_EXCHANGE, FLUSH, KINDS };
static MPI_Request asked;
static MPI_Comm grid;

static void start(enum kind kind, int *out, int *into) {
    const MPI_Info none = MPI_INFO_NULL;
    int token;
    if (kind == ALLREDUCE)
        MPI_Allreduce_init(out, into, 2, MPI_INT, MPI_SUM, grid, none, &asked);
    if (kind == NEIGHBOURS)
        MPI_Neighbor_alltoall_init(out, 1, MPI_INT, into, 1, MPI_INT, grid, none, &asked);
    if (rank > 0) MPI_Recv(&token, 1, MPI_INT, 0, 11, comms[0], MPI_STATUS_IGNORE);
    if (kind <= NEIGHBOURS) MPI_Start(&asked);
    if (kind == ONE_EXCHANGE)
        MPI_Ineighbor_alltoall(out, 1, MPI_INT, into, 1, MPI_INT, grid, &asked);
    if (kind == FLUSH) {
        static int numbers[MOST];
        if (rank == 0) MPI_Bsend(numbers, MOST, MPI_INT, 1, 12, grid);
        if (rank == 1) MPI_Recv(numbers, MOST, MPI_INT, 0, 12, grid, MPI_STATUS_IGNORE);
        MPI_Buffer_iflush(&asked);
    }
}

static void ask(int number) {
    for (enum kind kind = 0; kind < KINDS; kind++) {
        int out[2] = {rank, rank}, into[2] = {-1, -1}, flag = 0;
        if (number == 0) start(kind, out, into);
        pthread_barrier_wait(&both);
        MPI_Request same = asked;
        if (number == 0) {
            EQUAL(MPI_Wait(&same, MPI_STATUS_IGNORE), MPI_SUCCESS);
            if (kind < FLUSH) EQUAL(into[0], kind == ALLREDUCE ? size * (size - 1) / 2 : left());
        } else if (rank == 0) {
            nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
            MPI_Request_get_status(same, &flag, MPI_STATUS_IGNORE);
            EQUAL(flag, 0);
            for (int to = 1; to < size; to++) MPI_Send(&to, 1, MPI_INT, to, 11, comms[0]);
            for (; kind <= NEIGHBOURS && !flag; sched_yield())
                MPI_Request_get_status(same, &flag, MPI_STATUS_IGNORE);
        }
        pthread_barrier_wait(&both);
        if (number == 0 && kind <= NEIGHBOURS) MPI_Request_free(&asked);
    }
}

int main(int argc, char **argv) {
    begin_threads(&argc, &argv);
    each(THREADS, levels);
    each(THREADS, own_tags);
    each(THREADS, own_communicators);
    of_other_threads();
    each(THREADS, wait_for_other);
    for (int turn = 0; turn < 6; turn++) each(2, block_both_ways);
    for (int turn = 0; turn < 6; turn++) each(4, wait_long);
    each(THREADS, share_out);
    EQUAL(sum, SHARED * (SHARED - 1) / 2);
    each(THREADS, probe);
    each(THREADS, any);
    /* Others need a buffer. */
    if (is_hikyaku()) each(THREADS, buffered);
    pthread_barrier_init(&both, NULL, 2);
    each(2, cancel);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &(int){1}, 0, &grid);
    MPI_Comm_set_errhandler(grid, MPI_ERRORS_RETURN);
    /* Others may not expect two threads at one request. */
    if (is_hikyaku() && size > 1) each(2, ask);
    MPI_Comm_free(&grid);
    return end_threads();
}
