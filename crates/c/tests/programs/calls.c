/* Every call as it is meant, by any number of ranks. */

#include "check.h"

static int rank, size;

static void messages(void)
{
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    double sent[3] = {(double)rank, 0.5, -1}, heard[4] = {0, 0, 0, 7};
    hikyaku_received received;

    if (size > 1) {
        CHECK(hikyaku_send(sent, 3, HIKYAKU_DOUBLE, next, 5) == 0);
        CHECK(hikyaku_recv(heard, 4, HIKYAKU_DOUBLE, previous, 5, &received) == 0);
        CHECK(received.source == previous && received.tag == 5 && received.count == 3);
        CHECK(heard[0] == previous && heard[1] == 0.5 && heard[2] == -1 && heard[3] == 7);
        CHECK(hikyaku_send(NULL, 0, HIKYAKU_INT8, next, 6) == 0);
        CHECK(hikyaku_recv(NULL, 0, HIKYAKU_INT8, HIKYAKU_ANY_SOURCE, HIKYAKU_ANY_TAG, NULL) == 0);
        CHECK(hikyaku_barrier() == 0);
        /* Longer than there is room for, and no whole number of elements. */
        CHECK(hikyaku_send(sent, 3, HIKYAKU_DOUBLE, next, 7) == 0);
        FAILS(hikyaku_recv(heard, 1, HIKYAKU_DOUBLE, previous, 7, NULL), HIKYAKU_E_DISAGREE,
              "does not fit");
        CHECK(hikyaku_send("abc", 3, HIKYAKU_UINT8, next, 8) == 0);
        FAILS(hikyaku_recv(heard, 4, HIKYAKU_DOUBLE, previous, 8, NULL), HIKYAKU_E_DISAGREE,
              "not a whole number");
    }
    uint16_t told[2] = {(uint16_t)rank, 17};
    CHECK(hikyaku_broadcast(told, 2, HIKYAKU_UINT16, size - 1) == 0);
    CHECK(told[0] == size - 1 && told[1] == 17);
}

/* One reduction of each type: sum, product, smallest and largest of rank + 1. */
#define REDUCE(type, code)                                                                \
    do {                                                                                  \
        type sum = (type)(rank + 1), product = sum, least = sum, most = sum;              \
        CHECK(hikyaku_allreduce(&sum, 1, code, HIKYAKU_SUM) == 0);                        \
        CHECK(hikyaku_allreduce(&product, 1, code, HIKYAKU_PRODUCT) == 0);                \
        CHECK(hikyaku_allreduce(&least, 1, code, HIKYAKU_MIN) == 0);                      \
        CHECK(hikyaku_allreduce(&most, 1, code, HIKYAKU_MAX) == 0);                       \
        CHECK(sum == (type)(size * (size + 1) / 2) && least == (type)1);                  \
        CHECK(product == (type)factorial && most == (type)size);                          \
    } while (0)

static void reductions(void)
{
    int factorial = 1;
    for (int i = 2; i <= size; i++)
        factorial *= i;
    REDUCE(int8_t, HIKYAKU_INT8);
    REDUCE(int16_t, HIKYAKU_INT16);
    REDUCE(int32_t, HIKYAKU_INT32);
    REDUCE(int64_t, HIKYAKU_INT64);
    REDUCE(uint8_t, HIKYAKU_UINT8);
    REDUCE(uint16_t, HIKYAKU_UINT16);
    REDUCE(uint32_t, HIKYAKU_UINT32);
    REDUCE(uint64_t, HIKYAKU_UINT64);
    REDUCE(float, HIKYAKU_FLOAT);
    REDUCE(double, HIKYAKU_DOUBLE);
}

/* Additions that would be lost without the lock, and contents that are consistent for its holder. */
static void counter(void)
{
    enum { LENGTH = 1500, TURNS = 200 };
    hikyaku_shared x, y;
    uint64_t shape[2] = {LENGTH / 10, 10}, told[3] = {0, 0, 0}, bytes, times;
    size_t count;
    void *data;
    const void *seen;

    CHECK(hikyaku_shared_create("counter", HIKYAKU_INT64, 2, shape, NULL, &x) == 0);
    for (int turn = 0; turn < TURNS; turn++) {
        CHECK(hikyaku_write_begin(x, 0, HIKYAKU_WAIT, &data, &count) == 0);
        CHECK(count == LENGTH && hikyaku_shared_state(x, 0) == HIKYAKU_WLOCK);
        int64_t *a = (int64_t *)data;
        for (size_t i = 0; i < count; i++) {
            CHECK(a[i] == a[0] || i == 0);
        }
        for (size_t i = 0; i < count; i++)
            a[i]++;
        CHECK(hikyaku_end(x, 0) == 0);
    }
    CHECK(hikyaku_barrier() == 0);
    CHECK(hikyaku_read_begin(x, 0, INT64_C(60000000000), &seen, NULL) == 0);
    CHECK(((const int64_t *)seen)[LENGTH - 1] == (int64_t)TURNS * size);
    CHECK(hikyaku_shared_state(x, 0) == HIKYAKU_RLOCK);
    CHECK(hikyaku_end(x, 0) == 0);
    CHECK(hikyaku_shared_state(x, 0) == HIKYAKU_CLEAN);
    CHECK(hikyaku_shared_moved(x, &bytes, &times) == 0);
    CHECK(hikyaku_shared_moved(x, NULL, NULL) == 0);
    CHECK(hikyaku_nodes() > 1 || (bytes == 0 && times == 0));
    CHECK(hikyaku_shared_owner(x, 0) >= 0 && hikyaku_shared_owner(x, 0) < hikyaku_nodes());
    /* Another name of the same. */
    CHECK(hikyaku_shared_find("counter", HIKYAKU_INT64, &y) == 0);
    CHECK(hikyaku_shared_shape(y, 3, told) == 2 && told[0] == LENGTH / 10 && told[1] == 10);
    CHECK(hikyaku_shared_shape(y, 0, NULL) == 2);
    CHECK(hikyaku_shared_free(x) == 0);
    CHECK(hikyaku_read_begin(y, 0, HIKYAKU_WAIT, &seen, &count) == 0 && count == LENGTH);
    CHECK(hikyaku_end(y, 0) == 0);
    CHECK(hikyaku_shared_free(y) == 0);
    CHECK(hikyaku_barrier() == 0);
}

static void parts(void)
{
    hikyaku_shared x;
    hikyaku_options rows = {2, 0, 0}, tiles = {2, 3, HIKYAKU_RECOVERABLE};
    uint64_t shape[2] = {5, 4}, count, origin[2], extent[2];
    hikyaku_mark mark;
    size_t length;
    void *data;

    CHECK(hikyaku_shared_create("rows", HIKYAKU_FLOAT, 2, shape, &rows, &x) == 0);
    CHECK(hikyaku_shared_parts(x, &count) == 0 && count == 3);
    CHECK(hikyaku_shared_part(x, 2, 2, origin, extent) == 2);
    CHECK(origin[0] == 4 && origin[1] == 0 && extent[0] == 1 && extent[1] == 4);
    CHECK(hikyaku_shared_part(x, 2, 2, NULL, extent) == 2);
    for (uint64_t part = 0; part < count; part++) {
        /* Each by another rank if there is one. */
        if ((int)part % size == rank) {
            CHECK(hikyaku_write_begin(x, part, HIKYAKU_WAIT, &data, &length) == 0);
            CHECK(length == (part < 2 ? 8u : 4u));
            for (size_t i = 0; i < length; i++)
                ((float *)data)[i] = (float)part;
            CHECK(hikyaku_end(x, part) == 0);
        }
    }
    CHECK(hikyaku_barrier() == 0);
    for (uint64_t part = 0; part < count; part++) {
        const void *seen;
        CHECK(hikyaku_read_begin(x, part, HIKYAKU_WAIT, &seen, &length) == 0);
        CHECK(((const float *)seen)[length - 1] == (float)part);
        CHECK(hikyaku_end(x, part) == 0);
    }
    CHECK(hikyaku_barrier() == 0);
    CHECK(hikyaku_shared_free(x) == 0);

    CHECK(hikyaku_shared_create("tiles", HIKYAKU_UINT8, 2, shape, &tiles, &x) == 0);
    CHECK(hikyaku_shared_parts(x, &count) == 0 && count == 6);
    CHECK(hikyaku_write_begin(x, 5, HIKYAKU_WAIT, &data, &length) == 0 && length == 1);
    CHECK(hikyaku_shared_mark(x, 5, &mark) == 0);
    CHECK(mark.what == HIKYAKU_WHOLE && mark.victim == -1);
    CHECK(hikyaku_end(x, 5) == 0);
    CHECK(hikyaku_shared_free(x) == 0);
}

/* What is not there at once is not waited for, or not longer than said. */
static void tried(void)
{
    hikyaku_shared x;
    uint64_t shape[1] = {1};
    void *data = NULL;
    const void *seen = NULL;
    size_t count = 99;

    CHECK(hikyaku_shared_create("tried", HIKYAKU_UINT32, 1, shape, NULL, &x) == 0);
    if (rank == 0)
        CHECK(hikyaku_write_begin(x, 0, 0, &data, NULL) == 0);
    CHECK(hikyaku_barrier() == 0);
    if (rank != 0) {
        CHECK(hikyaku_write_begin(x, 0, 0, &data, &count) == HIKYAKU_BUSY);
        CHECK(hikyaku_read_begin(x, 0, 0, &seen, &count) == HIKYAKU_BUSY);
        CHECK(hikyaku_write_begin(x, 0, 1000000, &data, &count) == HIKYAKU_BUSY);
        CHECK(hikyaku_read_begin(x, 0, 1, &seen, &count) == HIKYAKU_BUSY);
        CHECK(data == NULL && seen == NULL && count == 99);
        FAILS(hikyaku_end(x, 0), HIKYAKU_E_ORDER, "`tried` is not held");
    }
    CHECK(hikyaku_barrier() == 0);
    if (rank == 0)
        CHECK(hikyaku_end(x, 0) == 0);
    CHECK(hikyaku_write_begin(x, 0, INT64_C(60000000000), &data, &count) == 0 && count == 1);
    ((uint32_t *)data)[0]++;
    CHECK(hikyaku_end(x, 0) == 0);
    CHECK(hikyaku_barrier() == 0);
    CHECK(hikyaku_read_begin(x, 0, HIKYAKU_WAIT, &seen, NULL) == 0);
    CHECK(((const uint32_t *)seen)[0] == (uint32_t)size);
    CHECK(hikyaku_end(x, 0) == 0);
    /* It is not freed: its rank's end does that. */
}

int main(void)
{
    CHECK(strlen(hikyaku_version()) > 0 && strlen(hikyaku_error()) == 0);
    CHECK(hikyaku_init() == 0);
    rank = hikyaku_rank();
    size = hikyaku_size();
    CHECK(rank >= 0 && rank < size && hikyaku_node() < hikyaku_nodes());
    messages();
    reductions();
    counter();
    parts();
    tried();
    CHECK(hikyaku_finalize() == 0);
    if (rank == 0)
        printf("%d ranks, every call\n", size);
    return 0;
}
