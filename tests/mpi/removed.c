/* What MPI 3.0 removed does what its successors do. Of hikyaku alone: other libraries of the standard's
 * binary interface do not have it. */
#include "check.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static int handled;

static void handle(MPI_Comm *comm, int *code, ...) {
    (void)comm, (void)code;
    handled++;
}

int main(int argc, char **argv) {
    struct { int number; double value; } pair[2] = {{0, 0}}, got[2] = {{0, 0}};
    int lengths[2] = {1, 1};
    MPI_Aint places[2], extent, lower, upper;
    MPI_Datatype types[2] = {MPI_INT, MPI_DOUBLE}, made;
    MPI_Errhandler handler, set;
    begin(&argc, &argv);

    MPI_Address(&pair[0].number, &places[0]);
    MPI_Address(&pair[0].value, &places[1]);
    places[1] -= places[0], places[0] = 0;
    MPI_Type_struct(2, lengths, places, types, &made);
    MPI_Type_commit(&made);
    MPI_Type_extent(made, &extent);
    MPI_Type_lb(made, &lower);
    MPI_Type_ub(made, &upper);
    EQUAL(extent, sizeof pair[0]);
    EQUAL(lower, 0);
    EQUAL(upper, sizeof pair[0]);
    pair[0].number = rank, pair[1].value = rank + 0.5;
    MPI_Sendrecv(pair, 2, made, right(), 1, got, 2, made, left(), 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    EQUAL(got[0].number, left());
    CHECK(got[1].value == left() + 0.5);
    MPI_Type_free(&made);

    MPI_Type_hvector(2, 1, 12, MPI_INT, &made);
    MPI_Type_extent(made, &extent);
    EQUAL(extent, 16);
    MPI_Type_free(&made);
    places[1] = 20;
    MPI_Type_hindexed(2, lengths, places, MPI_INT, &made);
    MPI_Type_ub(made, &upper);
    EQUAL(upper, 24);
    MPI_Type_free(&made);

    MPI_Errhandler_create(handle, &handler);
    MPI_Errhandler_set(MPI_COMM_WORLD, handler);
    MPI_Errhandler_get(MPI_COMM_WORLD, &set);
    CHECK(set != MPI_ERRHANDLER_NULL);
    MPI_Send(NULL, -1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    EQUAL(handled, 1);
    MPI_Errhandler_free(&handler);
    MPI_Errhandler_free(&set);
    return end();
}
