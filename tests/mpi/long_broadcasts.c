/* Long broadcasts from changing roots: so many that the ranks have tried each way of theirs. */
#include "check.h"

#define BYTES (256 << 10)

int main(int argc, char **argv) {
    static unsigned char data[BYTES];
    begin(&argc, &argv);
    for (int turn = 0; turn < 100; turn++) {
        int root = turn % size, value = turn + 1;
        memset(data, rank == root ? value : 0, BYTES);
        MPI_Bcast(data, BYTES, MPI_BYTE, root, MPI_COMM_WORLD);
        for (int at = 0; at < BYTES; at += 1021) EQUAL(data[at], value);
        EQUAL(data[BYTES - 1], value);
    }
    return end();
}
