/* Attributes, their callbacks, and info objects (MPI 5.0 §7.7, chapter 10). */
#include "../check.h"

static int copies, deletes, failing;

static int copy(MPI_Comm comm, int key, void *extra, void *value, void *to, int *flag) {
    (void)comm, (void)key;
    copies++;
    CHECK(*(int *)extra == 17);
    *(void **)to = (char *)value + 1;
    *flag = *(char *)value != 'n';
    return failing ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int delete(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)value, (void)extra;
    deletes++;
    return MPI_SUCCESS;
}

static void own(void) {
    static char values[] = "yno";
    int key, kept, dropped, flag, extra = 17;
    void *value;
    MPI_Comm comm, twin;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_keyval(copy, delete, &key, &extra);
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &kept, NULL);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete, &dropped, NULL);
    MPI_Comm_get_attr(comm, key, &value, &flag);
    EQUAL(flag, 0);
    MPI_Comm_set_attr(comm, key, values);
    MPI_Comm_set_attr(comm, kept, &key);
    MPI_Comm_set_attr(comm, dropped, &flag);
    MPI_Comm_get_attr(comm, key, &value, &flag);
    CHECK(flag && value == values);
    MPI_Comm_dup(comm, &twin);
    EQUAL(copies, 1);
    MPI_Comm_get_attr(twin, key, &value, &flag);
    CHECK(flag && value == values + 1);
    MPI_Comm_get_attr(twin, kept, &value, &flag);
    CHECK(flag && value == &key);
    MPI_Comm_get_attr(twin, dropped, &value, &flag);
    EQUAL(flag, 0);
    MPI_Comm_free(&twin);
    EQUAL(deletes, 1);
    /* Another value takes the place of the first, which is deleted. */
    MPI_Comm_set_attr(comm, key, values + 1);
    EQUAL(deletes, 2);
    MPI_Comm_dup(comm, &twin);
    MPI_Comm_get_attr(twin, key, &value, &flag);
    EQUAL(flag, 0);
    MPI_Comm_free(&twin);
    EQUAL(deletes, 2);
    MPI_Comm_delete_attr(comm, key);
    EQUAL(deletes, 3);
    MPI_Comm_get_attr(comm, key, &value, &flag);
    EQUAL(flag, 0);
    int was = key;
    MPI_Comm_set_attr(comm, key, values);
    MPI_Comm_free_keyval(&key);
    EQUAL(key, MPI_KEYVAL_INVALID);
    MPI_Comm_free(&comm);
    EQUAL(deletes, 5);
    CHECK(was != MPI_KEYVAL_INVALID);
    MPI_Comm_free_keyval(&kept);
    MPI_Comm_free_keyval(&dropped);
}

static int refuse_type(MPI_Datatype type, int key, void *extra, void *value, void *to, int *flag) {
    (void)type, (void)key, (void)extra, (void)value, (void)to;
    *flag = 1;
    return MPI_ERR_OTHER;
}

/* Attributes of a duplicate are not those of the type that it was made from. */
static MPI_Datatype owner_of_type = MPI_DATATYPE_NULL;

static int delete_of_type(MPI_Datatype type, int key, void *value, void *extra) {
    (void)key, (void)value, (void)extra;
    if (is_hikyaku()) CHECK(type != owner_of_type && type != MPI_DATATYPE_NULL);
    deletes++;
    return MPI_SUCCESS;
}

/* There is no duplicate if a function that copies fails: what it had already is deleted. */
static void refused(void) {
    static char values[] = "y";
    int key, first, extra = 17, before = deletes;
    MPI_Comm comm, twin = MPI_COMM_WORLD;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, delete, &first, NULL);
    MPI_Comm_create_keyval(copy, delete, &key, &extra);
    MPI_Comm_set_attr(comm, first, values);
    MPI_Comm_set_attr(comm, key, values);
    failing = 1;
    CHECK(MPI_Comm_dup(comm, &twin) != MPI_SUCCESS);
    failing = 0;
    CHECK(twin == MPI_COMM_NULL);
    if (is_hikyaku()) EQUAL(deletes - before, 1);
    before = deletes;
    MPI_Comm_free(&comm);
    EQUAL(deletes - before, 2);
    MPI_Comm_free_keyval(&first);
    MPI_Comm_free_keyval(&key);
    MPI_Datatype type = MPI_INT;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Datatype owner;
    MPI_Type_contiguous(2, MPI_INT, &owner);
    MPI_Type_create_keyval(MPI_TYPE_DUP_FN, delete_of_type, &first, NULL);
    MPI_Type_create_keyval(refuse_type, MPI_TYPE_NULL_DELETE_FN, &key, NULL);
    MPI_Type_set_attr(owner, first, values);
    MPI_Type_set_attr(owner, key, values);
    owner_of_type = owner, before = deletes;
    CHECK(MPI_Type_dup(owner, &type) != MPI_SUCCESS);
    CHECK(type == MPI_DATATYPE_NULL);
    if (is_hikyaku()) EQUAL(deletes - before, 1);
    owner_of_type = MPI_DATATYPE_NULL;
    MPI_Type_free(&owner);
    MPI_Type_free_keyval(&first);
    MPI_Type_free_keyval(&key);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

static void predefined(void) {
    int *number, flag;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &number, &flag);
    CHECK(flag && *number >= 32767);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &number, &flag);
    CHECK(flag && (*number == 0 || *number == 1));
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_IO, &number, &flag);
    CHECK(flag);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &flag);
    CHECK(flag && *number == 0);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &number, &flag);
    CHECK(flag && *number >= MPI_ERR_LASTCODE);
}

static void infos(void) {
    MPI_Info info, twin;
    int count, flag, length;
    char text[32];
    MPI_Info_create(&info);
    MPI_Info_set(info, "colour", "red");
    MPI_Info_set(info, "size", "big");
    MPI_Info_set(info, "colour", "blue");
    MPI_Info_get_nkeys(info, &count);
    EQUAL(count, 2);
    length = sizeof text;
    MPI_Info_get_string(info, "colour", &length, text, &flag);
    CHECK(flag && strcmp(text, "blue") == 0 && length == 5);
    length = 3;
    MPI_Info_get_string(info, "colour", &length, text, &flag);
    CHECK(flag && strcmp(text, "bl") == 0 && length == 5);
    MPI_Info_get_string(info, "taste", &length, text, &flag);
    EQUAL(flag, 0);
    MPI_Info_get_nthkey(info, 1, text);
    CHECK(strcmp(text, "size") == 0);
    MPI_Info_dup(info, &twin);
    MPI_Info_delete(info, "size");
    MPI_Info_get_nkeys(info, &count);
    EQUAL(count, 1);
    MPI_Info_get_nkeys(twin, &count);
    EQUAL(count, 2);
    MPI_Info_free(&info);
    MPI_Info_free(&twin);
    CHECK(info == MPI_INFO_NULL);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    own();
    refused();
    predefined();
    infos();
    return end();
}
