/* Threads that wait for what does not come, or are in MPI when one forks: the argument says why. Only for our own library. */
#define _POSIX_C_SOURCE 200809L

#include <hikyaku.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static MPI_Comm twin;

static void nap(void) { nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL); }

static void *wait_for_ever(void *at) {
    (void)at;
    int one;
    MPI_Recv(&one, 1, MPI_INT, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return NULL;
}

static void *receive(void *at) {
    int one;
    const int code = MPI_Recv(&one, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    *(int *)at = class_of(code);
    return NULL;
}

static void *reduce(void *at) {
    double one[9000] = {0}, into[9000];
    *(int *)at = class_of(MPI_Allreduce(one, into, 9000, MPI_DOUBLE, MPI_SUM, twin));
    return NULL;
}

static atomic_int is_over;

/* Is in a call of MPI nearly all the time. */
static void *look(void *at) {
    (void)at;
    while (!is_over) {
        int flag;
        MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    }
    return NULL;
}

/* Forks while other threads are in MPI. A call of the child, which is no rank, ends with an error.
 * On a busy machine a turn takes a dozen turns of each other process. */
static void fork_often(void) {
    pthread_t threads[2];
    for (int at = 0; at < 2; at++) pthread_create(&threads[at], NULL, look, NULL);
    for (int turn = 0; turn < 25; turn++) {
        pid_t child = fork();
        if (child == 0) {
            int flag;
            alarm(20);
            MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
            _exit(MPI_Iprobe(0, 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS ? 7 : 8);
        }
        int status;
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status));
        EQUAL(WEXITSTATUS(status), 7);
    }
    is_over = 1;
    for (int at = 0; at < 2; at++) pthread_join(threads[at], NULL);
}

static void *send_one(void *at) {
    int32_t one = 5;
    nap();
    MPI_Send(&one, 1, MPI_INT32_T, 1, 1, MPI_COMM_WORLD);
    return at;
}

/* Waits for a shared variable whose holder waits for a message of another thread of this rank. */
static void wait_for_a_variable(void) {
    const uint64_t shape[1] = {1};
    hikyaku_shared shared;
    pthread_t thread;
    void *data;
    EQUAL(hikyaku_init(), 0);
    EQUAL(hikyaku_shared_create("held", HIKYAKU_INT32, 1, shape, NULL, &shared), 0);
    if (rank == 1) {
        EQUAL(hikyaku_write_begin(shared, 0, HIKYAKU_WAIT, &data, NULL), 0);
        EQUAL(hikyaku_barrier(), 0);
        MPI_Recv(data, 1, MPI_INT32_T, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        EQUAL(hikyaku_barrier(), 0);
        pthread_create(&thread, NULL, send_one, NULL);
        EQUAL(hikyaku_write_begin(shared, 0, HIKYAKU_WAIT, &data, NULL), 0);
        pthread_join(thread, NULL);
        EQUAL(*(int32_t *)data, 5);
    }
    EQUAL(hikyaku_end(shared, 0), 0);
    EQUAL(hikyaku_finalize(), 0);
}

int main(int argc, char **argv) {
    int level, classes[2] = {-1, -1};
    pthread_t threads[2];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(argc == 2 && level == MPI_THREAD_MULTIPLE);
    if (strcmp(argv[1], "finalize") == 0) {
        pthread_create(&threads[0], NULL, wait_for_ever, NULL);
        nap();
        return end();
    }
    if (strcmp(argv[1], "fork") == 0) {
        fork_often();
        return end();
    }
    if (strcmp(argv[1], "variable") == 0) {
        wait_for_a_variable();
        return end();
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(twin, MPI_ERRORS_RETURN);
    if (rank == 1) {
        nap();
        raise(SIGKILL);
    }
    pthread_create(&threads[0], NULL, receive, &classes[0]);
    pthread_create(&threads[1], NULL, reduce, &classes[1]);
    for (int at = 0; at < 2; at++) {
        pthread_join(threads[at], NULL);
        EQUAL(classes[at], MPI_ERR_PROC_ABORTED);
    }
    printf("both told\n");
    fflush(stdout);
    _exit(0);
}
