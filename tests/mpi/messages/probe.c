/* Probe, matched probe and what becomes of the message (MPI 5.0 §3.8). */
#include "../check.h"

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int lengths[] = {0, 3, 5000, 40000}, count, flag;
    for (int which = 0; which < 4; which++) {
        int length = lengths[which];
        int *out = calloc((size_t)length + 1, sizeof *out), *into = calloc((size_t)length + 1, sizeof *into);
        for (int at = 0; at < length; at++) out[at] = rank * 3 + at;
        for (int way = 0; way < 5; way++) {
            MPI_Request send, receive;
            MPI_Message message = MPI_MESSAGE_NULL;
            MPI_Status status;
            MPI_Isend(out, length, MPI_INT, right(), 10 + 5 * which + way, MPI_COMM_WORLD, &send);
            switch (way) {
            case 0: MPI_Probe(MPI_ANY_SOURCE, 10 + 5 * which + way, MPI_COMM_WORLD, &status); break;
            case 1:
                do MPI_Iprobe(left(), MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
                while (!flag);
                break;
            case 2: MPI_Mprobe(left(), 10 + 5 * which + way, MPI_COMM_WORLD, &message, &status); break;
            default:
                do MPI_Improbe(left(), 10 + 5 * which + way, MPI_COMM_WORLD, &flag, &message, &status);
                while (!flag);
            }
            EQUAL(status.MPI_SOURCE, left());
            EQUAL(status.MPI_TAG, 10 + 5 * which + way);
            MPI_Get_count(&status, MPI_INT, &count);
            EQUAL(count, length);
            memset(into, 0, sizeof *into * (size_t)length);
            if (way < 2) {
                MPI_Recv(into, count, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &status);
            } else {
                /* What was matched is no message for others any more. */
                MPI_Iprobe(left(), 10 + 5 * which + way, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
                EQUAL(flag, 0);
                if (way == 3) {
                    MPI_Imrecv(into, count, MPI_INT, &message, &receive);
                    CHECK(message == MPI_MESSAGE_NULL);
                    MPI_Wait(&receive, &status);
                } else {
                    MPI_Mrecv(into, count, MPI_INT, &message, &status);
                    CHECK(message == MPI_MESSAGE_NULL);
                }
            }
            EQUAL(status.MPI_SOURCE, left());
            for (int at = 0; at < length; at++) EQUAL(into[at], left() * 3 + at);
            MPI_Wait(&send, MPI_STATUS_IGNORE);
        }
        free(out);
        free(into);
    }
    MPI_Message message;
    MPI_Status status;
    MPI_Mprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &message, &status);
    CHECK(message == MPI_MESSAGE_NO_PROC);
    EQUAL(status.MPI_SOURCE, MPI_PROC_NULL);
    MPI_Mrecv(NULL, 0, MPI_INT, &message, &status);
    CHECK(message == MPI_MESSAGE_NULL);
    EQUAL(status.MPI_SOURCE, MPI_PROC_NULL);
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
    EQUAL(flag, 0);
    return end();
}
