/* hikyaku run --shared-heap: where allocations are, what they keep, and forks. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB 1024u
#define MIB (1024u * KIB)

#define CHECK(what)                                                             \
    do {                                                                        \
        if (!(what)) {                                                          \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
            _exit(1);                                                           \
        }                                                                       \
    } while (0)

/* Whether an address is in the job's memory, by what the system says of it. */
static int is_shared(const void *address) {
    char line[512];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps);
    while (fgets(line, sizeof line, maps)) {
        uintptr_t from, to;
        if (sscanf(line, "%lx-%lx", &from, &to) == 2 && (uintptr_t)address >= from
            && (uintptr_t)address < to) {
            found = strstr(line, "/memfd:hikyaku") != NULL;
        }
    }
    fclose(maps);
    return found;
}

static int all(const unsigned char *bytes, size_t count, unsigned char value) {
    for (size_t at = 0; at < count; at++) {
        if (bytes[at] != value) return 0;
    }
    return 1;
}

static void allocations(void) {
    errno = 77;
    unsigned char *small = malloc(64 * KIB - 1), *large = malloc(64 * KIB);
    CHECK(!is_shared(small) && is_shared(large) && errno == 77);
    CHECK(malloc_usable_size(large) >= 64 * KIB && malloc_usable_size(small) >= 64 * KIB - 1);
    memset(large, 9, 64 * KIB);
    free(large);
    /* The one that was freed comes again, and is not zero. */
    unsigned char *zeros = calloc(16, 4 * KIB);
    CHECK(is_shared(zeros) && all(zeros, 64 * KIB, 0));
    memset(small, 3, 64 * KIB - 1);
    small = realloc(small, MIB);
    CHECK(is_shared(small) && all(small, 64 * KIB - 1, 3));
    memset(small, 4, MIB);
    small = reallocarray(small, 3, MIB);
    CHECK(is_shared(small) && all(small, MIB, 4));
    small = realloc(small, 100);
    CHECK(!is_shared(small) && all(small, 100, 4));
    free(small);
    CHECK(realloc(malloc(MIB), 0) == NULL);
    free(zeros);
    volatile size_t half = SIZE_MAX / 2, four = 4;
    CHECK(malloc(half) == NULL && errno == ENOMEM);
    CHECK(reallocarray(NULL, half, four) == NULL && calloc(half, four) == NULL);
    for (size_t alignment = sizeof(void *); alignment <= 64 * KIB; alignment *= 2) {
        void *aligned = NULL;
        CHECK(posix_memalign(&aligned, alignment, 128 * KIB) == 0);
        CHECK((uintptr_t)aligned % alignment == 0 && is_shared(aligned) == (alignment <= 4096));
        free(aligned);
        aligned = aligned_alloc(alignment, 128 * KIB);
        CHECK((uintptr_t)aligned % alignment == 0);
        free(aligned);
    }
    void *none = NULL;
    CHECK(posix_memalign(&none, 24, 8) == EINVAL && none == NULL);
    /* More than the machine has is the C library's to refuse or to promise. */
    void *vast = malloc((size_t)1 << 40);
    CHECK(!vast || !is_shared(vast));
    free(vast);
    /* The C library allocates by the same functions. */
    char *line = NULL;
    size_t room = 0;
    FILE *text = tmpfile();
    for (unsigned at = 0; at < 2 * MIB; at++) fputc('x', text);
    rewind(text);
    CHECK(getline(&line, &room, text) == 2 * MIB && is_shared(line));
    fclose(text);
    free(line);
}

/* Pages cannot be remapped, and advice on them changes no contents. Other mappings can. */
static void pages(void) {
    unsigned char *data = malloc(4 * MIB), *next = malloc(4 * MIB);
    memset(data, 5, 4 * MIB);
    memset(next, 6, 4 * MIB);
    errno = 0;
    CHECK(mremap(data, 4 * MIB, 8 * MIB, MREMAP_MAYMOVE) == MAP_FAILED && errno == EINVAL);
    CHECK(mremap(data, 4 * MIB, MIB, 0) == MAP_FAILED);
    const int advice[] = {MADV_HUGEPAGE, MADV_WILLNEED, MADV_DONTNEED, MADV_NOHUGEPAGE};
    for (int at = 0; at < 4; at++) {
        /* A kernel without huge pages refuses advice about them. */
        CHECK(madvise(data, 4 * MIB, advice[at]) == 0 || errno == EINVAL);
        CHECK(all(data, 4 * MIB, 5) && all(next, 4 * MIB, 6));
    }
    free(data);
    free(next);
    unsigned char *own = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(own != MAP_FAILED);
    memset(own, 7, MIB);
    own = mremap(own, MIB, 64 * MIB, MREMAP_MAYMOVE);
    CHECK(own != MAP_FAILED && all(own, MIB, 7) && own[64 * MIB - 1] == 0);
    CHECK(munmap(own, 64 * MIB) == 0);
}

/* A child writes into its own copy, however long the chain, and the parent into its. */
static void forks(void) {
    unsigned char *data = malloc(3 * MIB);
    memset(data, 1, 3 * MIB);
    int to_child[2];
    CHECK(pipe(to_child) == 0 && is_shared(data));
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char go;
        CHECK(read(to_child[0], &go, 1) == 1);
        CHECK(!is_shared(data) && all(data, 3 * MIB, 1));
        memset(data, 2, 3 * MIB);
        pid_t grandchild = fork();
        if (grandchild == 0) {
            CHECK(all(data, 3 * MIB, 2));
            memset(data, 3, 3 * MIB);
            _exit(0);
        }
        int status;
        CHECK(waitpid(grandchild, &status, 0) == grandchild && status == 0);
        CHECK(all(data, 3 * MIB, 2));
        unsigned char *own = malloc(MIB);
        CHECK(own && !is_shared(own));
        free(own);
        data = realloc(data, 9 * MIB);
        CHECK(!is_shared(data) && all(data, 3 * MIB, 2));
        free(data);
        _exit(0);
    }
    memset(data, 4, 3 * MIB);
    CHECK(write(to_child[1], "", 1) == 1);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(all(data, 3 * MIB, 4) && is_shared(data));
    CHECK(system("exit 7") == 7 << 8);
    free(data);
}

static void *churn(void *seed) {
    unsigned state = (unsigned)(uintptr_t)seed;
    unsigned char *held[8] = {0};
    size_t sizes[8] = {0};
    for (int round = 0; round < 400; round++) {
        state = state * 1103515245u + 12345u;
        int at = state >> 16 & 7;
        unsigned char mark = (unsigned char)((uintptr_t)seed * 16 + at);
        CHECK(!held[at] || all(held[at], sizes[at], mark));
        free(held[at]);
        sizes[at] = 32 * KIB + (state >> 20) % (256 * KIB);
        held[at] = malloc(sizes[at]);
        memset(held[at], mark, sizes[at]);
    }
    for (int at = 0; at < 8; at++) free(held[at]);
    return NULL;
}

static void threads(void) {
    pthread_t all_of[4];
    for (uintptr_t at = 0; at < 4; at++) pthread_create(&all_of[at], NULL, churn, (void *)(at + 1));
    /* Forks while others allocate: the child can allocate too. */
    for (int at = 0; at < 5; at++) {
        pid_t child = fork();
        if (child == 0) {
            free(malloc(MIB));
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    for (int at = 0; at < 4; at++) pthread_join(all_of[at], NULL);
}

static void messages(int rank, int size) {
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    for (size_t length = 64 * KIB; length <= 8 * MIB; length *= 2) {
        unsigned char *out = malloc(length), *in = malloc(length);
        CHECK(is_shared(out) && is_shared(in));
        for (int round = 0; round < 20; round++) {
            memset(out, rank + round + 1, length);
            memset(in, 0, length);
            MPI_Sendrecv(out, (int)length, MPI_BYTE, next, 0, in, (int)length, MPI_BYTE, previous, 0,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK(all(in, length, (unsigned char)(previous + round + 1)));
        }
        free(out);
        free(in);
    }
}

int main(int argc, char **argv) {
    void *before = malloc(MIB);
    CHECK(!is_shared(before));
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1) {
        /* Freed twice: one line, and the end. */
        void *buffer = malloc(MIB), *volatile again = buffer;
        free(buffer);
        free(again);
        return 0;
    }
    before = realloc(before, 2 * MIB);
    CHECK(!is_shared(before));
    free(before);
    allocations();
    pages();
    forks();
    threads();
    messages(rank, size);
    void *after = malloc(MIB);
    CHECK(is_shared(after));
    MPI_Finalize();
    memset(after, 1, MIB);
    free(after);
    return 0;
}
