/* A message that is longer than the room for it is an error of one receive, whose status says whose
 * message it was (MPI 5.0 §3.2.5, §3.7). */
#include "../check.h"

enum { MOST = 200000 };
static int out[MOST], into[MOST];
static MPI_Status status;
static MPI_Comm comm;
static MPI_Datatype gaps;

/* What a status is before a call. */
static void forget(void) {
    memset(&status, 0, sizeof status);
    status.MPI_SOURCE = status.MPI_TAG = -77;
}

static void is_truncated(int code, int tag, int room) {
    int count = -1;
    CLASS(code, MPI_ERR_TRUNCATE);
    EQUAL(status.MPI_SOURCE, left());
    EQUAL(status.MPI_TAG, tag);
    MPI_Get_count(&status, MPI_INT, &count);
    EQUAL(count, room);
    forget();
}

/* Each way to receive one message, from somebody who is named or not. */
static void receive(int way, MPI_Datatype type, int room, int count, int source) {
    int flag = 0, index = -1, code = MPI_SUCCESS, tag = source < 0 ? MPI_ANY_TAG : 10 + way;
    MPI_Request sent, request = MPI_REQUEST_NULL;
    MPI_Message message;
    if (way >= 4) MPI_Irecv(into, room, type, source, tag, comm, &request);
    if (way != 1) MPI_Isend(out, count, MPI_INT, right(), 10 + way, comm, &sent);
    switch (way) {
    case 0:
        code = MPI_Recv(into, room, type, source, tag, comm, &status);
        break;
    case 1:
        code = MPI_Sendrecv(out, count, MPI_INT, right(), 10 + way, into, room, type, source, tag,
                            comm, &status);
        break;
    case 2:
        MPI_Mprobe(source, tag, comm, &message, MPI_STATUS_IGNORE);
        code = MPI_Mrecv(into, room, type, &message, &status);
        break;
    case 3:
        MPI_Mprobe(source, tag, comm, &message, MPI_STATUS_IGNORE);
        MPI_Imrecv(into, room, type, &message, &request);
        code = MPI_Wait(&request, &status);
        break;
    case 4:
        code = MPI_Wait(&request, &status);
        break;
    case 5:
        while (code == MPI_SUCCESS && !flag) code = MPI_Test(&request, &flag, &status);
        break;
    case 6:
        code = MPI_Waitany(1, &request, &index, &status);
        EQUAL(index, 0);
        break;
    case 7:
        while (code == MPI_SUCCESS && !flag) code = MPI_Testany(1, &request, &index, &flag, &status);
        EQUAL(index, 0);
        break;
    }
    is_truncated(code, 10 + way, room);
    CHECK(request == MPI_REQUEST_NULL);
    if (way != 1) MPI_Wait(&sent, MPI_STATUS_IGNORE);
    MPI_Barrier(comm);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    /* MPICH 5.0.2 at times says nothing of a message that is too long. */
    if (!is_hikyaku()) return end();
    /* Ranks whose numbers are not those of MPI_COMM_WORLD. */
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &gaps);
    MPI_Type_commit(&gaps);
    forget();
    for (int way = 0; way < 8; way++)
        for (int any = 0; any < 2; any++) {
            int source = any ? MPI_ANY_SOURCE : left();
            receive(way, MPI_INT, 3, 8, source);
            receive(way, MPI_INT, MOST / 2, MOST, source);
            receive(way, gaps, 3, 8, source);
            receive(way, gaps, MOST / 4, MOST, source);
        }
    MPI_Type_free(&gaps);
    MPI_Comm_free(&comm);
    return end();
}
