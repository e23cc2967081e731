/* Every constructor of datatypes, sent and received against its elements one by one (MPI 5.0 §5.1). */
#include "../check.h"

enum { CELLS = 240 };

/* Sends cells of a table by a type and receives them as a list, then the other way. `places` are
 * the cells of the type in order; the type repeats after `step` cells. */
static void passes(MPI_Datatype type, int repeats, int count, const int *places, int step) {
    int table[CELLS], list[CELLS], got;
    MPI_Status status;
    MPI_Type_commit(&type);
    for (int at = 0; at < CELLS; at++) table[at] = rank * 1000 + at;
    MPI_Sendrecv(table, repeats, type, right(), 1, list, CELLS, MPI_INT, left(), 1, MPI_COMM_WORLD,
                 &status);
    MPI_Get_count(&status, MPI_INT, &got);
    EQUAL(got, repeats * count);
    for (int at = 0; at < got; at++)
        EQUAL(list[at], left() * 1000 + at / count * step + places[at % count]);
    for (int at = 0; at < CELLS; at++) table[at] = -1, list[at] = rank * 1000 + at;
    MPI_Sendrecv(list, repeats * count, MPI_INT, right(), 2, table, repeats, type, left(), 2,
                 MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, type, &got);
    EQUAL(got, repeats);
    MPI_Get_elements(&status, type, &got);
    EQUAL(got, repeats * count);
    for (int at = 0; at < repeats * count; at++)
        EQUAL(table[at / count * step + places[at % count]], left() * 1000 + at);
    int kept = 0;
    for (int at = 0; at < CELLS; at++) kept += table[at] == -1;
    EQUAL(kept, CELLS - repeats * count);
    int bytes;
    MPI_Type_size(type, &bytes);
    EQUAL(bytes, count * (int)sizeof(int));
    /* A duplicate is as good, and stays when the first is gone. */
    MPI_Datatype twin;
    MPI_Type_dup(type, &twin);
    MPI_Type_free(&type);
    CHECK(type == MPI_DATATYPE_NULL);
    MPI_Sendrecv(table, 1, twin, right(), 3, list, CELLS, MPI_INT, left(), 3, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_INT, &got);
    EQUAL(got, count);
    MPI_Type_free(&twin);
}

static void extents(MPI_Datatype type, MPI_Aint lower, MPI_Aint extent, MPI_Aint true_lower,
                    MPI_Aint true_extent) {
    MPI_Aint one, two;
    MPI_Count large, larger;
    MPI_Type_get_extent(type, &one, &two);
    EQUAL(one, lower);
    EQUAL(two, extent);
    MPI_Type_get_true_extent(type, &one, &two);
    EQUAL(one, true_lower);
    EQUAL(two, true_extent);
    MPI_Type_get_extent_c(type, &large, &larger);
    EQUAL(large, lower);
    EQUAL(larger, extent);
}

static void blocks(void) {
    MPI_Datatype type;
    MPI_Aint int_bytes = sizeof(int);
    MPI_Type_contiguous(5, MPI_INT, &type);
    passes(type, 3, 5, (int[]){0, 1, 2, 3, 4}, 5);
    MPI_Type_vector(3, 2, 5, MPI_INT, &type);
    extents(type, 0, 12 * int_bytes, 0, 12 * int_bytes);
    passes(type, 2, 6, (int[]){0, 1, 5, 6, 10, 11}, 12);
    MPI_Type_create_hvector(4, 1, 3 * int_bytes, MPI_INT, &type);
    passes(type, 4, 4, (int[]){0, 3, 6, 9}, 10);
    MPI_Type_indexed(3, (int[]){2, 0, 3}, (int[]){7, 100, 1}, MPI_INT, &type);
    extents(type, int_bytes, 8 * int_bytes, int_bytes, 8 * int_bytes);
    passes(type, 3, 5, (int[]){7, 8, 1, 2, 3}, 8);
    MPI_Type_create_hindexed(2, (int[]){1, 2}, (MPI_Aint[]){8 * int_bytes, 0}, MPI_INT, &type);
    passes(type, 2, 3, (int[]){8, 0, 1}, 9);
    MPI_Type_create_indexed_block(3, 2, (int[]){0, 6, 3}, MPI_INT, &type);
    passes(type, 2, 6, (int[]){0, 1, 6, 7, 3, 4}, 8);
    MPI_Type_create_hindexed_block(2, 2, (MPI_Aint[]){4 * int_bytes, 0}, MPI_INT, &type);
    passes(type, 5, 4, (int[]){4, 5, 0, 1}, 6);
    MPI_Type_vector_c(2, 1, 4, MPI_INT, &type);
    passes(type, 6, 2, (int[]){0, 4}, 5);
}

static void nested(void) {
    MPI_Datatype inner, outer, parts, type;
    MPI_Aint int_bytes = sizeof(int);
    MPI_Type_vector(2, 1, 3, MPI_INT, &inner);
    MPI_Type_create_resized(inner, 0, 6 * int_bytes, &outer);
    extents(outer, 0, 6 * int_bytes, 0, 4 * int_bytes);
    MPI_Type_create_struct(3, (int[]){1, 2, 1}, (MPI_Aint[]){0, 7 * int_bytes, 20 * int_bytes},
                           (MPI_Datatype[]){MPI_INT, outer, MPI_INT}, &parts);
    /* Bounds that were set inside are those of the whole: libraries do not agree (§5.1.7). */
    MPI_Type_create_resized(parts, 0, 21 * int_bytes, &type);
    MPI_Type_free(&parts);
    MPI_Type_free(&inner);
    MPI_Type_free(&outer);
    passes(type, 2, 6, (int[]){0, 7, 10, 13, 16, 20}, 21);
    /* A lower bound below 0: the marks are those of a resized type. */
    MPI_Type_create_resized(MPI_INT, -2 * int_bytes, 4 * int_bytes, &type);
    extents(type, -2 * int_bytes, 4 * int_bytes, 0, int_bytes);
    passes(type, 7, 1, (int[]){0}, 4);
    /* From the end to the front. */
    int back[4] = {1, 2, 3, 4}, list[4];
    MPI_Type_vector(4, 1, -1, MPI_INT, &type);
    extents(type, -3 * int_bytes, 4 * int_bytes, -3 * int_bytes, 4 * int_bytes);
    MPI_Type_commit(&type);
    MPI_Sendrecv(back + 3, 1, type, rank, 0, list, 4, MPI_INT, rank, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int at = 0; at < 4; at++) EQUAL(list[at], 4 - at);
    MPI_Type_free(&type);
}

static void arrays(void) {
    MPI_Datatype type;
    int places[24], count = 0;
    for (int x = 1; x < 3; x++)
        for (int y = 0; y < 2; y++)
            for (int z = 2; z < 5; z++) places[count++] = (x * 3 + y) * 6 + z;
    MPI_Type_create_subarray(3, (int[]){4, 3, 6}, (int[]){2, 2, 3}, (int[]){1, 0, 2}, MPI_ORDER_C,
                             MPI_INT, &type);
    extents(type, 0, 72 * (MPI_Aint)sizeof(int), places[0] * (MPI_Aint)sizeof(int),
            (places[11] - places[0] + 1) * (MPI_Aint)sizeof(int));
    passes(type, 2, 12, places, 72);
    count = 0;
    for (int y = 1; y < 3; y++)
        for (int x = 2; x < 4; x++) places[count++] = y * 5 + x;
    MPI_Type_create_subarray(2, (int[]){5, 4}, (int[]){2, 2}, (int[]){2, 1}, MPI_ORDER_FORTRAN,
                             MPI_INT, &type);
    passes(type, 3, 4, places, 20);
    /* Rank 1 of a grid of 2 by 2: columns in blocks, rows one by one. */
    count = 0;
    for (int row = 0; row < 5; row += 2)
        for (int column = 3; column < 6; column++) places[count++] = row * 6 + column;
    MPI_Type_create_darray(4, 1, 2, (int[]){5, 6},
                           (int[]){MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK},
                           (int[]){MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG},
                           (int[]){2, 2}, MPI_ORDER_C, MPI_INT, &type);
    passes(type, 2, 9, places, 30);
}

/* A structure of C as it lies in memory, in an array of them. */
static void structures(void) {
    struct cell {
        char name;
        double value[2];
        short code;
    } cells[3], got[3];
    memset(cells, 0, sizeof cells);
    MPI_Datatype plain, type;
    MPI_Aint at[4];
    MPI_Get_address(&cells[0], &at[0]);
    MPI_Get_address(&cells[0].name, &at[1]);
    MPI_Get_address(cells[0].value, &at[2]);
    MPI_Get_address(&cells[0].code, &at[3]);
    MPI_Aint places[3];
    for (int which = 0; which < 3; which++) places[which] = MPI_Aint_diff(at[which + 1], at[0]);
    MPI_Type_create_struct(3, (int[]){1, 2, 1}, places,
                           (MPI_Datatype[]){MPI_CHAR, MPI_DOUBLE, MPI_SHORT}, &plain);
    MPI_Type_create_resized(plain, 0, sizeof(struct cell), &type);
    MPI_Type_commit(&type);
    for (int which = 0; which < 3; which++)
        cells[which] = (struct cell){(char)('a' + which), {rank + which, 0.5}, (short)which};
    memset(got, 0, sizeof got);
    MPI_Sendrecv(cells, 3, type, right(), 0, got, 3, type, left(), 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int which = 0; which < 3; which++) {
        EQUAL(got[which].name, 'a' + which);
        EQUAL(got[which].code, which);
        CHECK(got[which].value[0] == left() + which && got[which].value[1] == 0.5);
    }
    /* Addresses in place of a buffer (MPI 5.0 §5.1.5). */
    MPI_Datatype absolute;
    MPI_Type_create_hindexed(1, (int[]){2}, &at[2], MPI_DOUBLE, &absolute);
    MPI_Type_commit(&absolute);
    double pair[2];
    MPI_Sendrecv(MPI_BOTTOM, 1, absolute, rank, 0, pair, 2, MPI_DOUBLE, rank, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    CHECK(pair[0] == rank && pair[1] == 0.5);
    MPI_Type_free(&absolute);
    MPI_Type_free(&plain);
    MPI_Type_free(&type);
}

/* Fortran's kinds of numbers are predefined: asked for again they are the same, nobody frees them, and
 * reductions are defined for them (MPI 5.0 §19.1.9). */
static void kinds(void) {
    MPI_Datatype integer, real, complex, again, three;
    int64_t one = rank, ones;
    double number = rank + 0.5, sum, turn[2] = {rank, 1}, turned[2];
    int integers[2];
    MPI_Type_create_f90_integer(18, &integer);
    MPI_Type_create_f90_real(15, MPI_UNDEFINED, &real);
    MPI_Type_create_f90_complex(15, 300, &complex);
    MPI_Allreduce(&one, &ones, 1, integer, MPI_BOR, MPI_COMM_WORLD);
    int64_t should = 0;
    for (int from = 0; from < size; from++) should |= from;
    EQUAL(ones, should);
    MPI_Allreduce(&number, &sum, 1, real, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == size * size / 2.0);
    MPI_Reduce(turn, turned, 1, complex, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) CHECK(turned[0] == size * (size - 1) / 2 && turned[1] == size);
    MPI_Type_create_f90_real(15, MPI_UNDEFINED, &again);
    CHECK(again == real);
    MPI_Type_create_f90_real(15, 300, &again);
    CHECK(again != real);
    MPI_Type_contiguous(3, real, &three);
    MPI_Type_get_contents(three, 1, 0, 1, integers, NULL, &again);
    CHECK(again == real);
    MPI_Type_free(&three);
    if (!is_hikyaku()) return;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CLASS(MPI_Type_free(&again), MPI_ERR_TYPE);
    CHECK(again == real);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    blocks();
    nested();
    arrays();
    structures();
    kinds();
    return end();
}
