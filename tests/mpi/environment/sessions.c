/* Sessions in any order and several times, with process sets, communicators and buffers of their
 * own, and requests that the program completes (MPI 5.0 §3.6, §7.4, §11.3, §13.2). */
#include "../check.h"

static MPI_Session begun(void) {
    MPI_Session session;
    EQUAL(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session), MPI_SUCCESS);
    return session;
}

/* A communicator of all ranks of a set. */
static MPI_Comm made(MPI_Session session, const char *set, const char *tag) {
    MPI_Group group;
    MPI_Comm comm;
    EQUAL(MPI_Group_from_session_pset(session, set, &group), MPI_SUCCESS);
    MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Group_free(&group);
    return comm;
}

static void ended(MPI_Session *session, MPI_Comm *comm) {
    MPI_Comm_free(comm);
    EQUAL(MPI_Session_finalize(session), MPI_SUCCESS);
    CHECK(*session == MPI_SESSION_NULL);
}

/* Two overlap, the third begins within the second, and ranks end two of them in other orders. */
static void crossed(void) {
    MPI_Session first = begun(), second = begun(), third;
    MPI_Comm one = made(first, "mpi://WORLD", "one"), two = made(second, "mpi://WORLD", "two");
    works(one);
    works(two);
    ended(&first, &one);
    works(two);
    third = begun();
    MPI_Comm three = made(third, "mpi://WORLD", "three"), own = made(third, "mpi://SELF", "own");
    works(three);
    works(own);
    MPI_Comm_free(&own);
    if (rank % 2) {
        ended(&second, &two);
        ended(&third, &three);
    } else {
        ended(&third, &three);
        ended(&second, &two);
    }
}

/* MPI_Init and MPI_Finalize within a session, which goes on. */
static void around(int *argc, char ***argv) {
    MPI_Session session = begun();
    MPI_Comm before = made(session, "mpi://WORLD", "before");
    begin(argc, argv);
    works(MPI_COMM_WORLD);
    works(before);
    MPI_Finalize();
    works(before);
    MPI_Comm after = made(session, "mpi://WORLD", "after");
    works(after);
    MPI_Comm_free(&after);
    ended(&session, &before);
}

static void sets(MPI_Session session) {
    int count, seen = 0, flag;
    MPI_Session_get_num_psets(session, MPI_INFO_NULL, &count);
    CHECK(count >= 2);
    for (int at = 0; at < count; at++) {
        char name[MPI_MAX_PSET_NAME_LEN + 1], value[16];
        int length = 0, room = sizeof value;
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, at, &length, NULL);
        CHECK(length > 0 && length <= (int)sizeof name);
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, at, &length, name);
        EQUAL(strlen(name) + 1, length);
        int is_world = strcmp(name, "mpi://WORLD") == 0, is_self = strcmp(name, "mpi://SELF") == 0;
        seen |= is_world | is_self << 1;
        MPI_Info info;
        MPI_Session_get_pset_info(session, name, &info);
        MPI_Info_get_string(info, "mpi_size", &room, value, &flag);
        CHECK(flag);
        if (is_world || is_self) EQUAL(atoi(value), is_world ? size : 1);
        MPI_Info_free(&info);
    }
    EQUAL(seen, 3);
    MPI_Group none;
    CHECK(MPI_Group_from_session_pset(session, "mpi://NOWHERE", &none) != MPI_SUCCESS);
}

/* A buffered message in the buffer of a session or, if `is_of_comm`, of a communicator. */
static void buffered(MPI_Session session, MPI_Comm comm, int is_of_comm, int is_automatic) {
    static char memory[4096];
    int out = 100 + rank, got = -1;
    void *buffer = is_automatic ? MPI_BUFFER_AUTOMATIC : memory, *back;
    /* The size of an automatic buffer is irrelevant. */
    int room = is_automatic ? -is_hikyaku() : (int)sizeof memory, had;
    MPI_Request request;
    if (is_of_comm) MPI_Comm_attach_buffer(comm, buffer, room);
    else EQUAL(MPI_Session_attach_buffer(session, buffer, room), MPI_SUCCESS);
    for (int turn = 0; turn < 3; turn++) {
        MPI_Bsend(&out, 1, MPI_INT, right(), turn, comm);
        out++;
        MPI_Recv(&got, 1, MPI_INT, left(), turn, comm, MPI_STATUS_IGNORE);
        EQUAL(got, 100 + left() + turn);
        if (is_of_comm && turn == 0) MPI_Comm_flush_buffer(comm);
        if (is_of_comm && turn == 1) MPI_Comm_iflush_buffer(comm, &request);
        if (!is_of_comm && turn == 0) MPI_Session_flush_buffer(session);
        if (!is_of_comm && turn == 1) MPI_Session_iflush_buffer(session, &request);
        if (turn == 1) MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    if (is_of_comm) MPI_Comm_detach_buffer(comm, &back, &had);
    else MPI_Session_detach_buffer(session, &back, &had);
    CHECK(back == buffer);
    if (!is_automatic) EQUAL(had, room);
}

static void duplicates(MPI_Comm comm) {
    MPI_Info info, known;
    MPI_Comm twin;
    MPI_Request request;
    int result;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
    MPI_Comm_idup_with_info(comm, info, &twin, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    works(twin);
    MPI_Comm_compare(comm, twin, &result);
    EQUAL(result, MPI_CONGRUENT);
    MPI_Comm_get_info(twin, &known);
    MPI_Info_free(&known);
    MPI_Info_free(&info);
    MPI_Comm_free(&twin);
}

/* The lower and the upper half of the ranks. */
static void between(MPI_Session session) {
    if (size < 2) return;
    const int half = size / 2, is_upper = rank >= half;
    int parts[2][3] = {{0, half - 1, 1}, {half, size - 1, 1}}, many, sum;
    MPI_Group all, groups[2];
    MPI_Comm comm;
    MPI_Group_from_session_pset(session, "mpi://WORLD", &all);
    for (int at = 0; at < 2; at++) MPI_Group_range_incl(all, 1, &parts[at], &groups[at]);
    MPI_Intercomm_create_from_groups(groups[is_upper], 0, groups[!is_upper], 0, "halves",
                                     MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Comm_remote_size(comm, &many);
    EQUAL(many, is_upper ? half : size - half);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    EQUAL(sum, is_upper ? half * (half - 1) / 2 : (size - half) * (size + half - 1) / 2);
    MPI_Comm_free(&comm);
    for (int at = 0; at < 2; at++) MPI_Group_free(&groups[at]);
    MPI_Group_free(&all);
}

/* What a request of the program's is asked for, and how often. */
struct own {
    int queried, freed, cancelled;
};

static int query(void *at, MPI_Status *status) {
    struct own *own = at;
    own->queried++;
    MPI_Status_set_elements(status, MPI_INT, 3);
    MPI_Status_set_cancelled(status, own->cancelled);
    status->MPI_SOURCE = 7;
    status->MPI_TAG = 8;
    return MPI_SUCCESS;
}

static int let_go(void *at) {
    ((struct own *)at)->freed++;
    return MPI_SUCCESS;
}

static int cancel(void *at, int is_complete) {
    ((struct own *)at)->cancelled += 1 + is_complete;
    return MPI_SUCCESS;
}

/* One is waited for beside a message, and one is cancelled before it is completed. */
static void requests(MPI_Comm comm) {
    struct own own[2] = {{0, 0, 0}, {0, 0, 0}};
    MPI_Request all[4], kept[2];
    MPI_Status statuses[4];
    int flag, got, count;
    for (int at = 0; at < 2; at++) MPI_Grequest_start(query, let_go, cancel, &own[at], &all[at]);
    memcpy(kept, all, sizeof kept);
    MPI_Irecv(&got, 1, MPI_INT, left(), 5, comm, &all[2]);
    MPI_Isend(&rank, 1, MPI_INT, right(), 5, comm, &all[3]);
    MPI_Testall(4, all, &flag, statuses);
    EQUAL(flag, 0);
    MPI_Cancel(&all[1]);
    for (int at = 0; at < 2; at++) MPI_Grequest_complete(kept[at]);
    MPI_Waitall(4, all, statuses);
    EQUAL(got, left());
    for (int at = 0; at < 2; at++) {
        CHECK(all[at] == MPI_REQUEST_NULL);
        MPI_Get_count(&statuses[at], MPI_INT, &count);
        EQUAL(count, 3);
        CHECK(statuses[at].MPI_SOURCE == 7 && statuses[at].MPI_TAG == 8);
        MPI_Test_cancelled(&statuses[at], &flag);
        CHECK(flag == at && own[at].cancelled == at);
        CHECK(own[at].queried == 1 && own[at].freed == 1);
    }
}

/* What makes an object without another one has the handler that the object would have. MPICH 5.0.2, as
 * PyPI has it, does not look at the info object. */
static int comm_errors, session_errors;

static void of_comm(MPI_Comm *comm, int *code, ...) {
    CHECK(*comm == MPI_COMM_NULL && *code != MPI_SUCCESS);
    comm_errors++;
}

static void of_session(MPI_Session *session, int *code, ...) {
    CHECK(*session == MPI_SESSION_NULL && *code != MPI_SUCCESS);
    session_errors++;
}

static void unmade(MPI_Session session) {
    MPI_Errhandler handlers[2];
    MPI_Session other;
    MPI_Group group;
    MPI_Comm comm;
    MPI_Info info, freed;
    if (!is_hikyaku()) return;
    MPI_Comm_create_errhandler(of_comm, &handlers[0]);
    MPI_Session_create_errhandler(of_session, &handlers[1]);
    MPI_Info_create(&info);
    freed = info;
    MPI_Info_free(&info);
    MPI_Group_from_session_pset(session, "mpi://SELF", &group);
    CLASS(MPI_Comm_create_from_group(group, "x", freed, handlers[0], &comm), MPI_ERR_INFO);
    EQUAL(comm_errors, 1);
    CHECK(comm == MPI_COMM_NULL);
    CLASS(MPI_Comm_create_from_group(group, "x", freed, MPI_ERRORS_RETURN, &comm), MPI_ERR_INFO);
    CLASS(MPI_Intercomm_create_from_groups(group, 0, group, 0, "x", freed, handlers[0], &comm),
          MPI_ERR_INFO);
    EQUAL(comm_errors, 2);
    CLASS(MPI_Session_init(freed, handlers[1], &other), MPI_ERR_INFO);
    EQUAL(session_errors, 1);
    MPI_Group_free(&group);
    for (int at = 0; at < 2; at++) MPI_Errhandler_free(&handlers[at]);
}

int main(int argc, char **argv) {
    MPI_Session kept = kept_open(MPI_INFO_NULL), session = begun();
    MPI_Comm comm = made(session, "mpi://WORLD", "all");
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    sets(session);
    unmade(session);
    for (int way = 0; way < 4; way++) buffered(session, comm, way % 2, way / 2);
    duplicates(comm);
    between(session);
    requests(comm);
    ended(&session, &comm);
    for (int turn = 0; turn < 3; turn++) crossed();
    around(&argc, &argv);
    crossed();
    close_kept(kept);
    return 0;
}
