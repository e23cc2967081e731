/* Wrong calls at the ends of a program, and calls of what is not built: the argument says. Only for our
 * own library. Without an argument every call returns its class, and the program goes on; with one the
 * call that it names ends the job. */
#include <unistd.h>

#include "check.h"

static int calls, code_of_last;

static void count(MPI_Comm *comm, int *code, ...) {
    CHECK(*comm == MPI_COMM_SELF || *comm == MPI_COMM_WORLD);
    calls++, code_of_last = *code;
}

/* A call that fails with this class and calls the program's handler once. The text names the call. */
#define REFUSED(call, function, class)                                  \
    do {                                                                \
        calls = 0;                                                      \
        int code_ = call;                                               \
        EQUAL(class_of(code_), class);                                  \
        EQUAL(calls, 1);                                                \
        EQUAL(code_of_last, code_);                                     \
        CHECK(says(code_, function));                                   \
    } while (0)

static int says(int code, const char *word) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    if (!strstr(text, word)) fprintf(stderr, "%s: ", text);
    return strstr(text, word) != NULL;
}

static void ends(void) {
    int provided = 77, flag;
    REFUSED(MPI_Init(NULL, NULL), "MPI_Init was called before", MPI_ERR_OTHER);
    REFUSED(MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided),
            "MPI_Init was called before", MPI_ERR_OTHER);
    EQUAL(provided, 77);
    REFUSED(MPI_Init_thread(NULL, NULL, MPI_THREAD_SINGLE, NULL), "`provided`", MPI_ERR_ARG);
    REFUSED(MPI_Abort(MPI_COMM_NULL, 5), "`comm`", MPI_ERR_COMM);
    MPI_Comm freed, twin;
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    freed = twin;
    MPI_Comm_free(&twin);
    REFUSED(MPI_Abort(freed, 5), "`comm`", MPI_ERR_COMM);
    REFUSED(MPI_Abort(MPI_Comm_fromint(0x5a5a5a5a), 5), "`comm`", MPI_ERR_COMM);
    /* Every level is right, and what follows has no kind. */
    calls = 0;
    EQUAL(MPI_Pcontrol(0), MPI_SUCCESS);
    EQUAL(MPI_Pcontrol(-5), MPI_SUCCESS);
    EQUAL(MPI_Pcontrol(2, "more", 1.5, NULL), MPI_SUCCESS);
    EQUAL(calls, 0);
    MPI_Initialized(&flag);
    CHECK(flag);
    MPI_Finalized(&flag);
    CHECK(!flag);
}

/* One of each kind of object, and of each chapter. */
static void unbuilt(void) {
    const int none = MPI_ERR_UNSUPPORTED_OPERATION;
    int data = 0, flag;
    void *memory;
    MPI_Aint size;
    MPI_Count large;
    MPI_Offset offset;
    MPI_Win win = MPI_WIN_NULL;
    MPI_File file = MPI_FILE_NULL;
    MPI_Comm made;
    MPI_Request request = MPI_REQUEST_NULL;
    char name[MPI_MAX_PORT_NAME];
    REFUSED(MPI_Win_create(&data, 4, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win), "MPI_Win_create", none);
    REFUSED(MPI_Win_create_c(&data, 4, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win), "MPI_Win_create_c",
            none);
    REFUSED(MPI_Win_allocate(4, 1, MPI_INFO_NULL, MPI_COMM_SELF, &memory, &win), "MPI_Win_allocate",
            none);
    REFUSED(MPI_Put(&data, 1, MPI_INT, 0, 0, 1, MPI_INT, win), "MPI_Put", none);
    REFUSED(MPI_Rget(&data, 1, MPI_INT, 0, 0, 1, MPI_INT, win, &request), "MPI_Rget", none);
    REFUSED(MPI_Win_shared_query(win, 0, &size, &flag, &memory), "MPI_Win_shared_query", none);
    REFUSED(MPI_Win_fence(0, win), "MPI_Win_fence", none);
    REFUSED(MPI_File_open(MPI_COMM_WORLD, "x", MPI_MODE_RDONLY, MPI_INFO_NULL, &file),
            "MPI_File_open", none);
    REFUSED(MPI_File_delete("x", MPI_INFO_NULL), "MPI_File_delete", none);
    REFUSED(MPI_File_get_position(file, &offset), "MPI_File_get_position", none);
    REFUSED(MPI_File_write_at_c(file, 0, &data, 1, MPI_INT, MPI_STATUS_IGNORE),
            "MPI_File_write_at_c", none);
    REFUSED(MPI_File_get_type_extent_c(file, MPI_INT, &large), "MPI_File_get_type_extent_c", none);
    REFUSED(MPI_Comm_spawn("x", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &made,
                           MPI_ERRCODES_IGNORE),
            "MPI_Comm_spawn", none);
    REFUSED(MPI_Comm_accept("x", MPI_INFO_NULL, 0, MPI_COMM_SELF, &made), "MPI_Comm_accept", none);
    REFUSED(MPI_Open_port(MPI_INFO_NULL, name), "MPI_Open_port", none);
    REFUSED(MPI_Lookup_name("x", MPI_INFO_NULL, name), "MPI_Lookup_name", none);
    REFUSED(MPI_Psend_init(&data, 1, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request),
            "MPI_Psend_init", none);
    REFUSED(MPI_Pready(0, request), "MPI_Pready", none);
    /* The interface of tools calls no handler (MPI 5.0 §15.3). */
    calls = 0;
    int code = MPI_T_init_thread(MPI_THREAD_SINGLE, &flag);
    CLASS(code, none);
    CHECK(says(code, "hikyaku does not have MPI_T_init_thread yet"));
    EQUAL(calls, 0);
}

/* In MPICH's interface the number of a type has its size, too. With another size it is none. */
static void misnumbered(void) {
#ifdef MPICH_VERSION
    int bytes;
    EQUAL(MPI_CHAR, 0x4c000101);
    EQUAL(MPI_Type_size(MPI_CHAR, &bytes), MPI_SUCCESS);
    REFUSED(MPI_Type_size((MPI_Datatype)0x4c000201, &bytes), "`datatype`", MPI_ERR_TYPE);
    REFUSED(MPI_Type_size((MPI_Datatype)0x4c000181, &bytes), "`datatype`", MPI_ERR_TYPE);
#endif
}

/* Calls each of which ends the job. */
static void fatal(const char *call) {
    int data = 0, provided;
    MPI_Win win;
    MPI_File file;
    if (strcmp(call, "init") == 0) MPI_Init(NULL, NULL);
    if (strcmp(call, "thread") == 0) MPI_Init_thread(NULL, NULL, MPI_THREAD_SINGLE, NULL);
    if (strcmp(call, "abort") == 0) MPI_Abort(MPI_COMM_NULL, 5);
    if (strcmp(call, "window") == 0)
        MPI_Win_create(&data, 4, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    if (strcmp(call, "file") == 0)
        MPI_File_open(MPI_COMM_SELF, "x", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    if (strcmp(call, "port") == 0) MPI_Close_port("x");
    MPI_Finalize();
    if (strcmp(call, "finalize twice") == 0) MPI_Finalize();
    if (strcmp(call, "init after") == 0) MPI_Init(NULL, NULL);
    if (strcmp(call, "thread after") == 0)
        MPI_Init_thread(NULL, NULL, MPI_THREAD_SINGLE, &provided);
    if (strcmp(call, "abort after") == 0) MPI_Abort(MPI_COMM_WORLD, 5);
    if (strcmp(call, "control after") == 0) MPI_Pcontrol(1);
}

/* The same before MPI has begun. */
static void early(const char *call) {
    int provided;
    if (strcmp(call, "finalize before") == 0) MPI_Finalize();
    if (strcmp(call, "abort before") == 0) MPI_Abort(MPI_COMM_WORLD, 5);
    if (strcmp(call, "control before") == 0) MPI_Pcontrol(1);
    if (strcmp(call, "tools before") == 0)
        _exit(class_of(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided)));
    if (strcmp(call, "thread before") == 0) MPI_Init_thread(NULL, NULL, MPI_THREAD_SINGLE, NULL);
}

int main(int argc, char **argv) {
    if (argc == 2) early(argv[1]);
    begin(&argc, &argv);
    if (argc == 2) return fatal(argv[1]), 0;
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(count, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Errhandler_free(&handler);
    ends();
    unbuilt();
    misnumbered();
    /* The job still works. */
    works(MPI_COMM_WORLD);
    return end();
}
