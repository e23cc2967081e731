/* Messages of types with gaps, longer than a packet: to types of other shapes, as bytes, of every
 * mode, cut off, probed, and without a copy of the message beside. */
#define _DEFAULT_SOURCE
#include <sys/resource.h>

#include "../check.h"

/* Data that a rank can tell from any other. */
static double value(long at) { return (double)(at * 7 + 1); }

/* So many doubles, every `stride`th. */
static MPI_Datatype spread(int count, int stride) {
    MPI_Datatype type;
    MPI_Type_vector(count, 1, stride, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    return type;
}

static double *filled(long count, long stride) {
    double *all = calloc((size_t)(count * stride), sizeof *all);
    for (long at = 0; at < count; at++) all[at * stride] = value(at);
    return all;
}

static void check_all(const double *all, long count, long stride, long there) {
    for (long at = 0; at < there; at++) EQUAL(all[at * stride], value(at));
    for (long at = there; at < count; at++) EQUAL(all[at * stride], 0);
    for (long at = 0; stride > 1 && at < count - 1; at++) EQUAL(all[at * stride + 1], 0);
}

/* Sends round the ring of ranks, and receives with another stride. */
static void around(int count, int out, int into, int mode) {
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    MPI_Datatype sent = spread(count, out), received = spread(count, into);
    double *from = filled(count, out), *to = calloc((size_t)count * into, sizeof *to);
    MPI_Request requests[2];
    MPI_Status status;
    MPI_Irecv(to, 1, received, left, 4, MPI_COMM_WORLD, &requests[0]);
    if (mode == 0) MPI_Isend(from, 1, sent, right, 4, MPI_COMM_WORLD, &requests[1]);
    if (mode == 1) MPI_Issend(from, 1, sent, right, 4, MPI_COMM_WORLD, &requests[1]);
    MPI_Wait(&requests[0], &status);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    int elements;
    MPI_Get_elements(&status, received, &elements);
    EQUAL(elements, count);
    check_all(to, count, into, count);
    free(from), free(to);
    MPI_Type_free(&sent), MPI_Type_free(&received);
}

/* A message that came before its receive; by probe too. */
static void early(int count, int by_probe) {
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    MPI_Datatype sent = spread(count, 3), received = spread(count, 2);
    double *from = filled(count, 3), *to = calloc((size_t)count * 2, sizeof *to);
    MPI_Request request;
    MPI_Isend(from, 1, sent, right, 5, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    if (by_probe) {
        MPI_Message message;
        MPI_Mprobe(left, 5, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
        MPI_Mrecv(to, 1, received, &message, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(to, 1, received, left, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    check_all(to, count, 2, count);
    free(from), free(to);
    MPI_Type_free(&sent), MPI_Type_free(&received);
}

/* A receive with less room than the message: an error, and what there is room for. */
static void cut_off(int count) {
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    const int room = count - count / 3;
    MPI_Datatype sent = spread(count, 2), received = spread(room, 2);
    double *from = filled(count, 2), *to = calloc((size_t)count * 2, sizeof *to);
    MPI_Request request;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Isend(from, 1, sent, right, 6, MPI_COMM_WORLD, &request);
    CLASS(MPI_Recv(to, 1, received, left, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
          MPI_ERR_TRUNCATE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    for (long at = room; at < count; at++) EQUAL(to[at * 2], 0);
    if (is_hikyaku()) check_all(to, count, 2, room);
    free(from), free(to);
    MPI_Type_free(&sent), MPI_Type_free(&received);
}

/* Resident memory at its most, KiB. */
static long peak(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* 256 MiB with gaps between two ranks, with a few MiB beside: the peak of a rank is that of its
 * own memory. */
static void without_a_copy(void) {
    const int count = 1 << 25;
    MPI_Datatype type = spread(count, 2);
    double *all = calloc((size_t)count * 2, sizeof *all);
    memset(all, 1, (size_t)count * 2 * sizeof *all);
    if (rank == 0) {
        for (long at = 0; at < count; at++) all[at * 2] = value(at);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const long before = peak();
    if (rank == 0) MPI_Send(all, 1, type, 1, 7, MPI_COMM_WORLD);
    if (rank == 1) MPI_Recv(all, 1, type, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    const long more = peak() - before;
    if (rank < 2) {
        for (long at = 0; at < count; at += 4097) EQUAL(all[at * 2], value(at));
        if (is_hikyaku() && more > 16 << 10) {
            fprintf(stderr, "rank %d: %ld KiB beside a message of 256 MiB\n", rank, more);
            MPI_Abort(MPI_COMM_WORLD, 9);
        }
    }
    free(all);
    MPI_Type_free(&type);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    const int counts[] = {1000, 1024, 1025, 3000, 8191, 8192, 8193, 100000};
    for (int at = 0; at < 8; at++) {
        for (int mode = 0; mode < 2; mode++) {
            around(counts[at], 2, 2, mode);
            around(counts[at], 3, 1, mode);
            around(counts[at], 1, 4, mode);
        }
        early(counts[at], 0);
        early(counts[at], 1);
        cut_off(counts[at]);
    }
    if (size == 2) without_a_copy();
    return end();
}
