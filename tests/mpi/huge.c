/* A message of a derived type of more than 2 GiB: its size and its number of elements fit no int
 * (MPI 5.0 §3.2.5, §5.1). Blocks overlap where they are sent from, which takes little memory, and
 * have gaps where they are received. */
#include "check.h"

enum { LENGTH = 1 << 16, GAP = 40, STEP = 8 };
#define BLOCKS ((int64_t)(1 << 15) + 3)

static unsigned char byte_of(int64_t at) { return (unsigned char)(at * 7 + (at >> 8)); }

static MPI_Datatype blocks(MPI_Count stride) {
    MPI_Datatype type;
    MPI_Type_create_hvector_c(BLOCKS, LENGTH, stride, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    MPI_Count bytes;
    MPI_Type_size_c(type, &bytes);
    EQUAL(bytes, BLOCKS * LENGTH);
    return type;
}

static void send(void) {
    const int64_t length = (BLOCKS - 1) * STEP + LENGTH;
    unsigned char *from = malloc((size_t)length);
    for (int64_t at = 0; at < length; at++) from[at] = byte_of(at);
    MPI_Datatype type = blocks(STEP);
    MPI_Send_c(from, 1, type, 1, 5, MPI_COMM_WORLD);
    MPI_Type_free(&type);
    free(from);
}

static void receive(void) {
    const int64_t stride = LENGTH + GAP;
    unsigned char *into = calloc((size_t)(BLOCKS * stride), 1);
    CHECK(into != NULL);
    MPI_Datatype type = blocks(stride);
    MPI_Status status;
    MPI_Count count;
    int small;
    MPI_Recv_c(into, 1, type, 0, 5, MPI_COMM_WORLD, &status);
    MPI_Get_count_c(&status, type, &count);
    EQUAL(count, 1);
    MPI_Get_elements_c(&status, type, &count);
    EQUAL(count, BLOCKS * LENGTH);
    MPI_Get_count(&status, MPI_BYTE, &small);
    EQUAL(small, MPI_UNDEFINED);
    for (int64_t block = 0; block < BLOCKS; block++) {
        const unsigned char *got = into + block * stride;
        for (int at = 0; at < LENGTH; at++) EQUAL(got[at], byte_of(block * STEP + at));
        for (int at = LENGTH; at < LENGTH + GAP; at++) EQUAL(got[at], 0);
    }
    MPI_Type_free(&type);
    free(into);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    if (rank == 0) send();
    if (rank == 1) receive();
    return end();
}
