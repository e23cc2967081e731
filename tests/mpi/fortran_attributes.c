/* What MPICH's Fortran library calls for MPI_Comm_get_attr: predefined attributes are numbers there,
 * and their keys are one more than C's. Only by MPICH's binary interface, so it is opened. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORLD = 0x44000000, SELF = 0x44000001, TAG_UB = 0x64400001, UNIVERSE_SIZE = 0x64400009,
       APPNUM = 0x6440000d, AINT = 1 };

#define CHECK(condition) \
    ((condition) ? (void)0 : (printf("line %d: %s\n", __LINE__, #condition), exit(9)))

static void find(void *library, const char *name, void *into) {
    void *found = dlsym(library, name);
    CHECK(found != NULL);
    memcpy(into, &found, sizeof found);
}

int main(void) {
    int (*init)(int *, char ***), (*finalize)(void), (*size_of)(int, int *);
    int (*get)(int, int, void *, int *), (*get_value)(int, int, void *, int *, int);
    int size, flag;
    int *address;
    intptr_t value;
    void *library = dlopen("libmpi.so.12", RTLD_NOW | RTLD_LOCAL);
    CHECK(library != NULL);
    find(library, "MPI_Init", &init);
    find(library, "MPI_Finalize", &finalize);
    find(library, "MPI_Comm_size", &size_of);
    find(library, "MPI_Comm_get_attr", &get);
    find(library, "MPII_Comm_get_attr", &get_value);
    CHECK(init(NULL, NULL) == 0);
    CHECK(size_of(WORLD, &size) == 0);
    const int keys[] = {TAG_UB, UNIVERSE_SIZE, APPNUM};
    for (int at = 0; at < 3; at++)
        for (int fortran = 0; fortran < 2; fortran++) {
            CHECK(get(WORLD, keys[at], &address, &flag) == 0);
            CHECK(flag);
            value = -77;
            CHECK(get_value(WORLD, keys[at] + fortran, &value, &flag, AINT) == 0);
            CHECK(flag);
            CHECK(value == *address);
        }
    CHECK(get_value(WORLD, UNIVERSE_SIZE + 1, &value, &flag, AINT) == 0 && value >= size);
    return finalize();
}
