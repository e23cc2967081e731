/* What a program is made of that calls every function wrongly: `hikyaku_mpi_table::wrong_calls` writes
 * the trials behind this file. `PROGRAM trials FROM` runs those from a number on, as one of 2 ranks;
 * `PROGRAM right FROM` only those that succeed, which every library must pass. `PROGRAM before` and
 * `PROGRAM after` make the right call of each when MPI is not running, and `PROGRAM fatal` each wrong
 * call with MPI_ERRORS_ARE_FATAL, in a process each. What is not as it should be is a line; `next N` is where to go on after a crash. */

#define _GNU_SOURCE
#include <ctype.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"

/* A call, the argument that is wrong and how, the class that it ends with, and whether MPI must be
 * running for it. */
struct trial {
    const char *function, *what;
    int class, (*call)(void), is_early;
};
extern const struct trial trials[];
#define NOT_RUN (-1)

/* Seconds after which a call hangs. */
#define PATIENCE 20

static int is_running, trial;
static char in[4096], out[4096], room[65536], text[MPI_MAX_LIBRARY_VERSION_STRING];
static char fortran[16] = {1, 1, 1, 1};
static char *strings[] = {"a", "b", NULL};
static void *pointer;
static MPI_Status status, statuses[64];
static MPI_Datatype types[] = {MPI_INT, MPI_INT};

/* Objects that are there throughout. */
static MPI_Session session = MPI_SESSION_NULL;
static MPI_Group group = MPI_GROUP_NULL, other_group = MPI_GROUP_NULL;
static MPI_Comm cart = MPI_COMM_NULL, graph = MPI_COMM_NULL, dist_graph = MPI_COMM_NULL;
static MPI_Comm inter = MPI_COMM_NULL;
static MPI_Info info = MPI_INFO_NULL;
static MPI_Errhandler handler = MPI_ERRORS_RETURN;
static MPI_Datatype derived = MPI_DATATYPE_NULL, uncommitted = MPI_DATATYPE_NULL;
static struct { int comm, type, win; } key_of;
static struct { int class, code; } added;

/* One object of each kind, for one call; and handles of objects that are gone. */
struct objects {
    MPI_Comm comm;
    MPI_Group group;
    MPI_Datatype type;
    MPI_Op op;
    MPI_Request request, list[2];
    MPI_Message message;
    MPI_Info info;
    MPI_Errhandler errhandler;
    MPI_Session session;
    MPI_Win win;
    MPI_File file;
    int key_of_comm, key_of_type, key_of_win, class, code;
};
static struct objects made, freed;
static const struct objects nothing = {
    MPI_COMM_NULL, MPI_GROUP_NULL, MPI_DATATYPE_NULL, MPI_OP_NULL, MPI_REQUEST_NULL,
    {MPI_REQUEST_NULL, MPI_REQUEST_NULL}, MPI_MESSAGE_NULL, MPI_INFO_NULL, MPI_ERRHANDLER_NULL,
    MPI_SESSION_NULL, MPI_WIN_NULL, MPI_FILE_NULL, MPI_KEYVAL_INVALID, MPI_KEYVAL_INVALID,
    MPI_KEYVAL_INVALID, 0, 0};

/* Functions that a program passes. */
static inline void a_MPI_User_function(void *in, void *out, int *count, MPI_Datatype *type) {
    (void)in, (void)out, (void)count, (void)type;
}
static inline void a_MPI_User_function_c(void *in, void *out, MPI_Count *count, MPI_Datatype *type) {
    (void)in, (void)out, (void)count, (void)type;
}
static inline int a_MPI_Grequest_query_function(void *extra, MPI_Status *status) {
    (void)extra;
    MPI_Status_set_elements(status, MPI_INT, 0);
    MPI_Status_set_cancelled(status, 0);
    return MPI_SUCCESS;
}
static inline int a_MPI_Grequest_free_function(void *extra) { return (void)extra, MPI_SUCCESS; }
static inline int a_MPI_Grequest_cancel_function(void *extra, int complete) {
    return (void)extra, (void)complete, MPI_SUCCESS;
}
#define HANDLER(name, object) \
    static inline void a_##name(object *handle, int *code, ...) { (void)handle, (void)code; }
HANDLER(MPI_Comm_errhandler_function, MPI_Comm)
HANDLER(MPI_Win_errhandler_function, MPI_Win)
HANDLER(MPI_File_errhandler_function, MPI_File)
HANDLER(MPI_Session_errhandler_function, MPI_Session)
#define ATTRIBUTE(name, object, deletes)                                                           \
    static inline int a_MPI_##name(object old, int key, void *extra, void *in, void *out,          \
                                   int *flag) {                                                    \
        (void)old, (void)key, (void)extra, (void)in, (void)out, *flag = 0;                         \
        return MPI_SUCCESS;                                                                        \
    }                                                                                              \
    static inline int a_MPI_##deletes(object old, int key, void *value, void *extra) {             \
        return (void)old, (void)key, (void)value, (void)extra, MPI_SUCCESS;                        \
    }
ATTRIBUTE(Comm_copy_attr_function, MPI_Comm, Comm_delete_attr_function)
ATTRIBUTE(Copy_function, MPI_Comm, Delete_function)
ATTRIBUTE(Type_copy_attr_function, MPI_Datatype, Type_delete_attr_function)
ATTRIBUTE(Win_copy_attr_function, MPI_Win, Win_delete_attr_function)

/* An object of its kind, which is gone after the call. When MPI is not running, a handle. */
#define MADE(type, name, instead, make)        \
    static inline type *made_##name(void) {    \
        if (is_running)                        \
            make;                              \
        else                                   \
            made.name = instead;               \
        return &made.name;                     \
    }
MADE(MPI_Comm, comm, MPI_COMM_SELF, MPI_Comm_dup(MPI_COMM_SELF, &made.comm))
MADE(MPI_Group, group, MPI_GROUP_EMPTY, MPI_Comm_group(MPI_COMM_SELF, &made.group))
MADE(MPI_Datatype, type, MPI_INT, MPI_Type_contiguous(2, MPI_INT, &made.type))
MADE(MPI_Op, op, MPI_SUM, MPI_Op_create(a_MPI_User_function, 1, &made.op))
MADE(MPI_Request, request, MPI_REQUEST_NULL,
     MPI_Recv_init(room, 1, MPI_INT, MPI_PROC_NULL, 7, MPI_COMM_SELF, &made.request))
MADE(MPI_Message, message, MPI_MESSAGE_NO_PROC, made.message = MPI_MESSAGE_NO_PROC)
MADE(MPI_Info, info, MPI_INFO_NULL, MPI_Info_create(&made.info))
MADE(MPI_Errhandler, errhandler, MPI_ERRORS_RETURN,
     MPI_Comm_create_errhandler(a_MPI_Comm_errhandler_function, &made.errhandler))
MADE(MPI_Session, session, MPI_SESSION_NULL,
     MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &made.session))
#define MADE_KEY(object, type)                                                                     \
    MADE(int, key_of_##object, MPI_KEYVAL_INVALID,                                                 \
         MPI_##type##_create_keyval(a_MPI_##type##_copy_attr_function,                             \
                                    a_MPI_##type##_delete_attr_function, &made.key_of_##object, NULL))
MADE_KEY(comm, Comm)
MADE_KEY(type, Type)
MADE_KEY(win, Win)
MADE(int, class, MPI_ERR_OTHER, MPI_Add_error_class(&made.class))
MADE(int, code, MPI_ERR_OTHER, MPI_Add_error_code(MPI_ERR_OTHER, &made.code))

static inline MPI_Request *made_generalised(void) {
    if (is_running)
        MPI_Grequest_start(a_MPI_Grequest_query_function, a_MPI_Grequest_free_function,
                           a_MPI_Grequest_cancel_function, NULL, &made.request);
    return &made.request;
}

static inline MPI_Request *made_active(void) {
    if (is_running) MPI_Irecv(room, 1, MPI_INT, 0, 9, MPI_COMM_SELF, &made.request);
    return &made.request;
}

/* A list of one request, and of none after it. */
static inline MPI_Request *made_list(void) {
    made.list[0] = *made_request();
    made.request = MPI_REQUEST_NULL;
    return made.list;
}

static void end_request(MPI_Request *request) {
    if (*request == MPI_REQUEST_NULL) return;
    MPI_Wait(request, MPI_STATUS_IGNORE);
    if (*request != MPI_REQUEST_NULL) MPI_Request_free(request);
}

/* Frees what the last call has made or was given. */
static void clean(void) {
    end_request(&made.request);
    end_request(&made.list[0]);
    if (made.comm != MPI_COMM_NULL && made.comm != MPI_COMM_SELF) MPI_Comm_free(&made.comm);
    if (made.group != MPI_GROUP_NULL && made.group != MPI_GROUP_EMPTY) MPI_Group_free(&made.group);
    if (made.type != MPI_DATATYPE_NULL) {
        int integers, addresses, datatypes, combiner;
        MPI_Type_get_envelope(made.type, &integers, &addresses, &datatypes, &combiner);
        if (combiner != MPI_COMBINER_NAMED && combiner != MPI_COMBINER_F90_REAL &&
            combiner != MPI_COMBINER_F90_COMPLEX && combiner != MPI_COMBINER_F90_INTEGER)
            MPI_Type_free(&made.type);
    }
    if (made.op != MPI_OP_NULL) MPI_Op_free(&made.op);
    if (made.info != MPI_INFO_NULL) MPI_Info_free(&made.info);
    if (made.errhandler != MPI_ERRHANDLER_NULL) MPI_Errhandler_free(&made.errhandler);
    if (made.session != MPI_SESSION_NULL) MPI_Session_finalize(&made.session);
    if (made.key_of_comm != MPI_KEYVAL_INVALID) MPI_Comm_free_keyval(&made.key_of_comm);
    if (made.key_of_type != MPI_KEYVAL_INVALID) MPI_Type_free_keyval(&made.key_of_type);
    if (made.key_of_win != MPI_KEYVAL_INVALID) MPI_Win_free_keyval(&made.key_of_win);
    if (made.class) MPI_Remove_error_class(made.class);
    if (made.code) MPI_Remove_error_code(made.code);
    made = nothing;
    memset(&status, 0, sizeof status);
}

/* Makes one of each, keeps the handles, and frees the objects. */
static void make_freed(void) {
    made_comm(), made_group(), made_type(), made_op(), made_request(), made_info();
    made_errhandler(), made_session(), made_key_of_comm(), made_key_of_type(), made_key_of_win();
    MPI_Request send;
    MPI_Isend(in, 1, MPI_INT, 0, 7, MPI_COMM_SELF, &send);
    MPI_Mprobe(0, 7, MPI_COMM_SELF, &made.message, MPI_STATUS_IGNORE);
    freed = made;
    MPI_Mrecv(out, 1, MPI_INT, &made.message, MPI_STATUS_IGNORE);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    clean();
}

static void make(void) {
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Comm_group(MPI_COMM_SELF, &group);
    MPI_Group world;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    if (size == 2) MPI_Group_incl(world, 1, (int[]){1 - rank}, &other_group);
    MPI_Group_free(&world);
    MPI_Info_create(&info);
    MPI_Info_set(info, "a", "b");
    MPI_Type_create_hindexed(2, (int[]){1, 1}, (MPI_Aint[]){0, 8}, MPI_INT, &derived);
    MPI_Type_commit(&derived);
    MPI_Type_contiguous(2, MPI_INT, &uncommitted);
    MPI_Cart_create(MPI_COMM_SELF, 1, (int[]){1}, (int[]){1}, 0, &cart);
    MPI_Graph_create(MPI_COMM_SELF, 1, (int[]){1}, (int[]){0}, 0, &graph);
    MPI_Dist_graph_create_adjacent(MPI_COMM_SELF, 1, (int[]){0}, MPI_UNWEIGHTED, 1, (int[]){0},
                                   MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &dist_graph);
    if (size == 2) MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, 1 - rank, 7, &inter);
    if (size == 2) MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    made_key_of_comm(), made_key_of_type(), made_key_of_win();
    key_of.comm = made.key_of_comm, key_of.type = made.key_of_type, key_of.win = made.key_of_win;
    made = nothing;
    MPI_Add_error_class(&added.class);
    MPI_Add_error_code(added.class, &added.code);
    make_freed();
}

static void unmake(void) {
    MPI_Comm_free(&cart), MPI_Comm_free(&graph), MPI_Comm_free(&dist_graph), MPI_Comm_free(&inter);
    MPI_Group_free(&group), MPI_Group_free(&other_group);
    MPI_Type_free(&derived), MPI_Type_free(&uncommitted);
    MPI_Info_free(&info);
    MPI_Session_finalize(&session);
}

/* A crash, a hang, and a call that ends the program say after which call to go on. */
static void stop(int number) {
    char line[256];
    const struct trial *it = &trials[trial];
    const char *how = number == SIGALRM ? "hangs" : number ? "crashes" : "ends the program";
    int length = snprintf(line, sizeof line, "%s(%s) %s\nnext %d\n", it->function, it->what, how, trial + 1);
    _exit(write(1, line, length) == length ? 3 : 4);
}

static void at_exit(void) {
    if (is_running) stop(0);
}

static void run(int from, int is_right) {
    char is[MPI_MAX_ERROR_STRING], should[MPI_MAX_ERROR_STRING];
    int length;
    made = nothing;
    make();
    for (trial = 0; trials[trial].function; trial++) {
        if (trial < from || trials[trial].class == NOT_RUN) continue;
        if (is_right && trials[trial].class != MPI_SUCCESS) continue;
        alarm(PATIENCE);
        int class = class_of(trials[trial].call());
        clean();
        if (class == trials[trial].class || rank) continue;
        MPI_Error_string(class, is, &length);
        MPI_Error_string(trials[trial].class, should, &length);
        printf("%s(%s): %d, %s; it should be %d, %s\n", trials[trial].function, trials[trial].what,
               class, is, trials[trial].class, should);
        fflush(stdout);
    }
    alarm(PATIENCE);
    is_running = 0;
    unmake();
    if (rank == 0) printf("%d trials\n", trial);
}

/* A call that ends its process: outside of MPI, or with a handler that ends all. */
static void call_alone(char when) {
    alarm(PATIENCE);
    made = nothing;
    handler = MPI_ERRORS_ARE_FATAL;
    if (when != 'b') MPI_Init(NULL, NULL), size = 1;
    if (when == 'a') MPI_Finalize();
    if (when == 'f') {
        is_running = 1;
        make();
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
        MPI_Comm_set_errhandler(cart, MPI_ERRORS_ARE_FATAL);
        MPI_Comm_set_errhandler(graph, MPI_ERRORS_ARE_FATAL);
        MPI_Comm_set_errhandler(dist_graph, MPI_ERRORS_ARE_FATAL);
        MPI_Session_set_errhandler(session, MPI_ERRORS_ARE_FATAL);
    }
    dprintf(2, "returns %d\n", trials[trial].call());
    _exit(0);
}

/* Whether a text has a word. */
static int has_word(const char *text, const char *word) {
    size_t length = strlen(word);
    for (const char *at = text; (at = strstr(at, word)); at++) {
        int starts = at == text || !(isalnum(at[-1]) || at[-1] == '_');
        if (starts && !(isalnum(at[length]) || at[length] == '_')) return 1;
    }
    return 0;
}

/* Whether a line says which call it is about, and which argument by its name. What ranks find out about
 * a topology together is about that of any of them. A rank is not known of one that was not in MPI, nor
 * of one that has a session alone. */
static int says_all(const char *line, const struct trial *it, char when) {
    char argument[64] = "";
    const char *call = strstr(line, it->function);
    if (!call) return 0;
    /* No argument is named, as none is wrong. */
    const char *why = when == 'b' ? ": MPI_Init has not been called" : ": MPI_Finalize has been called";
    if (when != 'f') return (strstr(line, why) && !strchr(line, '`')) || strstr(line, "session");
    sscanf(it->what, "%63s", argument);
    int is_agreed = it->class == MPI_ERR_TOPOLOGY || strstr(call, ": rank 0 names rank ");
    if (!is_agreed && !has_word(call + strlen(it->function), argument)) return 0;
    return strncmp(line, "rank 0 of ", 10) == 0 || strncmp(line, "a session, ", 11) == 0;
}

static void run_alone(char when) {
    char line[4096];
    int ends[2], code;
    for (trial = 0; trials[trial].function; trial++) {
        int is_wrong = trials[trial].class > MPI_SUCCESS;
        if (when == 'f' ? !is_wrong : !trials[trial].is_early) continue;
        /* It needs another rank. */
        if (when == 'f' && strstr(trials[trial].function, "Intercomm_")) continue;
        if (when == 'f' && strstr(trials[trial].function, "Comm_remote_")) continue;
        if (pipe(ends)) abort();
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            dup2(ends[1], 2);
            close(ends[0]), close(ends[1]);
            call_alone(when);
        }
        close(ends[1]);
        size_t length = 0;
        for (ssize_t more; (more = read(ends[0], line + length, sizeof line - 1 - length)) > 0;) length += more;
        line[length] = 0;
        close(ends[0]);
        waitpid(child, &code, 0);
        int is_one_line = length > 0 && strchr(line, '\n') == line + length - 1;
        int is_clear = is_one_line && says_all(line, &trials[trial], when);
        if (!WIFEXITED(code) || WEXITSTATUS(code) == 0 || !is_clear)
            printf("%s(%s): it ends with %#x and says: %s\n", trials[trial].function,
                   trials[trial].what, code, line);
    }
    printf("%d trials\n", trial);
}

int main(int argc, char **argv) {
    int is_right = strcmp(argv[1], "right") == 0;
    signal(SIGSEGV, stop), signal(SIGBUS, stop), signal(SIGFPE, stop);
    signal(SIGABRT, stop), signal(SIGILL, stop), signal(SIGALRM, stop);
    if (!is_right && strcmp(argv[1], "trials")) return run_alone(argv[1][0]), 0;
    begin(&argc, &argv);
    CHECK(argc == 3);
    CHECK(size == 2);
    is_running = 1;
    atexit(at_exit);
    run(atoi(argv[2]), is_right);
    return end();
}
