/* Messages between rank 0 and rank 1, in the forms of kinds/latency.rs, kinds/rate.rs and
   kinds/bidirectional.rs. */
#include "peer.h"

static MPI_Request requests[WINDOW_LIMIT];

static unsigned one(const struct command *c) {
    (void)c;
    return 1;
}

static unsigned window(const struct command *c) { return c->window ? c->window : 1; }

/* Rank 0 sends and receives back, rank 1 answers: fresh, from the buffer it has just received into;
   warm, from an untouched one. */
static unsigned long long ping_pong(const struct command *c) {
    unsigned long long start = now_ns();
    int bytes = (int)c->bytes;
    for (unsigned long long i = 0; i < c->repetitions; i++) {
        if (rank == 0) {
            MPI_Send(set[0], bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
            MPI_Recv(set[1], bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            MPI_Recv(set[1], bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(set[0], bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
        }
    }
    return now_ns() - start;
}

/* Who sends the next window: fresh, the one that has received the last one; warm, rank 0. */
static int sender;

static const char *begin_at_rank_0(const struct command *c) {
    (void)c;
    sender = 0;
    return NULL;
}

static char *slots(void) { return set[rank != sender]; }

/* Four bytes back from who received: the window has arrived. */
static void acknowledge(void) {
    int word = 0;
    if (rank > 1) return;
    if (rank == sender)
        MPI_Recv(&word, 4, MPI_BYTE, 1 - rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else MPI_Send(&word, 4, MPI_BYTE, 1 - rank, TAG, MPI_COMM_WORLD);
}

static void end_window(const struct command *c) {
    acknowledge();
    if (!c->warm) sender = 1 - sender;
}

/* A window of blocking sends, acknowledged. */
static unsigned long long blocking_windows(const struct command *c) {
    unsigned long long start = now_ns();
    int bytes = (int)c->bytes, other = 1 - rank;
    for (unsigned long long i = 0; i < c->repetitions; i++) {
        for (unsigned w = 0; w < c->window && rank < 2; w++) {
            char *slot = slots() + w * c->bytes;
            if (rank == sender) MPI_Send(slot, bytes, MPI_BYTE, other, TAG, MPI_COMM_WORLD);
            else MPI_Recv(slot, bytes, MPI_BYTE, other, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        end_window(c);
    }
    return now_ns() - start;
}

/* The same with non-blocking operations, completed together. */
static unsigned long long nonblocking_windows(const struct command *c) {
    unsigned long long start = now_ns();
    int bytes = (int)c->bytes, other = 1 - rank;
    for (unsigned long long i = 0; i < c->repetitions; i++) {
        for (unsigned w = 0; w < c->window && rank < 2; w++) {
            char *slot = slots() + w * c->bytes;
            MPI_Request *request = &requests[w];
            if (rank == sender)
                MPI_Isend(slot, bytes, MPI_BYTE, other, TAG, MPI_COMM_WORLD, request);
            else MPI_Irecv(slot, bytes, MPI_BYTE, other, TAG, MPI_COMM_WORLD, request);
        }
        if (rank < 2) MPI_Waitall((int)c->window, requests, MPI_STATUSES_IGNORE);
        end_window(c);
    }
    return now_ns() - start;
}

/* Each sends to the other at the same time: fresh, what it has received the time before. */
static unsigned long long both_ways(const struct command *c) {
    unsigned long long start = now_ns();
    int bytes = (int)c->bytes, other = 1 - rank;
    for (unsigned long long i = 0; i < c->repetitions && rank < 2; i++) {
        MPI_Irecv(set[1 - from], bytes, MPI_BYTE, other, TAG, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(set[from], bytes, MPI_BYTE, other, TAG, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        take_turns(c);
    }
    return now_ns() - start;
}

const struct measurement messages[] = {
    {"latency", one, IN_PLACE, ping_pong, NULL, NULL},
    {"send", window, IN_PLACE, blocking_windows, begin_at_rank_0, NULL},
    {"isend", window, IN_PLACE, nonblocking_windows, begin_at_rank_0, NULL},
    {"bidirectional", one, IN_TURNS, both_ways, NULL, NULL},
    {0},
};
