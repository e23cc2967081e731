/* Numbers of Fortran, which C programs pass on, and statuses (MPI 5.0 §19.3.4, §19.3.5). */
#include "../check.h"

#define SAME(kind, object) CHECK(MPI_##kind##_f2c(MPI_##kind##_c2f(object)) == (object))

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm comm;
    MPI_Datatype type;
    MPI_Request request;
    MPI_Status status, other;
    MPI_Fint numbers[sizeof status / sizeof(MPI_Fint)];
    int value, count, sum = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Type_contiguous(3, MPI_INT, &type);
    MPI_Irecv(&value, 1, MPI_INT, left(), 5, comm, &request);
    SAME(Comm, comm);
    SAME(Comm, MPI_COMM_WORLD);
    SAME(Comm, MPI_COMM_NULL);
    SAME(Type, type);
    SAME(Type, MPI_DOUBLE);
    SAME(Request, request);
    SAME(Op, MPI_SUM);
    SAME(Group, MPI_GROUP_EMPTY);
    SAME(Errhandler, MPI_ERRORS_RETURN);
    SAME(Info, MPI_INFO_NULL);
    SAME(Message, MPI_MESSAGE_NO_PROC);
    SAME(File, MPI_FILE_NULL);
    SAME(Win, MPI_WIN_NULL);
    MPI_Allreduce(&rank, &sum, 1, MPI_Type_f2c(MPI_Type_c2f(MPI_INT)), MPI_Op_f2c(MPI_Op_c2f(MPI_SUM)),
                  MPI_Comm_f2c(MPI_Comm_c2f(comm)));
    EQUAL(sum, size * (size - 1) / 2);
    MPI_Send(&rank, 1, MPI_INT, right(), 5, comm);
    MPI_Wait(&request, &status);
    EQUAL(MPI_Status_c2f(&status, numbers), MPI_SUCCESS);
    EQUAL(MPI_Status_f2c(numbers, &other), MPI_SUCCESS);
    EQUAL(other.MPI_SOURCE, left());
    EQUAL(other.MPI_TAG, 5);
    MPI_Get_count(&other, MPI_INT, &count);
    EQUAL(count, 1);
    MPI_Type_free(&type);
    MPI_Comm_free(&comm);
    return end();
}
