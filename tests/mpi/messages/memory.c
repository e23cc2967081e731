/* A request that is complete when it is made takes no memory, so that programs that send short
 * messages by MPI_Isend do not pay for the heap with each. */
#include "../check.h"

/* What this process asks of the heap, while it is counted. */
static long calls;
static int is_counted;

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);

void *malloc(size_t bytes) {
    calls += is_counted;
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
    calls += is_counted;
    return __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes) {
    calls += is_counted;
    return __libc_realloc(memory, bytes);
}

/* How many calls a thousand operations take that are over at once: messages to oneself, and to and
 * from nobody. */
static long count(int length) {
    static char out[256], into[256];
    MPI_Request requests[4];
    MPI_Status statuses[4];
    int bytes;
    calls = 0;
    is_counted = 1;
    for (int turn = 0; turn < 1000; turn++) {
        MPI_Isend(out, length, MPI_BYTE, rank, turn, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(into, length, MPI_BYTE, rank, turn, MPI_COMM_WORLD, &requests[1]);
        MPI_Irecv(into, length, MPI_BYTE, MPI_PROC_NULL, turn, MPI_COMM_WORLD, &requests[2]);
        MPI_Isend(out, length, MPI_BYTE, MPI_PROC_NULL, turn, MPI_COMM_WORLD, &requests[3]);
        MPI_Waitall(4, requests, statuses);
        MPI_Get_count(&statuses[1], MPI_BYTE, &bytes);
        EQUAL(bytes, length);
        EQUAL(statuses[1].MPI_TAG, turn);
        EQUAL(statuses[2].MPI_SOURCE, MPI_PROC_NULL);
    }
    is_counted = 0;
    return calls;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    for (int length = 0; length <= 256; length += 64) {
        /* Tables grow to their size before. */
        count(length);
        long taken = count(length);
        if (is_hikyaku()) EQUAL(taken, 0);
    }
    return end();
}
