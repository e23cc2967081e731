/* Beginning, end and what the library says of itself (MPI 5.0 chapters 9 and 11). */
#include "../check.h"

static int ended;

/* Runs in MPI_Finalize, when MPI still works. */
static int at_end(MPI_Comm comm, int key, void *value, void *extra) {
    int flag;
    (void)comm, (void)key, (void)value, (void)extra;
    MPI_Finalized(&flag);
    EQUAL(flag, 0);
    ended++;
    return MPI_SUCCESS;
}

int main(int argc, char **argv) {
    int flag, provided, again, major, minor, length, key;
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Initialized(&flag);
    EQUAL(flag, 0);
    MPI_Finalized(&flag);
    EQUAL(flag, 0);
    MPI_Get_version(&major, &minor);
    CHECK(major >= 5 || (major == 4 && minor >= 1));
    MPI_Get_library_version(text, &length);
    CHECK(length > 0 && (size_t)length == strlen(text));
    MPI_Abi_get_version(&major, &minor);
#ifdef MPI_ABI_VERSION
    EQUAL(major, MPI_ABI_VERSION);
#else
    /* A library of another binary interface than the standard's (MPI 5.0 §20.2). */
    CHECK(major == -1 && minor == -1);
#endif
    /* Before MPI begins there may be errors and info objects already. */
    MPI_Info info;
    MPI_Info_create(&info);
    char value[8];
    MPI_Info_set(info, "a", "b\xe9");
    length = sizeof value;
    MPI_Info_get_string(info, "a", &length, value, &flag);
    CHECK(flag && length == 3 && strcmp(value, "b\xe9") == 0);
    MPI_Info_free(&info);
    /* How many ranks there are to be is known then. */
    char most[16] = "";
    length = sizeof most;
    MPI_Info_create_env(argc, argv, &info);
    MPI_Info_get_string(info, "maxprocs", &length, most, &flag);
    CHECK(flag || !is_hikyaku());
    int is_told = flag;
    MPI_Info_free(&info);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    CHECK(provided >= MPI_THREAD_FUNNELED);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (is_told) EQUAL(atoi(most), size);
    CHECK(argc == 1 || argc == 2);
    MPI_Initialized(&flag);
    EQUAL(flag, 1);
    MPI_Query_thread(&again);
    EQUAL(again, provided);
    MPI_Is_thread_main(&flag);
    EQUAL(flag, 1);
    MPI_Get_processor_name(text, &length);
    CHECK(length > 0 && length < MPI_MAX_PROCESSOR_NAME);
    double before = MPI_Wtime();
    CHECK(MPI_Wtick() > 0 && MPI_Wtick() < 1);
    while (MPI_Wtime() == before) continue;
    CHECK(MPI_Wtime() > before);
    void *memory;
    MPI_Alloc_mem(100, MPI_INFO_NULL, &memory);
    memset(memory, 1, 100);
    MPI_Free_mem(memory);
    EQUAL(MPI_Pcontrol(1), MPI_SUCCESS);
    CHECK(MPI_Aint_diff(MPI_Aint_add(100, 28), 100) == 28);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_end, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    MPI_Finalize();
    EQUAL(ended, 1);
    MPI_Finalized(&flag);
    EQUAL(flag, 1);
    MPI_Initialized(&flag);
    EQUAL(flag, 1);
    MPI_Get_version(&major, &minor);
    return 0;
}
