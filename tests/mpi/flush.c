/* One of two receivers of buffered messages dies: a flush reports it, after the other receiver has its
 * message. The argument selects the call. */
#define _DEFAULT_SOURCE
#include "check.h"
#include <signal.h>
#include <unistd.h>

enum { COUNT = 100000, NUMBERS = 8 };
static int numbers[COUNT];

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(argc == 2 && size == 3);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 0) {
        static char room[16];
        char *back = NULL;
        int bytes = 0, *others[NUMBERS], code;
        MPI_Buffer_attach(room, sizeof room);
        for (int at = 0; at < COUNT; at++) numbers[at] = at;
        MPI_Bsend(numbers, COUNT, MPI_INT, 2, 1, MPI_COMM_WORLD);
        MPI_Bsend(numbers, COUNT, MPI_INT, 1, 1, MPI_COMM_WORLD);
        for (int to = 1; to < 3; to++) MPI_Send(NULL, 0, MPI_INT, to, 2, MPI_COMM_WORLD);
        if (strcmp(argv[1], "flush") == 0) {
            code = MPI_Buffer_flush();
        } else if (strcmp(argv[1], "iflush") == 0) {
            MPI_Request request;
            MPI_Buffer_iflush(&request);
            code = MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else {
            code = MPI_Buffer_detach(&back, &bytes);
            CHECK(back == room);
            EQUAL(bytes, sizeof room);
        }
        CLASS(code, MPI_ERR_PROC_ABORTED);
        /* What was freed too early is written over. */
        for (int at = 0; at < NUMBERS; at++) {
            others[at] = malloc(sizeof numbers);
            memset(others[at], 0x55, sizeof numbers);
        }
        printf("told\n");
        fflush(stdout);
        MPI_Send(others[1], 1, MPI_INT, 1, 3, MPI_COMM_WORLD);
        for (int at = 0; at < NUMBERS; at++) free(others[at]);
    } else {
        int other;
        MPI_Recv(NULL, 0, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 2) raise(SIGKILL);
        /* A flush that is over too early is over by now. */
        usleep(1500000);
        MPI_Recv(numbers, COUNT, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int at = 0; at < COUNT; at++) EQUAL(numbers[at], at);
        MPI_Recv(&other, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("whole\n");
        fflush(stdout);
    }
    return 0;
}
