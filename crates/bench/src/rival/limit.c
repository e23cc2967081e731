/*
 * What the hardware gives: two processes that do nothing but move a message, one way or both ways
 * at once, beside `hikyaku bench latency` and `bidirectional`.
 *
 *   limit SOCKET
 *
 * Commands are one-WAY and two-WAY, where WAY is
 *
 *   ring          through a shared ring of packets of 8 KiB, a copy by each end; up to 56 bytes
 *                 move in the line of the packet's flag
 *   kernel        the receiver reads the sender's ordinary memory by process_vm_readv
 *   both          the same for one half, while the sender writes the other by process_vm_writev
 *   shared        the receiver copies out of memory that both map
 *   shared-both   the same, one half by each end
 *
 * Every byte of a message each way is checked before the time, and of the last one after it.
 */
#include "pair.h"

#include <gnu/libc-version.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/uio.h>

enum { BYTES_LIMIT = 64 << 20, PAGE = 4096, PACKET = 8192, PACKETS = 16, IN_FLAG = 56 };

/* A message to send and one to receive, apart. */
enum { ROOM = 2 * BYTES_LIMIT + 2 * PAGE };

/* A counter that one process writes. Pairs of lines are fetched together, hence 128 bytes. */
struct flag {
    _Alignas(128) _Atomic unsigned long long count;
    char bytes[IN_FLAG];
};

/* The ring of one direction. A flag counts the packets up to the one that it is of. */
struct ring {
    struct flag taken;
    struct flag flags[PACKETS];
    _Alignas(PAGE) char packets[PACKETS][PACKET];
};

/* What both processes map. */
struct pair {
    struct flag step[2];
    pid_t pids[2];
    int refused[2]; /* why a process cannot copy from or to the other: an errno */
    struct ring rings[2]; /* by sender */
    _Alignas(PAGE) char rooms[2][ROOM];
};

static struct pair *pair;
static char *ordinary; /* at the same address in both processes */

enum way { RING, KERNEL, BOTH, SHARED, SHARED_BOTH, WAYS };
static const char *const names[] = {"ring", "kernel", "both", "shared", "shared-both"};

/* Of the command. What is `set` here is at `set + distance` in the memory of the other. */
static char *set[2];
static ptrdiff_t distance;
static enum way way;
static int from, two_ways;
static size_t bytes;

/* Of all commands. */
static unsigned long long steps, put, taken, got;
static unsigned char seed;

static void *map(size_t size, int flags) {
    flags |= MAP_ANONYMOUS | MAP_NORESERVE;
    void *place = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (place == MAP_FAILED) fail("mmap");
    return place;
}

/* ---- Moving a message ------------------------------------------------------------------------ */

static unsigned long long count(struct flag *flag) {
    return atomic_load_explicit(&flag->count, memory_order_acquire);
}

static void set_to(struct flag *flag, unsigned long long to) {
    atomic_store_explicit(&flag->count, to, memory_order_release);
}

/* Between two polls. Where both processes have one core, the other gets it. */
static void relax(void) {
    static unsigned polls;
    __builtin_ia32_pause();
    if (++polls % 4096 == 0) sched_yield();
}

static void wait_for(struct flag *flag, unsigned long long least) {
    while (count(flag) < least) relax();
}

static void meet(void) {
    set_to(&pair->step[rank], ++steps);
    wait_for(&pair->step[1 - rank], steps);
}

/* Packet by packet, each as it can go. A message of no bytes is one packet too. */
static void move_by_ring(const char *source, char *target, int sends, int receives) {
    struct ring *out = &pair->rings[rank], *in = &pair->rings[1 - rank];
    size_t end = bytes ? bytes : 1, sent = sends ? 0 : end, received = receives ? 0 : end;
    while (sent < end || received < end) {
        struct flag *to = &out->flags[put % PACKETS], *of = &in->flags[got % PACKETS];
        int room = put - taken < PACKETS || put - (taken = count(&out->taken)) < PACKETS;
        int moved = 0;
        if (sent < end && room) {
            size_t some = bytes - sent < PACKET ? bytes - sent : PACKET;
            char *place = some > IN_FLAG ? out->packets[put % PACKETS] : to->bytes;
            memcpy(place, source + sent, some);
            set_to(to, ++put);
            sent += PACKET;
            moved = 1;
        }
        if (received < end && count(of) > got) {
            size_t some = bytes - received < PACKET ? bytes - received : PACKET;
            const char *place = some > IN_FLAG ? in->packets[got % PACKETS] : of->bytes;
            memcpy(target + received, place, some);
            set_to(&in->taken, ++got);
            received += PACKET;
            moved = 1;
        }
        if (!moved) relax();
    }
}

static int by_kernel(void) { return way == KERNEL || way == BOTH; }
static int by_both_ends(void) { return way == BOTH || way == SHARED_BOTH; }

/* From the other's memory, or to it: an errno. */
static int copy(char *here, char *there, size_t some, int to_there) {
    struct iovec local = {here, some}, remote = {there, some};
    pid_t pid = pair->pids[1 - rank];
    if (!by_kernel()) {
        memcpy(to_there ? there : here, to_there ? here : there, some);
        return 0;
    }
    ssize_t done = to_there ? process_vm_writev(pid, &local, 1, &remote, 1, 0)
                            : process_vm_readv(pid, &local, 1, &remote, 1, 0);
    return done == (ssize_t)some ? 0 : done < 0 ? errno : EFAULT;
}

/* A step says that this end's buffers are ready, the next one that it has copied. An end that
   only lends its buffer takes both at once. */
static void move_by_copies(char *source, char *target, int sends, int receives) {
    struct flag *own = &pair->step[rank], *others = &pair->step[1 - rank];
    int copies = receives || by_both_ends();
    size_t first = by_both_ends() ? bytes / 2 / 64 * 64 : bytes;
    if (sends || by_both_ends()) set_to(own, steps + (copies ? 1 : 2));
    if (copies) {
        wait_for(others, steps + 1);
        if (receives && (errno = copy(target, source + distance, first, 0))) fail("a copy");
        if (sends && first < bytes &&
            (errno = copy(source + first, target + distance + first, bytes - first, 1)))
            fail("a copy");
        set_to(own, steps + 2);
    }
    wait_for(others, steps += 2);
}

static void move(char *source, char *target, int sends, int receives) {
    if (way == RING) move_by_ring(source, target, sends, receives);
    else move_by_copies(source, target, sends, receives);
}

/* ---- What is in it --------------------------------------------------------------------------- */

static char byte_of(int sender, size_t at) {
    return (char)(at + 7 * (at / 251) + 101 * (unsigned)sender + seed);
}

/* With `wrong`, no byte is right. */
static void fill(char *message, int sender, int wrong) {
    for (size_t i = 0; i < bytes; i++) message[i] = (char)(byte_of(sender, i) + wrong);
}

static void check(const char *message, int sender) {
    for (size_t i = 0; i < bytes; i++) {
        if (message[i] == byte_of(sender, i)) continue;
        fprintf(stderr, "limit: byte %zu of %zu by %s is wrong\n", i, bytes, names[way]);
        exit(1);
    }
}

/* A message each way, from where and to where the measured ones go. */
static void move_and_check(void) {
    seed++;
    for (int sender = 0; sender < 2; sender++) {
        int sends = two_ways || rank == sender, receives = two_ways || rank != sender;
        if (receives) fill(set[1], 1 - rank, 1);
        if (sends) fill(set[0], rank, 0);
        move(set[0], set[1], sends, receives);
        if (receives) check(set[1], 1 - rank);
    }
}

/* ---- The pair -------------------------------------------------------------------------------- */

static void begin(void) {
    pair->pids[rank] = getpid();
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
}

/* Whether the kernel lets both ends do what the way does, tried on bytes of no message. */
static const char *refusal_of_kernel(void) {
    static char reason[128];
    char *spare = ordinary + ROOM - PAGE;
    int error = copy(spare, spare, 8, 0);
    if (!error && way == BOTH) error = copy(spare, spare, 8, 1);
    pair->refused[rank] = error;
    meet();
    error = pair->refused[0] ? pair->refused[0] : pair->refused[1];
    meet();
    snprintf(reason, sizeof reason, "the kernel refuses copies between processes: %s",
             strerror(error));
    return error ? reason : NULL;
}

static const char *prepare(const struct command *c) {
    two_ways = !strncmp(c->verb, "two-", 4);
    if (!two_ways && strncmp(c->verb, "one-", 4)) return "an unknown command";
    for (way = RING; way < WAYS && strcmp(c->verb + 4, names[way]); way++) continue;
    if (way == WAYS) return "an unknown command";
    if (c->bytes > BYTES_LIMIT) return "the command asks for more than 64 MiB";
    const char *refused = by_kernel() ? refusal_of_kernel() : NULL;
    if (refused) return refused;
    bytes = c->bytes;
    from = 0;
    set[0] = way == SHARED || way == SHARED_BOTH ? pair->rooms[rank] : ordinary;
    distance = set[0] == ordinary ? 0 : pair->rooms[1 - rank] - pair->rooms[rank];
    /* Fresh one way is answered from where it was received. What is apart is also apart in the low
       bits of its address, by which processors guess whether a load needs a store. */
    size_t apart = (bytes + PAGE - 1) / PAGE * PAGE + PAGE / 2;
    set[1] = set[0] + (c->warm || two_ways ? apart : 0);
    move_and_check();
    if (set[1] != set[0]) fill(set[1], 1 - rank, 1);
    meet();
    return NULL;
}

static void repeat(const struct command *c) {
    if (two_ways) {
        move(set[from], set[1 - from], 1, 1);
        if (!c->warm) from = 1 - from;
    } else {
        move(set[0], set[1], rank == 0, rank == 1);
        move(set[0], set[1], rank == 1, rank == 0);
    }
}

/* In place both have what rank 1 sent last. */
static void finish(const struct command *c) {
    if (c->batches && c->repetitions) check(set[1], set[1] == set[0] ? 1 : 1 - rank);
}

int main(int given, char **words) {
    if (given != 2) {
        fprintf(stderr, "usage: limit SOCKET\n");
        return 2;
    }
    pair = map(sizeof *pair, MAP_SHARED);
    ordinary = map(ROOM, MAP_PRIVATE);
    snprintf(library, sizeof library, "C with glibc %s", gnu_get_libc_version());
    return run_pair(words[1]);
}
