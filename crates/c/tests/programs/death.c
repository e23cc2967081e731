/* Rank 0 dies with two variables. The others go on with the one that is recoverable. */

#include "check.h"

#include <signal.h>
#include <unistd.h>

int main(int count, char **words)
{
    hikyaku_options options = {0, 0, HIKYAKU_RECOVERABLE};
    hikyaku_shared kept, fixed;
    uint64_t shape[1] = {100};
    hikyaku_mark mark;
    void *data;
    const void *seen;
    char nothing;

    CHECK(hikyaku_init() == 0);
    if (count > 1 && strcmp(words[1], "unfinished") == 0) {
        if (hikyaku_rank() == 0)
            return 0; /* without hikyaku_finalize */
        FAILS(hikyaku_recv(&nothing, 1, HIKYAKU_UINT8, 0, 0, NULL), HIKYAKU_E_PEER,
              "before it left the job");
        CHECK(hikyaku_finalize() == 0);
        return 0;
    }
    CHECK(hikyaku_shared_create("kept", HIKYAKU_INT32, 1, shape, &options, &kept) == 0);
    CHECK(hikyaku_shared_create("fixed", HIKYAKU_INT32, 1, shape, NULL, &fixed) == 0);
    if (hikyaku_rank() == 0) {
        CHECK(hikyaku_write_begin(kept, 0, HIKYAKU_WAIT, &data, NULL) == 0);
        *(int32_t *)data = 17;
        CHECK(hikyaku_write_begin(fixed, 0, HIKYAKU_WAIT, &data, NULL) == 0);
        for (int rank = 1; rank < hikyaku_size(); rank++)
            CHECK(hikyaku_send(NULL, 0, HIKYAKU_UINT8, rank, 0) == 0);
        kill(getpid(), SIGKILL);
    }
    CHECK(hikyaku_recv(&nothing, 1, HIKYAKU_UINT8, 0, 0, NULL) == 0);
    CHECK(hikyaku_read_begin(kept, 0, HIKYAKU_WAIT, &seen, NULL) == 0);
    CHECK(hikyaku_shared_mark(kept, 0, &mark) == 0 && mark.what == HIKYAKU_TORN);
    CHECK(mark.victim == 0 && *(const int32_t *)seen == 17);
    CHECK(hikyaku_end(kept, 0) == 0);
    FAILS(hikyaku_write_begin(fixed, 0, HIKYAKU_WAIT, &data, NULL), HIKYAKU_E_PEER,
          "`fixed` is lost: rank 0");
    FAILS(hikyaku_recv(&nothing, 1, HIKYAKU_UINT8, 0, 0, NULL), HIKYAKU_E_PEER, "rank 0");
    printf("rank %d goes on\n", hikyaku_rank());
    CHECK(hikyaku_finalize() == 0);
    return 0;
}
