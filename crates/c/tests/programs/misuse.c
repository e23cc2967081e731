/* Calls that cannot be right: each is an error that says why, and spoils nothing. */

#include "check.h"

#include <pthread.h>

static hikyaku_shared x;

static void *on_another_thread(void *unused)
{
    const void *seen;

    FAILS(hikyaku_init(), HIKYAKU_E_THREAD, "not the thread that called hikyaku_init");
    FAILS(hikyaku_read_begin(x, 0, 0, &seen, NULL), HIKYAKU_E_THREAD, "not the thread");
    FAILS(hikyaku_finalize(), HIKYAKU_E_THREAD, "not the thread");
    return unused;
}

static void messages(void)
{
    double d = 0;
    char odd[16];

    FAILS(hikyaku_send(NULL, 1, HIKYAKU_DOUBLE, 0, 0), HIKYAKU_E_ARGUMENT, "data is NULL");
    FAILS(hikyaku_send(&d, 1, 0, 0, 0), HIKYAKU_E_ARGUMENT, "0 is no type");
    FAILS(hikyaku_send(&d, 1, HIKYAKU_DOUBLE, -7, 0), HIKYAKU_E_ARGUMENT, "rank -7 does not exist");
    FAILS(hikyaku_send(&d, 1, HIKYAKU_DOUBLE, 1000, 0), HIKYAKU_E_ARGUMENT, "rank 1000");
    FAILS(hikyaku_send(&d, 1, HIKYAKU_DOUBLE, 0, -2), HIKYAKU_E_ARGUMENT, "tag -2");
    FAILS(hikyaku_send(&d, SIZE_MAX, HIKYAKU_DOUBLE, 0, 0), HIKYAKU_E_ARGUMENT, "cannot have");
    FAILS(hikyaku_send(odd + ((uintptr_t)odd % 2 == 0), 1, HIKYAKU_INT64, 0, 0), HIKYAKU_E_ARGUMENT,
          "not aligned");
    FAILS(hikyaku_recv(NULL, 1, HIKYAKU_DOUBLE, 0, 0, NULL), HIKYAKU_E_ARGUMENT, "into is NULL");
    FAILS(hikyaku_recv(&d, 1, HIKYAKU_DOUBLE, -2, 0, NULL), HIKYAKU_E_ARGUMENT, "rank -2");
    FAILS(hikyaku_recv(&d, 1, 99, 0, 0, NULL), HIKYAKU_E_ARGUMENT, "99 is no type");
    if (hikyaku_size() == 1)
        FAILS(hikyaku_recv(&d, 1, HIKYAKU_DOUBLE, 0, 0, NULL), HIKYAKU_E_ORDER, "to itself");
    FAILS(hikyaku_allreduce(&d, 1, HIKYAKU_DOUBLE, 0), HIKYAKU_E_ARGUMENT, "0 is no operation");
    FAILS(hikyaku_allreduce(NULL, 1, HIKYAKU_DOUBLE, HIKYAKU_SUM), HIKYAKU_E_ARGUMENT, "NULL");
    FAILS(hikyaku_broadcast(&d, 1, HIKYAKU_DOUBLE, -1), HIKYAKU_E_ARGUMENT, "rank -1");
    FAILS(hikyaku_broadcast(&d, 1, HIKYAKU_DOUBLE, hikyaku_size()), HIKYAKU_E_ARGUMENT, "root");
}

/* Variables that cannot be; all ranks ask for the same. */
static void creation(void)
{
    uint64_t shape[2] = {4, 4}, none[1] = {0}, many[1] = {8193}, huge[1] = {UINT64_C(1) << 60};
    uint64_t too_many[33] = {0};
    hikyaku_options rows = {1, 0, 0}, no_rows = {0, 2, 0}, flags = {0, 0, 6}, tiles = {2, 2, 0};
    hikyaku_shared y;

    FAILS(hikyaku_shared_create(NULL, HIKYAKU_INT8, 1, shape, NULL, &y), HIKYAKU_E_ARGUMENT,
          "name is NULL");
    FAILS(hikyaku_shared_create("\xff", HIKYAKU_INT8, 1, shape, NULL, &y), HIKYAKU_E_ARGUMENT,
          "not UTF-8");
    FAILS(hikyaku_shared_create("y", 77, 1, shape, NULL, &y), HIKYAKU_E_ARGUMENT, "77 is no type");
    FAILS(hikyaku_shared_create("y", HIKYAKU_INT8, 1, NULL, NULL, &y), HIKYAKU_E_ARGUMENT,
          "shape is NULL");
    FAILS(hikyaku_shared_create("y", HIKYAKU_INT8, 33, too_many, NULL, &y), HIKYAKU_E_ARGUMENT,
          "33 dimensions");
    FAILS(hikyaku_shared_create("y", HIKYAKU_INT8, 1, shape, NULL, NULL), HIKYAKU_E_ARGUMENT,
          "made is NULL");
    FAILS(hikyaku_shared_create("y", HIKYAKU_INT8, 1, none, NULL, &y), HIKYAKU_E_ARGUMENT,
          "no elements");
    FAILS(hikyaku_shared_create("y", HIKYAKU_INT8, 2, shape, &no_rows, &y), HIKYAKU_E_ARGUMENT,
          "columns without rows");
    FAILS(hikyaku_shared_create("y", HIKYAKU_INT8, 2, shape, &flags, &y), HIKYAKU_E_ARGUMENT,
          "flags 0x6");
    FAILS(hikyaku_shared_create("y", HIKYAKU_INT8, 1, shape, &tiles, &y), HIKYAKU_E_ARGUMENT,
          "two");
    FAILS(hikyaku_shared_create("y", HIKYAKU_INT8, 1, many, &rows, &y), HIKYAKU_E_ROOM,
          "8193 sync variables");
    /* The first rank of a node has its copy. */
    FAILS(hikyaku_shared_create("y", HIKYAKU_DOUBLE, 1, huge, NULL, &y),
          hikyaku_rank() % 2 == 0 ? HIKYAKU_E_ROOM : HIKYAKU_E_PEER, "");
    FAILS(hikyaku_shared_create("x", HIKYAKU_INT8, 1, shape, NULL, &y), HIKYAKU_E_ARGUMENT,
          "`x` already");
    FAILS(hikyaku_shared_find("z", HIKYAKU_INT32, &y), HIKYAKU_E_ARGUMENT,
          "no shared variable `z`: there is `x`");
    FAILS(hikyaku_shared_find("x", HIKYAKU_FLOAT, &y), HIKYAKU_E_ARGUMENT, "not of f32");
    FAILS(hikyaku_shared_find(NULL, HIKYAKU_FLOAT, &y), HIKYAKU_E_ARGUMENT, "name is NULL");
    FAILS(hikyaku_shared_find("x", HIKYAKU_INT32, NULL), HIKYAKU_E_ARGUMENT, "found is NULL");
}

/* A variable that this rank alone has to do with. */
static void holding(void)
{
    hikyaku_shared nothing = {0}, invented = {UINT64_C(1) << 40 | 9}, y, own = {0};
    uint64_t shape[1] = {1};
    char name[16];
    hikyaku_mark mark;
    void *data;
    const void *seen;

    for (int i = 0; i < hikyaku_size(); i++) {
        snprintf(name, sizeof name, "own %d", i);
        CHECK(hikyaku_shared_create(name, HIKYAKU_INT32, 1, shape, NULL, &y) == 0);
        if (i == hikyaku_rank())
            own = y;
    }
    FAILS(hikyaku_write_begin(nothing, 0, 0, &data, NULL), HIKYAKU_E_ORDER, "no shared variable");
    FAILS(hikyaku_write_begin(invented, 0, 0, &data, NULL), HIKYAKU_E_ORDER, "never made");
    FAILS(hikyaku_write_begin(own, 0, 0, NULL, NULL), HIKYAKU_E_ARGUMENT, "data is NULL");
    FAILS(hikyaku_write_begin(own, 1, 0, &data, NULL), HIKYAKU_E_ARGUMENT, "not 1");
    FAILS(hikyaku_read_begin(own, UINT64_MAX, 0, &seen, NULL), HIKYAKU_E_ARGUMENT, "parts 0 to 0");
    FAILS(hikyaku_write_begin(own, 0, -2, &data, NULL), HIKYAKU_E_ARGUMENT, "timeout -2");
    FAILS(hikyaku_end(own, 0), HIKYAKU_E_ORDER, "is not held");
    FAILS(hikyaku_end(own, 5), HIKYAKU_E_ARGUMENT, "not 5");
    FAILS(hikyaku_shared_mark(own, 0, &mark), HIKYAKU_E_ORDER, "is not held");
    FAILS(hikyaku_shared_state(own, 1), HIKYAKU_E_ARGUMENT, "not 1");

    CHECK(hikyaku_write_begin(own, 0, HIKYAKU_WAIT, &data, NULL) == 0);
    /* Held already: by either call, by another name too. */
    FAILS(hikyaku_write_begin(own, 0, HIKYAKU_WAIT, &data, NULL), HIKYAKU_E_ORDER,
          "held by this rank already");
    FAILS(hikyaku_read_begin(own, 0, 0, &seen, NULL), HIKYAKU_E_ORDER, "held by this rank already");
    snprintf(name, sizeof name, "own %d", hikyaku_rank());
    CHECK(hikyaku_shared_find(name, HIKYAKU_INT32, &y) == 0 && y.number != own.number);
    FAILS(hikyaku_write_begin(y, 0, HIKYAKU_WAIT, &data, NULL), HIKYAKU_E_ORDER, "already");
    FAILS(hikyaku_end(y, 0), HIKYAKU_E_ORDER, "not held through this handle");
    FAILS(hikyaku_shared_free(own), HIKYAKU_E_ORDER, "is held: call hikyaku_end before");
    FAILS(hikyaku_finalize(), HIKYAKU_E_ORDER, "is held: call hikyaku_end before");
    FAILS(hikyaku_shared_mark(own, 0, NULL), HIKYAKU_E_ARGUMENT, "mark is NULL");
    *(int32_t *)data = 5;
    CHECK(hikyaku_end(own, 0) == 0);
    FAILS(hikyaku_end(own, 0), HIKYAKU_E_ORDER, "is not held");

    CHECK(hikyaku_shared_free(own) == 0);
    FAILS(hikyaku_shared_free(own), HIKYAKU_E_ORDER, "was freed");
    FAILS(hikyaku_write_begin(own, 0, 0, &data, NULL), HIKYAKU_E_ORDER, "was freed");
    /* What takes its place has another name; it is there by that of `y`. */
    hikyaku_shared again;
    CHECK(hikyaku_shared_find(name, HIKYAKU_INT32, &again) == 0 && again.number != own.number);
    FAILS(hikyaku_end(own, 0), HIKYAKU_E_ORDER, "was freed");
    CHECK(hikyaku_read_begin(again, 0, HIKYAKU_WAIT, &seen, NULL) == 0);
    CHECK(*(const int32_t *)seen == 5 && hikyaku_end(again, 0) == 0);
}

int main(void)
{
    uint64_t shape[1] = {3};
    pthread_t thread;

    FAILS(hikyaku_rank(), HIKYAKU_E_ORDER, "call hikyaku_init");
    FAILS(hikyaku_barrier(), HIKYAKU_E_ORDER, "call hikyaku_init");
    FAILS(hikyaku_finalize(), HIKYAKU_E_ORDER, "call hikyaku_init");
    CHECK(hikyaku_init() == 0);
    FAILS(hikyaku_init(), HIKYAKU_E_ORDER, "call it once");
    CHECK(hikyaku_shared_create("x", HIKYAKU_INT32, 1, shape, NULL, &x) == 0);
    CHECK(pthread_create(&thread, NULL, on_another_thread, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    messages();
    creation();
    holding();
    CHECK(hikyaku_barrier() == 0);
    CHECK(hikyaku_finalize() == 0);
    FAILS(hikyaku_finalize(), HIKYAKU_E_ORDER, "no way back");
    FAILS(hikyaku_init(), HIKYAKU_E_ORDER, "no way back");
    FAILS(hikyaku_shared_free(x), HIKYAKU_E_ORDER, "has left its job");
    puts("every misuse is told");
    return 0;
}
