/* What the test programs have in common: a check that says where it failed and ends the rank. */

#ifndef CHECK_H
#define CHECK_H

#include <hikyaku.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The text is read before another call takes its place. */
#define CHECK(what)                                                                       \
    do {                                                                                  \
        if (!(what)) {                                                                    \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #what, hikyaku_error()); \
            fprintf(stderr, "rank %d\n", hikyaku_rank());                                 \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

/* That a call fails with a code, in one line that holds some words. */
#define FAILS(call, code, words)                                                          \
    do {                                                                                  \
        CHECK((call) == (code));                                                          \
        CHECK(strstr(hikyaku_error(), words) != NULL);                                    \
        CHECK(strchr(hikyaku_error(), '\n') == NULL);                                     \
    } while (0)

#endif
