/* One rank by two libraries: MPI's, which this program is linked with, and libhikyaku_c.so, which it
 * opens. Arguments: its path, and who comes first. Only for our own library. */
#define _POSIX_C_SOURCE 200809L

#include <dlfcn.h>
#include <hikyaku.h>

#include "check.h"

/* The functions of the other library, which are not those that MPI's has by the same names. */
static struct {
    int (*init)(void), (*finalize)(void), (*rank)(void), (*size)(void), (*barrier)(void);
    int (*send)(const void *, size_t, int, int, int);
    int (*recv)(void *, size_t, int, int, int, hikyaku_received *);
    int (*create)(const char *, int, size_t, const uint64_t *, const hikyaku_options *,
                  hikyaku_shared *);
    int (*write_begin)(hikyaku_shared, uint64_t, int64_t, void **, size_t *);
    int (*end)(hikyaku_shared, uint64_t);
} c;

static void find(void *library, const char *name, void *into) {
    void *found = dlsym(library, name);
    CHECK(found != NULL);
    memcpy(into, &found, sizeof found);
}

static void open_library(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) printf("%s\n", dlerror());
    CHECK(library != NULL);
    find(library, "hikyaku_init", &c.init);
    find(library, "hikyaku_finalize", &c.finalize);
    find(library, "hikyaku_rank", &c.rank);
    find(library, "hikyaku_size", &c.size);
    find(library, "hikyaku_barrier", &c.barrier);
    find(library, "hikyaku_send", &c.send);
    find(library, "hikyaku_recv", &c.recv);
    find(library, "hikyaku_shared_create", &c.create);
    find(library, "hikyaku_write_begin", &c.write_begin);
    find(library, "hikyaku_end", &c.end);
    CHECK(c.init != hikyaku_init);
}

/* Messages and shared memory by both. */
static void use_both(void) {
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    EQUAL(c.rank(), rank);
    EQUAL(c.size(), size);
    for (int turn = 0; turn < 50; turn++) {
        int64_t mine = rank * 100 + turn, heard = -1;
        MPI_Request request;
        MPI_Irecv(&heard, 1, MPI_INT64_T, left, 1, MPI_COMM_WORLD, &request);
        EQUAL(c.send(&mine, 1, HIKYAKU_INT64, right, 1), 0);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        EQUAL(heard, left * 100 + turn);
        MPI_Isend(&mine, 1, MPI_INT64_T, right, 2, MPI_COMM_WORLD, &request);
        EQUAL(c.recv(&heard, 1, HIKYAKU_INT64, left, 2, NULL), 0);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        EQUAL(heard, left * 100 + turn);
        EQUAL(c.barrier(), 0);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    const uint64_t one = 1;
    hikyaku_shared sum;
    void *data;
    EQUAL(c.create("sum", HIKYAKU_INT64, 1, &one, NULL, &sum), 0);
    for (int turn = 0; turn < 100; turn++) {
        EQUAL(c.write_begin(sum, 0, HIKYAKU_WAIT, &data, NULL), 0);
        *(int64_t *)data += 1;
        EQUAL(c.end(sum, 0), 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    EQUAL(c.write_begin(sum, 0, HIKYAKU_WAIT, &data, NULL), 0);
    EQUAL(*(int64_t *)data, 100 * size);
    EQUAL(c.end(sum, 0), 0);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void begin_mpi(int level) {
    int provided;
    MPI_Init_thread(NULL, NULL, level, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    int level = strcmp(argv[3], "multiple") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
    open_library(argv[1]);
    if (strcmp(argv[2], "mpi") == 0) {
        begin_mpi(level);
        EQUAL(c.init(), 0);
        use_both();
        EQUAL(c.finalize(), 0);
        return end();
    }
    EQUAL(c.init(), 0);
    begin_mpi(level);
    use_both();
    MPI_Finalize();
    EQUAL(c.barrier(), 0);
    EQUAL(c.finalize(), 0);
    return 0;
}
