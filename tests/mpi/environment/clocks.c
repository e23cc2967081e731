/* MPI_Wtime and MPI_WTIME_IS_GLOBAL (MPI 5.0 §9.1.2): clocks that are said to be one never show a
 * message that arrives before it was sent. */
#include "../check.h"

/* A time goes to a rank and another one back. */
static void to_and_fro(int other) {
    double sent, heard;
    if (rank == 0) {
        sent = MPI_Wtime();
        MPI_Send(&sent, 1, MPI_DOUBLE, other, 0, MPI_COMM_WORLD);
        MPI_Recv(&heard, 1, MPI_DOUBLE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(&heard, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sent = MPI_Wtime();
        MPI_Send(&sent, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD);
    }
    CHECK(MPI_Wtime() >= heard && (rank > 0 || heard >= sent));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int *global, flag, all, beside;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &global, &flag);
    CHECK(flag);
    MPI_Allreduce(global, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    EQUAL(*global, all);
    MPI_Comm host;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &beside);
    if (is_hikyaku() && beside == size) EQUAL(*global, 1);
    MPI_Comm_free(&host);
    for (int other = 1; *global && other < size; other++)
        if (rank == 0 || rank == other) to_and_fro(other);
    return end();
}
