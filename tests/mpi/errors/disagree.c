/* Ranks that disagree about a collective, and functions of the program that fail or call MPI. */
#include "../check.h"

/* A communicator of its own, as what has failed in one may go on there. */
static MPI_Comm fresh(void) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    return comm;
}

/* The last rank's part is longer than that of the others, its operation is another one, or its root,
 * or it alone is in place: a rank that can know of it is told, and none waits for ever. */
static void disagreements(void) {
    int out[64] = {0}, into[64 * 64], is_last = rank == size - 1, count = is_last ? 2 : 1;
    for (int which = 0; which < 7; which++) {
        MPI_Comm comm = fresh();
        int code = MPI_SUCCESS;
        switch (which) {
        case 0: code = MPI_Bcast(out, count, MPI_INT, 0, comm); break;
        case 1: code = MPI_Allreduce(out, into, count, MPI_INT, MPI_SUM, comm); break;
        case 2: code = MPI_Allreduce(out, into, 1, MPI_INT, is_last ? MPI_MAX : MPI_SUM, comm); break;
        case 3: code = MPI_Gather(out, count, MPI_INT, into, 1, MPI_INT, 0, comm); break;
        case 4: code = MPI_Reduce(out, into, 1, MPI_INT, MPI_SUM, is_last ? size - 1 : 0, comm); break;
        case 5: code = MPI_Alltoall(is_last ? MPI_IN_PLACE : out, 1, MPI_INT, into, 1, MPI_INT, comm); break;
        case 6: code = MPI_Alltoall(is_last ? out : MPI_IN_PLACE, 1, MPI_INT, into, 1, MPI_INT, comm); break;
        }
        int mine = code != MPI_SUCCESS, all;
        if (mine) EQUAL(class_of(code), MPI_ERR_NOT_SAME);
        MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK(all >= 1);
        MPI_Comm_free(&comm);
    }
}

/* An operation that asks MPI for the size of its elements. */
static void add(void *in, void *into, int *count, MPI_Datatype *type) {
    int bytes, own;
    MPI_Type_size(*type, &bytes);
    MPI_Comm_rank(MPI_COMM_WORLD, &own);
    EQUAL(bytes, sizeof(int));
    EQUAL(own, rank);
    for (int i = 0; i < *count; i++) ((int *)into)[i] += ((int *)in)[i];
}

static int seen;

/* An error handler that sends a message to itself. */
static void handle(MPI_Comm *comm, int *code, ...) {
    int out = 7, into = 0;
    EQUAL(class_of(*code), MPI_ERR_TRUNCATE);
    MPI_Sendrecv(&out, 1, MPI_INT, rank, 1, &into, 1, MPI_INT, rank, 1, *comm, MPI_STATUS_IGNORE);
    EQUAL(into, 7);
    seen++;
}

/* Attributes that cannot be copied, and cannot be deleted at first. */
static int copy(MPI_Comm comm, int key, void *extra, void *value, void *into, int *flag) {
    (void)comm, (void)key, (void)extra, (void)value, (void)into, *flag = 0;
    return MPI_ERR_OTHER;
}

static int delete(MPI_Comm comm, int key, void *value, void *extra) {
    (void)key, (void)value, (void)extra;
    int own;
    MPI_Comm_rank(comm, &own);
    return seen ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static void callbacks(void) {
    MPI_Op op;
    int sum, key, out[2] = {1, 2}, into;
    MPI_Op_create(add, 1, &op);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, op, MPI_COMM_WORLD);
    EQUAL(sum, size * (size - 1) / 2);
    MPI_Op_free(&op);

    MPI_Comm comm = fresh(), twin;
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(handle, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    MPI_Errhandler_free(&handler);
    MPI_Request request;
    MPI_Isend(out, 2, MPI_INT, rank, 0, comm, &request);
    MPI_Recv(&into, 1, MPI_INT, rank, 0, comm, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    EQUAL(seen, 1);

    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_create_keyval(copy, delete, &key, NULL);
    MPI_Comm_set_attr(comm, key, NULL);
    CHECK(MPI_Comm_dup(comm, &twin) != MPI_SUCCESS);
    CHECK(MPI_Comm_delete_attr(comm, key) != MPI_SUCCESS);
    /* The handler of a call whose communicator may be gone is that of this one (MPI 5.0 §9.3). */
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK(MPI_Comm_free(&comm) != MPI_SUCCESS);
    seen = 0;
    if (is_hikyaku()) EQUAL(MPI_Comm_free(&comm), MPI_SUCCESS);
    MPI_Comm_free_keyval(&key);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    if (is_hikyaku() && size > 1) disagreements();
    callbacks();
    return end();
}
