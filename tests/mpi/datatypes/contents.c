/* What a datatype says of itself, packing, and the external representation (MPI 5.0 §5.1.13, §5.2,
 * §5.3). */
#include "../check.h"

static void envelopes(void) {
    MPI_Datatype vector, named = MPI_DOUBLE, type, inside[3];
    int numbers[8], integers, addresses, types, combiner;
    MPI_Aint places[4];
    MPI_Type_get_envelope(named, &integers, &addresses, &types, &combiner);
    EQUAL(combiner, MPI_COMBINER_NAMED);
    MPI_Type_vector(3, 2, 5, MPI_INT, &vector);
    MPI_Type_get_envelope(vector, &integers, &addresses, &types, &combiner);
    EQUAL(combiner, MPI_COMBINER_VECTOR);
    CHECK(integers == 3 && addresses == 0 && types == 1);
    MPI_Type_get_contents(vector, 3, 0, 1, numbers, places, inside);
    CHECK(numbers[0] == 3 && numbers[1] == 2 && numbers[2] == 5 && inside[0] == MPI_INT);
    MPI_Type_create_struct(2, (int[]){1, 4}, (MPI_Aint[]){0, 64},
                           (MPI_Datatype[]){MPI_CHAR, vector}, &type);
    MPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
    EQUAL(combiner, MPI_COMBINER_STRUCT);
    CHECK(integers == 3 && addresses == 2 && types == 2);
    MPI_Type_get_contents(type, 3, 2, 2, numbers, places, inside);
    CHECK(numbers[0] == 2 && numbers[1] == 1 && numbers[2] == 4 && places[1] == 64);
    CHECK(inside[0] == MPI_CHAR);
    /* The type inside is a handle of its own, which describes the same. */
    MPI_Type_get_envelope(inside[1], &integers, &addresses, &types, &combiner);
    EQUAL(combiner, MPI_COMBINER_VECTOR);
    MPI_Type_free(&inside[1]);
    MPI_Type_free(&type);
    MPI_Type_create_subarray(2, (int[]){4, 5}, (int[]){2, 3}, (int[]){1, 1}, MPI_ORDER_C, MPI_INT,
                             &type);
    MPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
    EQUAL(combiner, MPI_COMBINER_SUBARRAY);
    EQUAL(integers, 8);
    MPI_Type_get_contents(type, 8, 0, 1, numbers, places, inside);
    CHECK(numbers[0] == 2 && numbers[1] == 4 && numbers[4] == 3 && numbers[7] == MPI_ORDER_C);
    MPI_Type_free(&type);
    MPI_Type_free(&vector);
}

static void packs(void) {
    char room[256], text[8] = "hikyaku", got[8];
    int position = 0, bytes, numbers[3] = {rank, 5, 7}, again[3];
    double value = rank + 0.25, back;
    MPI_Datatype column;
    int table[12];
    for (int at = 0; at < 12; at++) table[at] = at;
    MPI_Type_vector(3, 1, 4, MPI_INT, &column);
    MPI_Type_commit(&column);
    MPI_Pack_size(3, MPI_INT, MPI_COMM_WORLD, &bytes);
    CHECK(bytes >= 12);
    MPI_Pack(numbers, 3, MPI_INT, room, sizeof room, &position, MPI_COMM_WORLD);
    MPI_Pack(&value, 1, MPI_DOUBLE, room, sizeof room, &position, MPI_COMM_WORLD);
    MPI_Pack(text, 8, MPI_CHAR, room, sizeof room, &position, MPI_COMM_WORLD);
    MPI_Pack(table + 1, 1, column, room, sizeof room, &position, MPI_COMM_WORLD);
    char other[256];
    MPI_Sendrecv(room, position, MPI_PACKED, right(), 0, other, sizeof other, MPI_PACKED, left(), 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    int end_of_all = position, three[3];
    position = 0;
    MPI_Unpack(other, end_of_all, &position, again, 3, MPI_INT, MPI_COMM_WORLD);
    MPI_Unpack(other, end_of_all, &position, &back, 1, MPI_DOUBLE, MPI_COMM_WORLD);
    MPI_Unpack(other, end_of_all, &position, got, 8, MPI_CHAR, MPI_COMM_WORLD);
    MPI_Unpack(other, end_of_all, &position, three, 3, MPI_INT, MPI_COMM_WORLD);
    EQUAL(position, end_of_all);
    CHECK(again[0] == left() && again[1] == 5 && again[2] == 7 && back == left() + 0.25);
    CHECK(strcmp(got, text) == 0 && three[0] == 1 && three[1] == 5 && three[2] == 9);
    /* What is packed is received as its elements. */
    position = 0;
    MPI_Pack(numbers, 3, MPI_INT, room, sizeof room, &position, MPI_COMM_WORLD);
    MPI_Sendrecv(room, position, MPI_PACKED, right(), 1, again, 3, MPI_INT, left(), 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(again[0] == left() && again[2] == 7);
    MPI_Type_free(&column);
}

/* Big-endian, whatever this machine is. */
static void external(void) {
    unsigned char room[64];
    MPI_Aint position = 0, bytes;
    int number = 0x01020304, back;
    double one = 1.0, too;
    MPI_Pack_external_size("external32", 1, MPI_INT, &bytes);
    EQUAL(bytes, 4);
    MPI_Pack_external("external32", &number, 1, MPI_INT, room, sizeof room, &position);
    MPI_Pack_external("external32", &one, 1, MPI_DOUBLE, room, sizeof room, &position);
    EQUAL(position, 12);
    for (int at = 0; at < 4; at++) EQUAL(room[at], at + 1);
    CHECK(room[4] == 0x3f && room[5] == 0xf0 && room[11] == 0);
    position = 0;
    MPI_Unpack_external("external32", room, 12, &position, &back, 1, MPI_INT);
    MPI_Unpack_external("external32", room, 12, &position, &too, 1, MPI_DOUBLE);
    CHECK(back == number && too == 1.0);
}

static void sizes_and_names(void) {
    MPI_Datatype type, back;
    char name[MPI_MAX_OBJECT_NAME];
    int length, bytes;
    struct { MPI_Datatype type; size_t bytes; const char *name; } known[] = {
        {MPI_CHAR, 1, "MPI_CHAR"}, {MPI_SHORT, sizeof(short), "MPI_SHORT"},
        {MPI_INT, sizeof(int), "MPI_INT"}, {MPI_LONG, sizeof(long), "MPI_LONG"},
        {MPI_FLOAT, 4, "MPI_FLOAT"}, {MPI_DOUBLE, 8, "MPI_DOUBLE"}, {MPI_BYTE, 1, "MPI_BYTE"},
        {MPI_LONG_DOUBLE, sizeof(long double), "MPI_LONG_DOUBLE"},
        {MPI_UINT64_T, 8, "MPI_UINT64_T"}, {MPI_AINT, sizeof(MPI_Aint), "MPI_AINT"},
        {MPI_COUNT, sizeof(MPI_Count), "MPI_COUNT"}, {MPI_C_BOOL, 1, "MPI_C_BOOL"},
        {MPI_C_DOUBLE_COMPLEX, 16, "MPI_C_DOUBLE_COMPLEX"}, {MPI_WCHAR, 4, "MPI_WCHAR"},
        {MPI_2INT, 8, "MPI_2INT"}, {MPI_DOUBLE_INT, 12, "MPI_DOUBLE_INT"},
    };
    for (size_t at = 0; at < sizeof known / sizeof *known; at++) {
        MPI_Type_size(known[at].type, &bytes);
        EQUAL(bytes, known[at].bytes);
        MPI_Type_get_name(known[at].type, name, &length);
        CHECK(strcmp(name, known[at].name) == 0 && (size_t)length == strlen(name));
    }
    MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &type);
    MPI_Type_size(type, &bytes);
    EQUAL(bytes, 8);
    MPI_Type_contiguous(3, MPI_INT, &type);
    MPI_Type_set_name(type, "three");
    MPI_Type_get_name(type, name, &length);
    CHECK(strcmp(name, "three") == 0 && length == 5);
    MPI_Type_free(&type);
    MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT, &type);
    CHECK(type == MPI_DOUBLE_INT);
    /* Pairs without a name are another library's, and one of a derived type is nobody's. */
    MPI_Type_get_value_index(MPI_DOUBLE, MPI_LONG, &type);
    CHECK(type == MPI_DATATYPE_NULL || !is_hikyaku());
    MPI_Type_dup(MPI_DOUBLE, &type);
    MPI_Type_get_value_index(type, MPI_INT, &back);
    CHECK(back == MPI_DATATYPE_NULL);
    MPI_Type_free(&type);
    back = MPI_Type_fromint(MPI_Type_toint(MPI_INT));
    CHECK(back == MPI_INT);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    envelopes();
    packs();
    external();
    sizes_and_names();
    return end();
}
