/* Persistent requests: made once, started again and again (MPI 5.0 §3.9). */
#include "../check.h"

enum { KINDS = 4, TURNS = 5 };

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int lengths[] = {0, 1, 1000, 50000};
    int room = 60000 * (int)sizeof(int) + 2 * MPI_BSEND_OVERHEAD;
    void *buffer = malloc((size_t)room);
    MPI_Buffer_attach(buffer, room);
    for (int which = 0; which < 4; which++) {
        int length = lengths[which];
        int *out = calloc((size_t)length + 1, sizeof *out);
        int *into = calloc((size_t)length + 1, sizeof *into);
        for (int kind = 0; kind < KINDS; kind++) {
            MPI_Request pair[2];
            MPI_Status both[2];
            MPI_Recv_init(into, length, MPI_INT, left(), 3, MPI_COMM_WORLD, &pair[0]);
            switch (kind) {
            case 0: MPI_Send_init(out, length, MPI_INT, right(), 3, MPI_COMM_WORLD, &pair[1]); break;
            case 1: MPI_Ssend_init(out, length, MPI_INT, right(), 3, MPI_COMM_WORLD, &pair[1]); break;
            case 2: MPI_Bsend_init(out, length, MPI_INT, right(), 3, MPI_COMM_WORLD, &pair[1]); break;
            case 3:
                MPI_Rsend_init_c(out, length, MPI_INT, right(), 3, MPI_COMM_WORLD, &pair[1]);
                break;
            }
            /* An inactive request is complete, with an empty status (MPI 5.0 §3.7.3). */
            MPI_Wait(&pair[1], &both[0]);
            EQUAL(both[0].MPI_SOURCE, MPI_ANY_SOURCE);
            EQUAL(both[0].MPI_TAG, MPI_ANY_TAG);
            CHECK(pair[1] != MPI_REQUEST_NULL);
            for (int turn = 0; turn < TURNS; turn++) {
                for (int at = 0; at < length; at++) out[at] = rank + turn * 100 + at;
                MPI_Start(&pair[0]);
                MPI_Barrier(MPI_COMM_WORLD);
                if (turn % 2)
                    MPI_Startall(1, &pair[1]);
                else
                    MPI_Start(&pair[1]);
                MPI_Waitall(2, pair, both);
                EQUAL(both[0].MPI_SOURCE, left());
                for (int at = 0; at < length; at++) EQUAL(into[at], left() + turn * 100 + at);
                CHECK(pair[0] != MPI_REQUEST_NULL && pair[1] != MPI_REQUEST_NULL);
            }
            MPI_Request_free(&pair[0]);
            MPI_Request_free(&pair[1]);
            CHECK(pair[0] == MPI_REQUEST_NULL && pair[1] == MPI_REQUEST_NULL);
        }
        free(out);
        free(into);
    }
    int had;
    MPI_Buffer_detach(&buffer, &had);
    free(buffer);
    return end();
}
