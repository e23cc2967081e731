/* The families of wait, test and get_status; cancel (MPI 5.0 §3.7, §3.8.4). */
#include "../check.h"

enum { COUNT = 6 };
static int out[COUNT], into[COUNT];
static MPI_Request requests[2 * COUNT];
static MPI_Status statuses[2 * COUNT];

/* Receives first, then sends; the last receive's message is sent when asked for. */
static void start(int sends) {
    for (int at = 0; at < COUNT; at++) {
        into[at] = -1;
        out[at] = 100 * rank + at;
        MPI_Irecv(&into[at], 1, MPI_INT, left(), at, MPI_COMM_WORLD, &requests[at]);
        requests[COUNT + at] = MPI_REQUEST_NULL;
    }
    for (int at = 0; at < sends; at++)
        MPI_Isend(&out[at], 1, MPI_INT, right(), at, MPI_COMM_WORLD, &requests[COUNT + at]);
}

static void expect_all(void) {
    for (int at = 0; at < COUNT; at++) EQUAL(into[at], 100 * left() + at);
    for (int at = 0; at < 2 * COUNT; at++) CHECK(requests[at] == MPI_REQUEST_NULL);
}

static void all(void) {
    int flag = 0;
    start(COUNT);
    MPI_Waitall(2 * COUNT, requests, statuses);
    for (int at = 0; at < COUNT; at++) EQUAL(statuses[at].MPI_TAG, at);
    expect_all();
    start(COUNT);
    while (!flag) MPI_Request_get_status_all(2 * COUNT, requests, &flag, statuses);
    for (int at = 0; at < COUNT; at++) {
        CHECK(requests[at] != MPI_REQUEST_NULL);
        EQUAL(statuses[at].MPI_SOURCE, left());
    }
    flag = 0;
    while (!flag) MPI_Testall(2 * COUNT, requests, &flag, MPI_STATUSES_IGNORE);
    expect_all();
}

static void any(int waits) {
    int index, flag, seen = 0;
    MPI_Status status;
    start(COUNT);
    for (int done = 0; done < 2 * COUNT; done++) {
        if (waits) {
            MPI_Waitany(2 * COUNT, requests, &index, &status);
        } else {
            do MPI_Testany(2 * COUNT, requests, &index, &flag, &status);
            while (!flag);
        }
        CHECK(index >= 0 && index < 2 * COUNT && !(seen & 1 << index));
        seen |= 1 << index;
        if (index < COUNT) EQUAL(status.MPI_TAG, index);
    }
    expect_all();
    MPI_Waitany(2 * COUNT, requests, &index, &status);
    EQUAL(index, MPI_UNDEFINED);
    EQUAL(status.MPI_SOURCE, MPI_ANY_SOURCE);
    MPI_Testany(2 * COUNT, requests, &index, &flag, &status);
    EQUAL(index, MPI_UNDEFINED);
    EQUAL(flag, 1);
}

static void some(int waits) {
    int indices[2 * COUNT], count, done = 0;
    start(COUNT);
    while (done < 2 * COUNT) {
        if (waits)
            MPI_Waitsome(2 * COUNT, requests, &count, indices, statuses);
        else
            MPI_Testsome(2 * COUNT, requests, &count, indices, statuses);
        CHECK(count >= (waits ? 1 : 0) && count <= 2 * COUNT);
        for (int at = 0; at < count; at++)
            if (indices[at] < COUNT) EQUAL(statuses[at].MPI_TAG, indices[at]);
        done += count;
    }
    EQUAL(done, 2 * COUNT);
    expect_all();
    MPI_Waitsome(2 * COUNT, requests, &count, indices, MPI_STATUSES_IGNORE);
    EQUAL(count, MPI_UNDEFINED);
    MPI_Testsome(2 * COUNT, requests, &count, indices, MPI_STATUSES_IGNORE);
    EQUAL(count, MPI_UNDEFINED);
}

static void not_yet(void) {
    int flag, index;
    MPI_Status status;
    start(COUNT - 1);
    MPI_Waitall(COUNT - 1, requests, MPI_STATUSES_IGNORE);
    MPI_Test(&requests[COUNT - 1], &flag, &status);
    EQUAL(flag, 0);
    MPI_Testall(2 * COUNT, requests, &flag, statuses);
    EQUAL(flag, 0);
    MPI_Request_get_status(requests[COUNT - 1], &flag, &status);
    EQUAL(flag, 0);
    MPI_Request_get_status_any(1, &requests[COUNT - 1], &index, &flag, &status);
    EQUAL(flag, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(&out[COUNT - 1], 1, MPI_INT, right(), COUNT - 1, MPI_COMM_WORLD);
    do MPI_Request_get_status(requests[COUNT - 1], &flag, &status);
    while (!flag);
    EQUAL(status.MPI_TAG, COUNT - 1);
    CHECK(requests[COUNT - 1] != MPI_REQUEST_NULL);
    MPI_Wait(&requests[COUNT - 1], &status);
    EQUAL(status.MPI_SOURCE, left());
    MPI_Waitall(2 * COUNT, requests, MPI_STATUSES_IGNORE);
    expect_all();
}

static void cancelled(void) {
    int value = 5, flag, persists;
    MPI_Status status;
    for (persists = 0; persists < 2; persists++) {
        MPI_Request request;
        if (persists) {
            MPI_Recv_init(&value, 1, MPI_INT, MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, &request);
            MPI_Start(&request);
        } else {
            MPI_Irecv(&value, 1, MPI_INT, left(), 77, MPI_COMM_WORLD, &request);
        }
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &flag);
        EQUAL(flag, 1);
        EQUAL(value, 5);
        if (persists) MPI_Request_free(&request);
        CHECK(request == MPI_REQUEST_NULL);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    /* The next message is not lost to the one that was cancelled. */
    MPI_Sendrecv(&rank, 1, MPI_INT, right(), 77, &value, 1, MPI_INT, left(), 77, MPI_COMM_WORLD,
                 &status);
    EQUAL(value, left());
    MPI_Test_cancelled(&status, &flag);
    EQUAL(flag, 0);
}

/* A freed request goes on: the message arrives. */
static void freed(void) {
    int value;
    MPI_Request request;
    MPI_Isend(&rank, 1, MPI_INT, right(), 8, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
    CHECK(request == MPI_REQUEST_NULL);
    MPI_Recv(&value, 1, MPI_INT, left(), 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    EQUAL(value, left());
    MPI_Barrier(MPI_COMM_WORLD);
}

static void of_nothing(void) {
    int flag, count;
    MPI_Request none = MPI_REQUEST_NULL;
    MPI_Status status;
    MPI_Wait(&none, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    EQUAL(count, 0);
    MPI_Test(&none, &flag, &status);
    EQUAL(flag, 1);
    MPI_Request_get_status(none, &flag, &status);
    EQUAL(flag, 1);
    MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE);
    /* What a program writes into a status itself. */
    MPI_Status_set_source(&status, 3);
    MPI_Status_set_tag(&status, 4);
    MPI_Status_set_elements(&status, MPI_INT, 6);
    MPI_Status_set_cancelled(&status, 1);
    EQUAL(status.MPI_SOURCE, 3);
    EQUAL(status.MPI_TAG, 4);
    MPI_Get_elements(&status, MPI_INT, &count);
    EQUAL(count, 6);
    MPI_Get_count(&status, MPI_DOUBLE, &count);
    EQUAL(count, 3);
    MPI_Test_cancelled(&status, &flag);
    EQUAL(flag, 1);
    /* A count has 63 bits. */
    MPI_Count many = 0x7654321f71234567, told;
    MPI_Status_set_elements_c(&status, MPI_BYTE, many);
    MPI_Get_elements_c(&status, MPI_BYTE, &told);
    CHECK(told == many);
    MPI_Test_cancelled(&status, &flag);
    EQUAL(flag, 1);
}

/* Sends that are complete when they are made: what becomes of one leaves the others alone. */
static void sent_at_once(void) {
    int flag = 0;
    MPI_Status status;
    for (int at = 0; at < COUNT; at++) {
        out[at] = 200 * rank + at;
        MPI_Isend(&out[at], 1, MPI_INT, right(), at, MPI_COMM_WORLD, &requests[at]);
    }
    MPI_Request copy = requests[1];
    for (int at = 0; at < COUNT; at++)
        MPI_Recv(&into[at], 1, MPI_INT, left(), at, MPI_COMM_WORLD, &status);
    MPI_Request_free(&requests[0]);
    CHECK(requests[0] == MPI_REQUEST_NULL && requests[1] == copy);
    MPI_Wait(&requests[1], &status);
    CHECK(requests[1] == MPI_REQUEST_NULL);
    for (int again = 0; again < 2; again++) {
        for (flag = 0; !flag;) MPI_Request_get_status(requests[2], &flag, &status);
        CHECK(requests[2] != MPI_REQUEST_NULL);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CLASS(MPI_Start(&requests[3]), MPI_ERR_REQUEST);
    MPI_Waitall(COUNT, requests, statuses);
    for (int at = 0; at < COUNT; at++) {
        CHECK(requests[at] == MPI_REQUEST_NULL);
        EQUAL(into[at], 200 * left() + at);
    }
}

/* Receives whose messages are there when they are started: each is complete in every way. */
static void received_at_once(void) {
    int flag, index, count, indices[COUNT];
    MPI_Status status;
    for (int at = 0; at < COUNT; at++) {
        out[at] = 300 * rank + at;
        MPI_Send(&out[at], 1, MPI_INT, right(), at, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int at = 0; at < COUNT; at++) {
        into[at] = -1;
        MPI_Irecv(&into[at], 1, MPI_INT, left(), at, MPI_COMM_WORLD, &requests[at]);
    }
    for (int again = 0; again < 2; again++) {
        for (flag = 0; !flag;) MPI_Request_get_status(requests[0], &flag, &status);
        EQUAL(status.MPI_TAG, 0);
        EQUAL(status.MPI_SOURCE, left());
        CHECK(requests[0] != MPI_REQUEST_NULL);
    }
    MPI_Cancel(&requests[0]);
    MPI_Wait(&requests[0], &status);
    MPI_Test_cancelled(&status, &flag);
    EQUAL(flag, 0);
    for (flag = 0; !flag;) MPI_Test(&requests[1], &flag, &status);
    EQUAL(status.MPI_TAG, 1);
    MPI_Get_count(&status, MPI_INT, &count);
    EQUAL(count, 1);
    MPI_Waitany(3, requests, &index, &status);
    EQUAL(index, 2);
    EQUAL(status.MPI_TAG, 2);
    MPI_Waitsome(4, requests, &count, indices, statuses);
    EQUAL(count, 1);
    EQUAL(indices[0], 3);
    EQUAL(statuses[0].MPI_TAG, 3);
    MPI_Waitall(5, requests, statuses);
    EQUAL(statuses[4].MPI_TAG, 4);
    EQUAL(statuses[4].MPI_SOURCE, left());
    EQUAL(statuses[3].MPI_SOURCE, MPI_ANY_SOURCE);
    MPI_Request copy = requests[5];
    for (flag = 0; !flag;) MPI_Request_get_status(copy, &flag, &status);
    MPI_Request_free(&requests[5]);
    for (int at = 0; at < COUNT; at++) {
        CHECK(requests[at] == MPI_REQUEST_NULL);
        EQUAL(into[at], 300 * left() + at);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The first receives of a window wait for what the last ones find. */
static void in_turn(void) {
    enum { WINDOW = 64 };
    static int got[WINDOW];
    MPI_Request window[WINDOW];
    MPI_Status all[WINDOW];
    for (int round = 0; round < 40; round++) {
        int sends = round % WINDOW;
        for (int at = 0; at < WINDOW; at++) {
            int value = 1000 * rank + at;
            int tag = round % 2 ? at : 5;
            if (at == sends)
                for (int of = 0; of < WINDOW; of++) {
                    value = 1000 * rank + of;
                    MPI_Send(&value, 1, MPI_INT, right(), round % 2 ? of : 5, MPI_COMM_WORLD);
                }
            got[at] = -1;
            MPI_Irecv(&got[at], 1, MPI_INT, round % 3 ? left() : MPI_ANY_SOURCE, tag,
                      MPI_COMM_WORLD, &window[at]);
        }
        MPI_Waitall(WINDOW, window, all);
        for (int at = 0; at < WINDOW; at++) {
            EQUAL(got[at], 1000 * left() + at);
            EQUAL(all[at].MPI_SOURCE, left());
            EQUAL(all[at].MPI_TAG, round % 2 ? at : 5);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* One of several messages is too long: the first call on the requests reports it, the status names the
 * message, and the other message is intact. */
static void one_too_long(int form) {
    int short_one[2] = {rank, rank}, long_one[3] = {rank, rank, rank}, got[4] = {-1, -1, -1, -1};
    int flag = 0, count, done = 0, indices[4], error = MPI_SUCCESS;
    MPI_Comm comm;
    MPI_Request requests[4];
    MPI_Status statuses[4], all[4];
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Irecv(got, 2, MPI_INT, left(), 3, comm, &requests[0]);
    MPI_Irecv(got + 2, 2, MPI_INT, left(), 4, comm, &requests[1]);
    MPI_Isend(short_one, 2, MPI_INT, right(), 3, comm, &requests[2]);
    MPI_Isend(long_one, 3, MPI_INT, right(), 4, comm, &requests[3]);
    if (form == 1) {
        /* To ask for the status takes nothing away. */
        while (!flag) {
            error = MPI_Request_get_status(requests[1], &flag, &statuses[1]);
            CLASS(error, flag ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
        }
        for (flag = 0; !flag;) error = MPI_Request_get_status_all(4, requests, &flag, statuses);
        CLASS(error, MPI_ERR_IN_STATUS);
        CLASS(statuses[1].MPI_ERROR, MPI_ERR_TRUNCATE);
    }
    if (form < 2) {
        CLASS(MPI_Waitall(4, requests, all), MPI_ERR_IN_STATUS);
    } else if (form == 2) {
        while (!flag) error = MPI_Testall(4, requests, &flag, all);
        CLASS(error, MPI_ERR_IN_STATUS);
    } else {
        for (int failures = 0; done < 4; done += count) {
            error = form == 3 ? MPI_Waitsome(4, requests, &count, indices, statuses)
                              : MPI_Testsome(4, requests, &count, indices, statuses);
            for (int at = 0; at < count; at++) {
                if (error == MPI_SUCCESS) statuses[at].MPI_ERROR = MPI_SUCCESS;
                all[indices[at]] = statuses[at];
            }
            if (error != MPI_SUCCESS) {
                CLASS(error, MPI_ERR_IN_STATUS);
                EQUAL(++failures, 1);
            }
        }
    }
    EQUAL(all[0].MPI_ERROR, MPI_SUCCESS);
    EQUAL(all[0].MPI_TAG, 3);
    EQUAL(got[1], left());
    CLASS(all[1].MPI_ERROR, MPI_ERR_TRUNCATE);
    EQUAL(all[1].MPI_SOURCE, left());
    EQUAL(all[1].MPI_TAG, 4);
    MPI_Comm_free(&comm);
}

/* What tells of one operation, or of several that are as they should be, leaves the error alone (MPI 5.0
 * §3.2.5). */
static void error_untouched(void) {
    enum { MINE = 12345 };
    int out = rank, in, flag = 0;
    MPI_Message message;
    MPI_Request requests[2];
    MPI_Status status[2] = {{.MPI_ERROR = MINE}, {.MPI_ERROR = MINE}};
    for (int at = 0; at < 6; at++) MPI_Send(&out, 1, MPI_INT, right(), at, MPI_COMM_WORLD);
    MPI_Recv(&in, 1, MPI_INT, left(), 0, MPI_COMM_WORLD, status);
    EQUAL(status->MPI_SOURCE, left());
    EQUAL(status->MPI_ERROR, MINE);
    MPI_Probe(left(), 1, MPI_COMM_WORLD, status);
    EQUAL(status->MPI_TAG, 1);
    EQUAL(status->MPI_ERROR, MINE);
    MPI_Mprobe(left(), 1, MPI_COMM_WORLD, &message, status);
    EQUAL(status->MPI_ERROR, MINE);
    MPI_Mrecv(&in, 1, MPI_INT, &message, status);
    EQUAL(status->MPI_ERROR, MINE);
    MPI_Irecv(&in, 1, MPI_INT, left(), 2, MPI_COMM_WORLD, requests);
    MPI_Wait(requests, status);
    EQUAL(status->MPI_TAG, 2);
    EQUAL(status->MPI_ERROR, MINE);
    MPI_Irecv(&in, 1, MPI_INT, left(), 3, MPI_COMM_WORLD, requests);
    while (!flag) MPI_Test(requests, &flag, status);
    EQUAL(status->MPI_TAG, 3);
    EQUAL(status->MPI_ERROR, MINE);
    MPI_Recv(&in, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, status);
    EQUAL(status->MPI_SOURCE, MPI_PROC_NULL);
    EQUAL(status->MPI_ERROR, MINE);
    for (int at = 0; at < 2; at++)
        MPI_Irecv(&in, 1, MPI_INT, left(), 4 + at, MPI_COMM_WORLD, &requests[at]);
    MPI_Waitall(2, requests, status);
    EQUAL(status[1].MPI_TAG, 5);
    if (is_hikyaku()) EQUAL(status[1].MPI_ERROR, MINE);
}

/* A matched message that is too long is an error of its communicator. */
static void matched_too_long(void) {
    int out[3] = {rank, rank, rank}, in[2];
    MPI_Comm comm;
    MPI_Errhandler kept;
    MPI_Message message;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_get_errhandler(MPI_COMM_SELF, &kept);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Send(out, 3, MPI_INT, right(), 9, comm);
    MPI_Mprobe(left(), 9, comm, &message, MPI_STATUS_IGNORE);
    CLASS(MPI_Mrecv(in, 2, MPI_INT, &message, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, kept);
    MPI_Errhandler_free(&kept);
    MPI_Comm_free(&comm);
}

/* One that nobody has started is complete beside one that is not, and can be started then. */
static void not_started(void) {
    int mine = rank, theirs = -1, got = -1, flag;
    MPI_Request requests[2];
    MPI_Recv_init(&theirs, 1, MPI_INT, left(), 5, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(&got, 1, MPI_INT, left(), 6, MPI_COMM_WORLD, &requests[1]);
    CLASS(MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE), MPI_SUCCESS);
    EQUAL(flag, 0);
    CLASS(MPI_Start(&requests[0]), MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(&mine, 1, MPI_INT, right(), 6, MPI_COMM_WORLD);
    MPI_Send(&mine, 1, MPI_INT, right(), 5, MPI_COMM_WORLD);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    EQUAL(theirs, left());
    EQUAL(got, left());
    MPI_Request_free(&requests[0]);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    for (int turn = 0; turn < 3; turn++) {
        all();
        any(1);
        any(0);
        some(1);
        some(0);
        not_yet();
        cancelled();
        freed();
    }
    sent_at_once();
    /* On MPICH a rank that sends to itself waits for the receive. */
    if (size > 1 || is_hikyaku()) {
        received_at_once();
        in_turn();
        error_untouched();
    }
    of_nothing();
    for (int form = 0; form < 5; form++) one_too_long(form);
    /* On MPICH it is an error of MPI_COMM_SELF. */
    if (is_hikyaku()) matched_too_long();
    not_started();
    return end();
}
