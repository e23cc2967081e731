/* A work queue without a server: the number of the next piece of work is in a shared variable, and a
 * rank takes it under the variable's lock. Each rank stores its results in its own part of another
 * variable.
 *
 *     cc work_queue.c -o work_queue -lhikyaku_c
 *     hikyaku run -n 4 -- ./work_queue
 */

#include <hikyaku.h>

#include <stdio.h>
#include <stdlib.h>

enum { PIECES = 400 };

/* Says what went wrong and ends the rank, and with it the job. */
static void check(int code)
{
    if (code < 0) {
        fprintf(stderr, "work_queue: %s\n", hikyaku_error());
        exit(EXIT_FAILURE);
    }
}

/* The number of steps to 1: work of unknown length. */
static uint64_t collatz(uint64_t number)
{
    uint64_t steps = 0;
    for (; number != 1; steps++)
        number = number % 2 == 0 ? number / 2 : 3 * number + 1;
    return steps;
}

/* Takes the next piece; PIECES or more when none is left. */
static uint64_t draw(hikyaku_shared queue)
{
    void *data;
    check(hikyaku_write_begin(queue, 0, HIKYAKU_WAIT, &data, NULL));
    uint64_t piece = (*(uint64_t *)data)++;
    check(hikyaku_end(queue, 0));
    return piece;
}

int main(void)
{
    check(hikyaku_init());
    int rank = hikyaku_rank(), size = hikyaku_size();

    hikyaku_shared queue, results;
    const uint64_t one = 1, shape[2] = {(uint64_t)size, PIECES};
    const hikyaku_options rows = {1, 0, 0};
    check(hikyaku_shared_create("queue", HIKYAKU_UINT64, 1, &one, NULL, &queue));
    check(hikyaku_shared_create("results", HIKYAKU_UINT64, 2, shape, &rows, &results));

    void *mine;
    check(hikyaku_write_begin(results, (uint64_t)rank, HIKYAKU_WAIT, &mine, NULL));
    for (uint64_t piece; (piece = draw(queue)) < PIECES;)
        ((uint64_t *)mine)[piece] = collatz(piece + 1);
    check(hikyaku_end(results, (uint64_t)rank));

    /* A rank with pieces holds its part until none is left: reading waits for that. */
    if (rank == 0) {
        uint64_t steps[PIECES] = {0}, longest = 0;
        for (int other = 0; other < size; other++) {
            const void *part;
            check(hikyaku_read_begin(results, (uint64_t)other, HIKYAKU_WAIT, &part, NULL));
            for (int piece = 0; piece < PIECES; piece++)
                steps[piece] += ((const uint64_t *)part)[piece];
            check(hikyaku_end(results, (uint64_t)other));
        }
        for (int piece = 0; piece < PIECES; piece++) {
            if (steps[piece] != collatz((uint64_t)piece + 1)) {
                fprintf(stderr, "work_queue: piece %d is wrong\n", piece);
                return EXIT_FAILURE;
            }
            longest = steps[piece] > longest ? steps[piece] : longest;
        }
        printf("%d pieces, longest %d steps, by %d ranks\n", PIECES, (int)longest, size);
    }
    check(hikyaku_finalize());
    return 0;
}
