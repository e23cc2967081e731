/* Messages between rank 0 and rank 1, in the forms of kinds/latency.rs and kinds/rate.rs. */
#include "peer.h"

static MPI_Request requests[WINDOW_LIMIT];

static unsigned one(const struct command *c) {
    (void)c;
    return 1;
}

static unsigned window(const struct command *c) { return c->window ? c->window : 1; }

/* Rank 0 sends and receives back, rank 1 answers from the buffer it has just received into. */
static unsigned long long ping_pong(const struct command *c) {
    unsigned long long start = now_ns();
    int bytes = (int)c->bytes;
    for (unsigned long long i = 0; i < c->repetitions; i++) {
        if (rank == 0) {
            MPI_Send(buffer, bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
            MPI_Recv(buffer, bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            MPI_Recv(buffer, bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buffer, bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
        }
    }
    return now_ns() - start;
}

/* Four bytes back from rank 1: the window has arrived. */
static void acknowledge(void) {
    int word = 0;
    if (rank == 0) MPI_Recv(&word, 4, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else if (rank == 1) MPI_Send(&word, 4, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
}

/* A window of blocking sends, acknowledged. */
static unsigned long long blocking_windows(const struct command *c) {
    unsigned long long start = now_ns();
    int bytes = (int)c->bytes;
    for (unsigned long long i = 0; i < c->repetitions; i++) {
        for (unsigned w = 0; w < c->window; w++) {
            char *slot = buffer + w * c->bytes;
            if (rank == 0) MPI_Send(slot, bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
            else if (rank == 1)
                MPI_Recv(slot, bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        acknowledge();
    }
    return now_ns() - start;
}

/* The same with non-blocking operations, completed together. */
static unsigned long long nonblocking_windows(const struct command *c) {
    unsigned long long start = now_ns();
    int bytes = (int)c->bytes;
    for (unsigned long long i = 0; i < c->repetitions; i++) {
        for (unsigned w = 0; w < c->window && rank < 2; w++) {
            char *slot = buffer + w * c->bytes;
            if (rank == 0) MPI_Isend(slot, bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &requests[w]);
            else MPI_Irecv(slot, bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &requests[w]);
        }
        if (rank < 2) MPI_Waitall((int)c->window, requests, MPI_STATUSES_IGNORE);
        acknowledge();
    }
    return now_ns() - start;
}

const struct measurement messages[] = {
    {"latency", one, ping_pong, NULL, NULL},
    {"send", window, blocking_windows, NULL, NULL},
    {"isend", window, nonblocking_windows, NULL, NULL},
    {0},
};
