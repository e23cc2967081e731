/* Every collective operation, and a digest of what came of it: the words are operations and lengths,
 * each a list with commas, as tests/jobs/bits.txt has them. Values and digests are those of
 * tests/jobs/src/bits.rs. */

#include "check.h"

#include <inttypes.h>
#include <math.h>

static uint64_t mix(uint64_t word)
{
    word = (word ^ (word >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    word = (word ^ (word >> 27)) * UINT64_C(0x94d049bb133111eb);
    return word ^ (word >> 31);
}

/* The word of a place of this rank. */
static uint64_t word_of(size_t place)
{
    return (((uint64_t)hikyaku_rank() << 40) + place + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

static void set_values(double *values, size_t length)
{
    for (size_t place = 0; place < length; place++) {
        uint64_t word = mix(word_of(place));
        double mantissa = (double)((int64_t)(word >> 11) - (INT64_C(1) << 52));
        values[place] = ldexp(mantissa, (int)(word & 63) - 32);
    }
}

static uint64_t digest_of(const double *result, size_t length)
{
    uint64_t digest = 0;
    for (size_t place = 0; place < length; place++) {
        uint64_t bits;
        memcpy(&bits, &result[place], sizeof bits);
        digest += mix(bits ^ word_of(place));
    }
    return digest;
}

/* Calls an operation, in place; the elements of its result. */
static size_t call(const char *operation, double *data, size_t length)
{
    if (strcmp(operation, "barrier") == 0) {
        CHECK(hikyaku_barrier() == 0);
        return 0;
    }
    if (strcmp(operation, "broadcast") == 0) {
        CHECK(hikyaku_broadcast(data, length, HIKYAKU_DOUBLE, hikyaku_size() - 1) == 0);
        return length;
    }
    CHECK(strcmp(operation, "allreduce") == 0);
    CHECK(hikyaku_allreduce(data, length, HIKYAKU_DOUBLE, HIKYAKU_SUM) == 0);
    return length;
}

int main(int argc, char **argv)
{
    CHECK(hikyaku_init() == 0);
    CHECK(argc == 3);
    char *rest = argv[1], *operation;
    while ((operation = strtok_r(rest, ",", &rest)) != NULL) {
        const char *next = argv[2];
        while (*next != '\0') {
            char *end;
            size_t length = strtoul(next, &end, 10);
            double *data = (double *)malloc(length * sizeof *data);
            CHECK(data != NULL);
            set_values(data, length);
            uint64_t digest = digest_of(data, call(operation, data, length));
            printf("c %s %zu %016" PRIx64 "\n", operation, length, digest);
            free(data);
            next = *end == ',' ? end + 1 : end;
        }
    }
    CHECK(hikyaku_finalize() == 0);
    return 0;
}
