/* Threads beside the one that is in MPI, below MPI_THREAD_MULTIPLE: the argument says what they
 * call. The time, and whether MPI is in use, they may ask for; they may use info objects, error codes
 * and error handlers, and open sessions. Two calls of messages at once are a mistake of the
 * program's. */
#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "check.h"

static atomic_int is_over;

static void *ask(void *at) {
    (void)at;
    double last = 0;
    while (!is_over) {
        int flag, version, subversion;
        double now = MPI_Wtime();
        CHECK(now >= last);
        last = now;
        MPI_Initialized(&flag);
        CHECK(flag);
        MPI_Get_version(&version, &subversion);
        MPI_Query_thread(&flag);
        EQUAL(flag, MPI_THREAD_FUNNELED);
        MPI_Is_thread_main(&flag);
        CHECK(!flag);
    }
    return NULL;
}

/* An object that all threads use, and what a thread makes for itself. */
static MPI_Info shared;

/* A session that all threads report errors to, and how often its handler was called. */
static MPI_Session common;
static atomic_long handled, reported;

static void handle(MPI_Session *session, int *code, ...) {
    handled += *session == common && *code == MPI_ERR_OTHER;
}

static void report(int times) {
    for (int at = 0; at < times; at++) MPI_Session_call_errhandler(common, MPI_ERR_OTHER);
    reported += times;
}

/* Sessions that threads have opened and the thread that is in MPI has not closed yet. */
static MPI_Session sessions[2];
static atomic_int is_open[2];

static void close_sessions(void) {
    for (int at = 0; at < 2; at++) {
        if (!is_open[at]) continue;
        MPI_Info info;
        char level[30];
        int flag, length = sizeof level;
        MPI_Session_get_info(sessions[at], &info);
        MPI_Info_get_string(info, "thread_level", &length, level, &flag);
        CHECK(flag && strcmp(level, "MPI_THREAD_SERIALIZED") == 0);
        MPI_Info_free(&info);
        MPI_Session_finalize(&sessions[at]);
        is_open[at] = 0;
    }
}

static void *make(void *at) {
    int number = *(int *)at;
    char key[20], value[20], text[MPI_MAX_ERROR_STRING];
    snprintf(key, sizeof key, "key %d", number);
    while (!is_over) {
        MPI_Info own, copy, environment;
        int flag, keys, class, found, length = sizeof value;
        MPI_Info_create(&own);
        MPI_Info_set(own, key, "one");
        MPI_Info_set(shared, key, "two");
        MPI_Info_dup(shared, &copy);
        MPI_Info_get_string(copy, key, &length, value, &flag);
        CHECK(flag && strcmp(value, "two") == 0);
        MPI_Info_get_nkeys(own, &keys);
        EQUAL(keys, 1);
        MPI_Info_delete(shared, key);
        /* An error of MPI_COMM_SELF, which the thread in MPI is using. */
        for (int turn = 0; turn < 300; turn++)
            CLASS(MPI_Info_delete(own, "none"), MPI_ERR_INFO_NOKEY);
        MPI_Info_create_env(0, NULL, &environment);
        length = sizeof value;
        MPI_Info_get_string(environment, "maxprocs", &length, value, &flag);
        CHECK(flag);
        EQUAL(atoi(value), size);
        MPI_Info_free(&own);
        MPI_Info_free(&copy);
        MPI_Info_free(&environment);

        MPI_Add_error_class(&class);
        MPI_Add_error_string(class, key);
        MPI_Error_string(class, text, &length);
        CHECK(strcmp(text, key) == 0);
        MPI_Error_class(class, &found);
        EQUAL(found, class);
        MPI_Remove_error_string(class);
        MPI_Remove_error_class(class);
        MPI_Errhandler handler;
        MPI_Session_create_errhandler(handle, &handler);
        MPI_Errhandler_free(&handler);
        report(100);
        if (!is_open[number]) {
            MPI_Session_init(shared, MPI_ERRORS_RETURN, &sessions[number]);
            is_open[number] = 1;
        }
    }
    return NULL;
}

static void exchange(int turns) {
    int one = rank, other;
    for (int turn = 0; turn < turns; turn++) {
        MPI_Info used;
        MPI_Comm_set_info(MPI_COMM_SELF, shared);
        MPI_Comm_get_info(MPI_COMM_SELF, &used);
        MPI_Info_free(&used);
        MPI_Sendrecv(&one, 1, MPI_INT, right(), 0, &other, 1, MPI_INT, left(), 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        EQUAL(other, left());
        close_sessions();
        report(1);
    }
}

/* Nobody sends this. */
static void *receive(void *at) {
    (void)at;
    int one;
    MPI_Recv(&one, 1, MPI_INT, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return NULL;
}

/* Rank 0 calls while its other thread waits in a call. */
static void call_at_once(void) {
    pthread_t thread;
    if (rank == 0) pthread_create(&thread, NULL, receive, NULL);
    if (rank != 0) receive(NULL);
    nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
    for (;;) {
        MPI_Sendrecv(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, NULL, 0, MPI_INT, MPI_PROC_NULL, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    EQUAL(provided, MPI_THREAD_FUNNELED);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    pthread_t threads[2];
    if (argc == 2 && strcmp(argv[1], "messages") == 0) call_at_once();
    MPI_Info_create(&shared);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Errhandler handler;
    MPI_Session_create_errhandler(handle, &handler);
    MPI_Session_init(MPI_INFO_NULL, handler, &common);
    MPI_Errhandler_free(&handler);
    int numbers[2] = {0, 1}, makes = argc == 2 && strcmp(argv[1], "objects") == 0;
    for (int at = 0; at < 2; at++)
        pthread_create(&threads[at], NULL, makes ? make : ask, &numbers[at]);
    exchange(20000);
    for (int turn = 0; turn < 500000 && makes; turn++) MPI_Comm_size(MPI_COMM_SELF, &provided);
    is_over = 1;
    for (int at = 0; at < 2; at++) pthread_join(threads[at], NULL);
    close_sessions();
    EQUAL(handled, reported);
    MPI_Session_finalize(&common);
    MPI_Info_free(&shared);
    return end();
}
