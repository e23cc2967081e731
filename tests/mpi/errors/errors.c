/* Error handlers, classes, codes and strings (MPI 5.0 chapter 9). */
#include <stdarg.h>
#include "../check.h"

static int seen, last_code;
static MPI_Comm seen_comm;

static void handler(MPI_Comm *comm, int *code, ...) {
    seen++;
    last_code = *code;
    seen_comm = *comm;
}

/* An error that every library finds: a message that is longer than the room for it. */
static int fail_in(MPI_Comm comm) {
    int out[2] = {1, 2}, into[2];
    MPI_Request request;
    MPI_Isend(out, 2, MPI_INT, rank, 9, comm, &request);
    int code = MPI_Recv(into, 1, MPI_INT, rank, 9, comm, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return code;
}

static void handlers(void) {
    MPI_Errhandler own, got;
    MPI_Comm twin, child;
    int code;
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &got);
    CHECK(got == MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&got);
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    MPI_Comm_create_errhandler(handler, &own);
    MPI_Comm_set_errhandler(twin, own);
    MPI_Errhandler_free(&own);
    CHECK(own == MPI_ERRHANDLER_NULL);
    code = fail_in(twin);
    EQUAL(seen, 1);
    EQUAL(class_of(last_code), MPI_ERR_TRUNCATE);
    if (is_hikyaku()) EQUAL(code, last_code);
    CHECK(seen_comm == twin);
    /* A duplicate has the handler as well. */
    MPI_Comm_dup(twin, &child);
    fail_in(child);
    EQUAL(seen, 2);
    CHECK(seen_comm == child);
    MPI_Comm_call_errhandler(child, MPI_ERR_TAG);
    CHECK(seen == 3 && last_code == MPI_ERR_TAG);
    MPI_Comm_set_errhandler(child, MPI_ERRORS_RETURN);
    CLASS(fail_in(child), MPI_ERR_TRUNCATE);
    EQUAL(seen, 3);
    EQUAL(MPI_Comm_call_errhandler(child, MPI_ERR_TAG), MPI_SUCCESS);
    MPI_Comm_free(&child);
    MPI_Comm_free(&twin);
}

/* All classes of the standard (MPI 5.0 §9.4), which each binary interface numbers in its own way. */
static const int classes[] = {
    MPI_SUCCESS, MPI_ERR_BUFFER, MPI_ERR_COUNT, MPI_ERR_TYPE, MPI_ERR_TAG, MPI_ERR_COMM,
    MPI_ERR_RANK, MPI_ERR_REQUEST, MPI_ERR_ROOT, MPI_ERR_GROUP, MPI_ERR_OP, MPI_ERR_TOPOLOGY,
    MPI_ERR_DIMS, MPI_ERR_ARG, MPI_ERR_UNKNOWN, MPI_ERR_TRUNCATE, MPI_ERR_OTHER, MPI_ERR_INTERN,
    MPI_ERR_PENDING, MPI_ERR_IN_STATUS, MPI_ERR_ACCESS, MPI_ERR_AMODE, MPI_ERR_ASSERT,
    MPI_ERR_BAD_FILE, MPI_ERR_BASE, MPI_ERR_CONVERSION, MPI_ERR_DISP, MPI_ERR_DUP_DATAREP,
    MPI_ERR_FILE_EXISTS, MPI_ERR_FILE_IN_USE, MPI_ERR_FILE, MPI_ERR_INFO_KEY, MPI_ERR_INFO_NOKEY,
    MPI_ERR_INFO_VALUE, MPI_ERR_INFO, MPI_ERR_IO, MPI_ERR_KEYVAL, MPI_ERR_LOCKTYPE, MPI_ERR_NAME,
    MPI_ERR_NO_MEM, MPI_ERR_NOT_SAME, MPI_ERR_NO_SPACE, MPI_ERR_NO_SUCH_FILE, MPI_ERR_PORT,
    MPI_ERR_QUOTA, MPI_ERR_READ_ONLY, MPI_ERR_RMA_ATTACH, MPI_ERR_RMA_CONFLICT, MPI_ERR_RMA_RANGE,
    MPI_ERR_RMA_SHARED, MPI_ERR_RMA_SYNC, MPI_ERR_SERVICE, MPI_ERR_SIZE, MPI_ERR_SPAWN,
    MPI_ERR_UNSUPPORTED_DATAREP, MPI_ERR_UNSUPPORTED_OPERATION, MPI_ERR_WIN, MPI_ERR_RMA_FLAVOR,
    MPI_ERR_PROC_ABORTED, MPI_ERR_VALUE_TOO_LARGE, MPI_ERR_SESSION, MPI_ERR_ERRHANDLER, MPI_ERR_ABI,
};

static void codes(void) {
    int class, code, got, length;
    char text[MPI_MAX_ERROR_STRING];
    for (size_t at = 0; at < sizeof classes / sizeof *classes; at++) {
        MPI_Error_class(classes[at], &got);
        EQUAL(got, classes[at]);
        MPI_Error_string(classes[at], text, &length);
        CHECK(length > 0 && (size_t)length == strlen(text));
    }
    MPI_Add_error_class(&class);
    CHECK(class > MPI_ERR_LASTCODE);
    MPI_Add_error_code(class, &code);
    MPI_Add_error_string(code, "the wine is out");
    MPI_Error_string(code, text, &length);
    CHECK(strcmp(text, "the wine is out") == 0);
    MPI_Error_class(code, &got);
    EQUAL(got, class);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK(MPI_Add_error_code(code, &got) != MPI_SUCCESS);
    int *last, flag;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag);
    CHECK(flag && *last >= (is_hikyaku() ? code : class));
    EQUAL(MPI_Remove_error_string(code), MPI_SUCCESS);
    EQUAL(MPI_Remove_error_code(code), MPI_SUCCESS);
    EQUAL(MPI_Remove_error_class(class), MPI_SUCCESS);
}

/* What arrives is longer than the room: the call says so, and the next message is not hurt. */
static void truncated(void) {
    int out[4] = {1, 2, 3, 4}, into[4] = {0}, large[5000] = {0}, got;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Isend(out, 4, MPI_INT, right(), 1, MPI_COMM_WORLD, &requests[0]);
    CLASS(MPI_Recv(into, 2, MPI_INT, left(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    EQUAL(into[2], 0);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Irecv(into, 1, MPI_INT, left(), 2, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(&got, 1, MPI_INT, left(), 3, MPI_COMM_WORLD, &requests[1]);
    MPI_Request send;
    MPI_Isend(large, 5000, MPI_INT, right(), 2, MPI_COMM_WORLD, &send);
    MPI_Send(&rank, 1, MPI_INT, right(), 3, MPI_COMM_WORLD);
    CLASS(MPI_Waitall(2, requests, statuses), MPI_ERR_IN_STATUS);
    EQUAL(class_of(statuses[0].MPI_ERROR), MPI_ERR_TRUNCATE);
    /* The other is complete, or not looked at yet (MPI 5.0 §3.7.5). */
    if (class_of(statuses[1].MPI_ERROR) == MPI_ERR_PENDING)
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    else
        EQUAL(statuses[1].MPI_ERROR, MPI_SUCCESS);
    EQUAL(got, left());
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* The error handler of a communicator that the program has freed still counts. */
static void freed(void) {
    int out[4] = {1, 2, 3, 4}, into = 0;
    MPI_Comm twin;
    MPI_Request requests[2];
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    MPI_Comm_set_errhandler(twin, MPI_ERRORS_RETURN);
    MPI_Irecv(&into, 1, MPI_INT, left(), 1, twin, &requests[0]);
    MPI_Isend(out, 4, MPI_INT, right(), 1, twin, &requests[1]);
    MPI_Comm_free(&twin);
    CLASS(MPI_Wait(&requests[0], MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    EQUAL(MPI_Wait(&requests[1], MPI_STATUS_IGNORE), MPI_SUCCESS);
}

/* A buffered send without room, which hikyaku does not lack, and a buffer that is attached twice. */
static void buffers(void) {
    char room[MPI_BSEND_OVERHEAD + 64], other[64];
    static char large[100000];
    void *back;
    int bytes;
    /* Calls without a communicator have the handler of this one (MPI 5.0 §9.3). */
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (!is_hikyaku()) CLASS(MPI_Bsend(large, sizeof large, MPI_CHAR, right(), 0, MPI_COMM_WORLD), MPI_ERR_BUFFER);
    MPI_Buffer_attach(room, sizeof room);
    if (!is_hikyaku()) CLASS(MPI_Bsend(large, sizeof large, MPI_CHAR, right(), 0, MPI_COMM_WORLD), MPI_ERR_BUFFER);
    CHECK(MPI_Buffer_attach(other, sizeof other) != MPI_SUCCESS);
    MPI_Buffer_detach(&back, &bytes);
    CHECK(back == room && bytes == (int)sizeof room);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* More bytes than any memory has. */
static void counts(void) {
    MPI_Count most = (MPI_Count)1 << 61, bytes = 0;
    MPI_Request request;
    if (!is_hikyaku()) return;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CLASS(MPI_Send_c(&rank, most, MPI_INT, right(), 1, MPI_COMM_WORLD), MPI_ERR_COUNT);
    CLASS(MPI_Irecv_c(&rank, most, MPI_INT, left(), 1, MPI_COMM_WORLD, &request), MPI_ERR_COUNT);
    CLASS(MPI_Bcast_c(&rank, INT64_MAX, MPI_DOUBLE, 0, MPI_COMM_WORLD), MPI_ERR_COUNT);
    CLASS(MPI_Pack_size_c(most, MPI_INT, MPI_COMM_WORLD, &bytes), MPI_ERR_COUNT);
    EQUAL(bytes, 0);
    EQUAL(MPI_Pack_size_c(most - 1, MPI_INT, MPI_COMM_WORLD, &bytes), MPI_SUCCESS);
    EQUAL(bytes, INT64_MAX - 3);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    handlers();
    codes();
    truncated();
    freed();
    buffers();
    counts();
    return end();
}
