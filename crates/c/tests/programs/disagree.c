/* What one rank gets wrong in making a variable is an error at every rank, and leaves nothing. */

#include "check.h"

int main(void)
{
    CHECK(hikyaku_init() == 0);
    int last = hikyaku_rank() == hikyaku_size() - 1;
    uint64_t shape[2] = {2, 3}, other[2] = {3, 2};
    hikyaku_options kept = {0, 0, HIKYAKU_RECOVERABLE}, rows = {1, 0, 0};
    hikyaku_shared x;

    FAILS(hikyaku_shared_create("x", HIKYAKU_INT8, 2, last ? other : shape, NULL, &x),
          HIKYAKU_E_DISAGREE, "with the shape [3, 2] where rank 0 made it with [2, 3]");
    FAILS(hikyaku_shared_create("x", last ? HIKYAKU_FLOAT : HIKYAKU_INT32, 2, shape, NULL, &x),
          HIKYAKU_E_DISAGREE, "with the type f32 of 4 bytes");
    FAILS(hikyaku_shared_create(last ? "y" : "x", HIKYAKU_INT8, 2, shape, NULL, &x),
          HIKYAKU_E_DISAGREE, "with the name `y`");
    FAILS(hikyaku_shared_create("x", HIKYAKU_INT8, 2, shape, last ? &kept : NULL, &x),
          HIKYAKU_E_DISAGREE, "recoverable");
    FAILS(hikyaku_shared_create("x", HIKYAKU_INT8, 2, shape, last ? &rows : NULL, &x),
          HIKYAKU_E_DISAGREE, "with the division");
    /* What can be seen to be wrong at one rank keeps nobody waiting. */
    if (last) {
        FAILS(hikyaku_shared_create("x", HIKYAKU_INT8, 2, NULL, NULL, &x), HIKYAKU_E_ARGUMENT,
              "shape is NULL");
    } else {
        FAILS(hikyaku_shared_create("x", HIKYAKU_INT8, 2, shape, NULL, &x), HIKYAKU_E_DISAGREE,
              "an argument cannot be");
    }
    CHECK(hikyaku_shared_create("x", HIKYAKU_INT8, 2, shape, NULL, &x) == 0);
    CHECK(hikyaku_barrier() == 0);
    CHECK(hikyaku_finalize() == 0);
    return 0;
}
