/* Calls that never return, one a rank: the words name them. The last rank, which has no word, holds
 * a variable to write and receives what nobody sends. */

#include "check.h"

#define LONG (1 << 20) /* longer than what is sent without asking */

static int call(const char *name, int last, hikyaku_shared field)
{
    static char data[LONG];
    void *held;
    const void *seen;

    if (strcmp(name, "last") == 0) {
        CHECK(hikyaku_write_begin(field, 0, HIKYAKU_WAIT, &held, NULL) == 0);
        CHECK(hikyaku_barrier() == 0);
        return hikyaku_recv(data, 1, HIKYAKU_UINT8, 0, 99, NULL);
    }
    CHECK(hikyaku_barrier() == 0);
    if (strcmp(name, "send") == 0)
        return hikyaku_send(data, LONG, HIKYAKU_UINT8, last, 3);
    if (strcmp(name, "recv") == 0)
        return hikyaku_recv(data, 1, HIKYAKU_UINT8, last, 5, NULL);
    if (strcmp(name, "recv any") == 0)
        return hikyaku_recv(data, 1, HIKYAKU_UINT8, HIKYAKU_ANY_SOURCE, HIKYAKU_ANY_TAG, NULL);
    if (strcmp(name, "write") == 0)
        return hikyaku_write_begin(field, 0, HIKYAKU_WAIT, &held, NULL);
    if (strcmp(name, "read") == 0)
        return hikyaku_read_begin(field, 0, HIKYAKU_WAIT, &seen, NULL);
    if (strcmp(name, "barrier") == 0)
        return hikyaku_barrier();
    if (strcmp(name, "broadcast") == 0)
        return hikyaku_broadcast(data, 1, HIKYAKU_UINT8, last);
    if (strcmp(name, "allreduce") == 0)
        return hikyaku_allreduce(data, 1, HIKYAKU_UINT8, HIKYAKU_SUM);
    fprintf(stderr, "there is no call %s\n", name);
    return -1;
}

int main(int count, char **words)
{
    uint64_t shape[1] = {100};
    hikyaku_shared field;
    int rank;

    CHECK(hikyaku_init() == 0);
    CHECK(hikyaku_shared_create("field", HIKYAKU_INT32, 1, shape, NULL, &field) == 0);
    rank = hikyaku_rank();
    call(rank + 1 < count ? words[rank + 1] : "last", hikyaku_size() - 1, field);
    fprintf(stderr, "rank %d has waited: %s\n", rank, hikyaku_error());
    return 1;
}
