/* Collectives in their three forms: blocking, in flight, and started again. */

#ifndef FORMS_H
#define FORMS_H

#include "../check.h"

/* Runs a call in one of its forms: the text of its arguments, without the request. */
#define CALL(name, ...)                                                                     \
    do {                                                                                    \
        MPI_Request request_;                                                               \
        if (form == 0) {                                                                    \
            EQUAL(MPI_##name(__VA_ARGS__, comm), MPI_SUCCESS);                              \
        } else if (form == 1) {                                                             \
            EQUAL(MPI_I##name(__VA_ARGS__, comm, &request_), MPI_SUCCESS);                  \
            MPI_Wait(&request_, MPI_STATUS_IGNORE);                                         \
        } else {                                                                            \
            EQUAL(MPI_##name##_init(__VA_ARGS__, comm, MPI_INFO_NULL, &request_), MPI_SUCCESS); \
            MPI_Start(&request_);                                                           \
            MPI_Wait(&request_, MPI_STATUS_IGNORE);                                         \
            MPI_Request_free(&request_);                                                    \
        }                                                                                   \
    } while (0)

/* The names of the forms in flight begin with a small letter after the I. */
#define MPI_IBcast MPI_Ibcast
#define MPI_IGather MPI_Igather
#define MPI_IGatherv MPI_Igatherv
#define MPI_IScatter MPI_Iscatter
#define MPI_IScatterv MPI_Iscatterv
#define MPI_IAllgather MPI_Iallgather
#define MPI_IAllgatherv MPI_Iallgatherv
#define MPI_IAlltoall MPI_Ialltoall
#define MPI_IAlltoallv MPI_Ialltoallv
#define MPI_IAlltoallw MPI_Ialltoallw
#define MPI_IReduce MPI_Ireduce
#define MPI_IAllreduce MPI_Iallreduce
#define MPI_IScan MPI_Iscan
#define MPI_IExscan MPI_Iexscan
#define MPI_IReduce_scatter MPI_Ireduce_scatter
#define MPI_IReduce_scatter_block MPI_Ireduce_scatter_block

static MPI_Comm comm;
static int form;

#endif
