/* What the test programs have in common: a check that says where it failed and ends the rank. */

#ifndef CHECK_H
#define CHECK_H

#include <hikyaku.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                                       \
    do {                                                                                  \
        if (!(what)) {                                                                    \
            fprintf(stderr, "%s:%d: rank %d: %s: %s\n", __FILE__, __LINE__, hikyaku_rank(), \
                    #what, hikyaku_error());                                              \
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
