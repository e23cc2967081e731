/* A child of a rank's process is no rank: its calls fail, and what it does changes nothing. */

#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
    int64_t sum = 1, got = 0;
    const uint64_t shape[] = {4};
    const void *read = NULL;
    void *data = NULL;
    hikyaku_shared held, free_one;
    int rank, state;
    pid_t child;

    CHECK(hikyaku_init() == 0);
    rank = hikyaku_rank();
    /* The child would find a message that is there. */
    CHECK(hikyaku_send(&rank, 1, HIKYAKU_INT32, 1 - rank, 5) == 0);
    CHECK(hikyaku_shared_create("held", HIKYAKU_INT64, 1, shape, NULL, &held) == 0);
    CHECK(hikyaku_shared_create("free", HIKYAKU_INT64, 1, shape, NULL, &free_one) == 0);
    CHECK(rank == 1 || hikyaku_write_begin(held, 0, HIKYAKU_WAIT, &data, NULL) == 0);
    CHECK(hikyaku_barrier() == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        FAILS(hikyaku_send(&sum, 1, HIKYAKU_INT64, 1 - rank, 5), HIKYAKU_E_THREAD,
              "forked from rank");
        FAILS(hikyaku_recv(&got, 1, HIKYAKU_INT32, 1 - rank, 5, NULL), HIKYAKU_E_THREAD, "forked");
        FAILS(hikyaku_recv(&got, 1, HIKYAKU_INT32, HIKYAKU_ANY_SOURCE, HIKYAKU_ANY_TAG, NULL),
              HIKYAKU_E_THREAD, "forked");
        FAILS(hikyaku_barrier(), HIKYAKU_E_THREAD, "forked");
        FAILS(hikyaku_broadcast(&sum, 1, HIKYAKU_INT64, 0), HIKYAKU_E_THREAD, "forked");
        FAILS(hikyaku_allreduce(&sum, 1, HIKYAKU_INT64, HIKYAKU_SUM), HIKYAKU_E_THREAD, "forked");
        FAILS(hikyaku_write_begin(free_one, 0, HIKYAKU_WAIT, &data, NULL), HIKYAKU_E_THREAD,
              "forked");
        FAILS(hikyaku_write_begin(free_one, 0, 0, &data, NULL), HIKYAKU_E_THREAD, "forked");
        FAILS(hikyaku_write_begin(free_one, 0, 1000, &data, NULL), HIKYAKU_E_THREAD, "forked");
        FAILS(hikyaku_read_begin(free_one, 0, HIKYAKU_WAIT, &read, NULL), HIKYAKU_E_THREAD,
              "forked");
        if (rank == 0) {
            hikyaku_end(held, 0);
        }
        /* It leaves nothing: this is not its job. */
        hikyaku_finalize();
        exit(7);
    }
    CHECK(waitpid(child, &state, 0) == child && WIFEXITED(state) && WEXITSTATUS(state) == 7);
    CHECK(hikyaku_recv(&state, 1, HIKYAKU_INT32, 1 - rank, 5, NULL) == 0 && state == 1 - rank);
    /* What the rank holds it still has. */
    if (rank == 1) {
        CHECK(hikyaku_write_begin(held, 0, 0, &data, NULL) == HIKYAKU_BUSY);
    }
    CHECK(hikyaku_barrier() == 0);
    CHECK(rank == 1 || hikyaku_end(held, 0) == 0);
    CHECK(hikyaku_write_begin(held, 0, HIKYAKU_WAIT, &data, NULL) == 0);
    CHECK(hikyaku_end(held, 0) == 0);
    CHECK(hikyaku_write_begin(free_one, 0, HIKYAKU_WAIT, &data, NULL) == 0);
    CHECK(hikyaku_end(free_one, 0) == 0);
    CHECK(hikyaku_allreduce(&sum, 1, HIKYAKU_INT64, HIKYAKU_SUM) == 0 && sum == 2);
    CHECK(hikyaku_barrier() == 0);
    CHECK(hikyaku_finalize() == 0);
    return 0;
}
