/* All modes of sending, blocking and not (MPI 5.0 §3.4, §3.7, §3.10, §3.11), around a ring. */
#define _POSIX_C_SOURCE 200809L
#include <time.h>

#include "../check.h"

enum { MOST = 100000 };
static int out[MOST], into[MOST + 1];

static void fill(int length, int turn) {
    for (int at = 0; at < length; at++) out[at] = rank * 7 + turn + at;
    for (int at = 0; at <= length; at++) into[at] = -1;
}

static void expect(int length, int turn, const MPI_Status *status, int tag) {
    int count;
    MPI_Get_count(status, MPI_INT, &count);
    EQUAL(count, length);
    EQUAL(status->MPI_SOURCE, left());
    EQUAL(status->MPI_TAG, tag);
    for (int at = 0; at < length; at++) EQUAL(into[at], left() * 7 + turn + at);
    EQUAL(into[length], -1);
}

static void one_length(int length) {
    MPI_Status status, both[2];
    MPI_Request request, pair[2];
    for (int mode = 0; mode < 12; mode++) {
        fill(length, mode);
        MPI_Irecv(into, length, MPI_INT, mode % 2 ? MPI_ANY_SOURCE : left(),
                  mode % 3 ? MPI_ANY_TAG : mode, MPI_COMM_WORLD, &pair[0]);
        /* Ready mode needs the receive to be posted. */
        MPI_Barrier(MPI_COMM_WORLD);
        request = MPI_REQUEST_NULL;
        switch (mode) {
        case 0: MPI_Send(out, length, MPI_INT, right(), mode, MPI_COMM_WORLD); break;
        case 1: MPI_Bsend(out, length, MPI_INT, right(), mode, MPI_COMM_WORLD); break;
        case 2:
            /* A ring of blocking synchronous sends ends since the receives are posted. */
            MPI_Ssend(out, length, MPI_INT, right(), mode, MPI_COMM_WORLD);
            break;
        case 3: MPI_Rsend(out, length, MPI_INT, right(), mode, MPI_COMM_WORLD); break;
        case 4: MPI_Isend(out, length, MPI_INT, right(), mode, MPI_COMM_WORLD, &request); break;
        case 5: MPI_Ibsend(out, length, MPI_INT, right(), mode, MPI_COMM_WORLD, &request); break;
        case 6: MPI_Issend(out, length, MPI_INT, right(), mode, MPI_COMM_WORLD, &request); break;
        case 7: MPI_Irsend(out, length, MPI_INT, right(), mode, MPI_COMM_WORLD, &request); break;
        case 8: MPI_Send_c(out, length, MPI_INT, right(), mode, MPI_COMM_WORLD); break;
        case 9: MPI_Issend_c(out, length, MPI_INT, right(), mode, MPI_COMM_WORLD, &request); break;
        case 10: MPI_Bsend_c(out, length, MPI_INT, right(), mode, MPI_COMM_WORLD); break;
        case 11: MPI_Isend_c(out, length, MPI_INT, right(), mode, MPI_COMM_WORLD, &request); break;
        }
        pair[1] = request;
        MPI_Waitall(2, pair, both);
        EQUAL(pair[0] == MPI_REQUEST_NULL && pair[1] == MPI_REQUEST_NULL, 1);
        expect(length, mode, &both[0], mode);
    }
    fill(length, 50);
    MPI_Sendrecv(out, length, MPI_INT, right(), 3, into, length + 1, MPI_INT, left(), 3,
                 MPI_COMM_WORLD, &status);
    expect(length, 50, &status, 3);
    fill(length, 51);
    MPI_Isendrecv(out, length, MPI_INT, right(), 4, into, length + 1, MPI_INT, left(), 4,
                  MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int at = 0; at < length; at++) EQUAL(into[at], left() * 7 + 51 + at);
    for (int turn = 0; turn < 2; turn++) {
        fill(length, 52);
        memcpy(into, out, sizeof *out * (size_t)length);
        if (turn == 0) {
            MPI_Sendrecv_replace(into, length, MPI_INT, right(), 5, left(), 5, MPI_COMM_WORLD,
                                 &status);
            expect(length, 52, &status, 5);
        } else {
            MPI_Isendrecv_replace(into, length, MPI_INT, right(), 5, left(), MPI_ANY_TAG,
                                  MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            for (int at = 0; at < length; at++) EQUAL(into[at], left() * 7 + 52 + at);
        }
    }
}

/* The status of a message in flight both ways is that of the receive (MPI 5.0 §3.11). */
static void both_ways(void) {
    int got, count;
    MPI_Request request;
    MPI_Status status;
    memset(&status, 0, sizeof status);
    MPI_Isendrecv(&rank, 1, MPI_INT, right(), 4, &got, 1, MPI_INT, left(), 4, MPI_COMM_WORLD,
                  &request);
    MPI_Wait(&request, &status);
    EQUAL(got, left());
    if (is_hikyaku()) EQUAL(status.MPI_TAG, 4);
    MPI_Get_count(&status, MPI_INT, &count);
    if (is_hikyaku()) EQUAL(count, 1);
}

/* Messages of a pair are received in the order in which they were sent (MPI 5.0 §3.5). */
static void order(void) {
    enum { COUNT = 200 };
    MPI_Request sends[COUNT];
    int numbers[COUNT], got;
    for (int at = 0; at < COUNT; at++) {
        numbers[at] = at;
        MPI_Isend(&numbers[at], 1, MPI_INT, right(), at % 2, MPI_COMM_WORLD, &sends[at]);
    }
    for (int tag = 1; tag >= 0; tag--) {
        for (int at = tag; at < COUNT; at += 2) {
            MPI_Recv(&got, 1, MPI_INT, left(), tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            EQUAL(got, at);
        }
    }
    MPI_Waitall(COUNT, sends, MPI_STATUSES_IGNORE);
}

/* Nobody sends and receives nothing at once (MPI 5.0 §3.10). */
static void nobody(void) {
    MPI_Status status;
    MPI_Request request;
    int value = 3, count, flag;
    MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
    MPI_Ssend(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
    MPI_Recv(&value, 1, MPI_INT, MPI_PROC_NULL, 5, MPI_COMM_WORLD, &status);
    EQUAL(status.MPI_SOURCE, MPI_PROC_NULL);
    EQUAL(status.MPI_TAG, MPI_ANY_TAG);
    MPI_Get_count(&status, MPI_INT, &count);
    EQUAL(count, 0);
    EQUAL(value, 3);
    MPI_Irecv(&value, 1, MPI_INT, MPI_PROC_NULL, 5, MPI_COMM_WORLD, &request);
    MPI_Test(&request, &flag, &status);
    EQUAL(flag, 1);
    MPI_Iprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &flag, &status);
    EQUAL(flag, 1);
    EQUAL(status.MPI_SOURCE, MPI_PROC_NULL);
}

/* A message in the buffer of a communicator is sent in MPI_Finalize at the latest, although the
 * program has not freed the communicator. Every second rank ends before its message is received. */
static void sent_at_the_end(void) {
    enum { LENGTH = 1 << 20 };
    static char room[LENGTH + MPI_BSEND_OVERHEAD];
    MPI_Comm twin;
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    char *data = malloc(LENGTH);
    memset(data, 7, LENGTH);
    if (rank % 2 == 0 && rank + 1 < size) {
        MPI_Comm_attach_buffer(twin, room, sizeof room);
        MPI_Bsend(data, LENGTH, MPI_CHAR, rank + 1, 0, twin);
    } else if (rank % 2) {
        memset(data, 1, LENGTH);
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        MPI_Recv(data, LENGTH, MPI_CHAR, rank - 1, 0, twin, MPI_STATUS_IGNORE);
        for (int at = 0; at < LENGTH; at++) EQUAL(data[at], 7);
    }
    free(data);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int room = 2 * (int)sizeof out + 4 * MPI_BSEND_OVERHEAD;
    void *buffer = malloc((size_t)room), *back;
    MPI_Buffer_attach(buffer, room);
    for (int length = 0; length <= MOST; length = length * 10 + (length < 10))
        one_length(length);
    one_length(20000);
    both_ways();
    order();
    nobody();
    MPI_Buffer_flush();
    int had;
    MPI_Buffer_detach(&back, &had);
    CHECK(back == buffer && had == room);
    free(buffer);
    sent_at_the_end();
    return end();
}
