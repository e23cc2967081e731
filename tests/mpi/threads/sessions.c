/* Threads of a program that has a session, and calls MPI_Init when they and it are over. */
#include "threads.h"

static MPI_Comm all;

static void add(void *left, void *into, int *length, MPI_Datatype *type) {
    int bytes;
    MPI_Type_size(*type, &bytes);
    for (int at = 0; at < *length; at++) ((int *)into)[at] += ((int *)left)[at];
}

static void ring(int number) {
    for (int turn = 0; turn < 50; turn++) {
        int out = turn + number, into = -1;
        MPI_Sendrecv(&out, 1, MPI_INT, right(), number, &into, 1, MPI_INT, left(), number, all,
                     MPI_STATUS_IGNORE);
        EQUAL(into, out);
    }
    if (number == 0) {
        MPI_Op op;
        int sum;
        MPI_Op_create(add, 1, &op);
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, op, all);
        EQUAL(sum, size * (size - 1) / 2);
        MPI_Op_free(&op);
    }
}

int main(void) {
    MPI_Session session, kept;
    MPI_Info info, known;
    MPI_Group group;
    char level[MPI_MAX_INFO_VAL];
    int flag, room = sizeof level;
    MPI_Info_create(&info);
    MPI_Info_set(info, "thread_level", "MPI_THREAD_MULTIPLE");
    kept = kept_open(info);
    EQUAL(MPI_Session_init(info, MPI_ERRORS_ARE_FATAL, &session), MPI_SUCCESS);
    MPI_Session_get_info(session, &known);
    MPI_Info_get_string(known, "thread_level", &room, level, &flag);
    CHECK(flag && strcmp(level, "MPI_THREAD_MULTIPLE") == 0);
    MPI_Info_free(&known);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "threads", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &all);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    each(THREADS, ring);
    MPI_Group_free(&group);
    MPI_Info_free(&info);
    MPI_Comm_free(&all);
    MPI_Session_finalize(&session);
    MPI_Init(NULL, NULL);
    int last = size - 1;
    MPI_Bcast(&last, 1, MPI_INT, last, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    EQUAL(last, size - 1);
    MPI_Finalize();
    close_kept(kept);
    return 0;
}
