/* Groups as sets of ranks in an order (MPI 5.0 §7.3). */
#include "../check.h"

static void is(MPI_Group group, int count, const int *ranks) {
    MPI_Group world;
    int number, mine = MPI_UNDEFINED, here;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_size(group, &number);
    EQUAL(number, count);
    for (int at = 0; at < count; at++) {
        int there;
        MPI_Group_translate_ranks(group, 1, &at, world, &there);
        EQUAL(there, ranks[at]);
        if (ranks[at] == rank) mine = at;
    }
    MPI_Group_rank(group, &here);
    EQUAL(here, mine);
    MPI_Group_free(&world);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Group world, one, two, made, other;
    int all[64], even[64], evens = 0, odd[64], odds = 0, result, ranks[64];
    for (int at = 0; at < size; at++) {
        all[at] = at;
        if (at % 2) odd[odds++] = at; else even[evens++] = at;
    }
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    is(world, size, all);
    MPI_Group_incl(world, evens, even, &one);
    is(one, evens, even);
    MPI_Group_excl(world, evens, even, &two);
    is(two, odds, odd);
    MPI_Group_union(two, one, &made);
    int both[64];
    memcpy(both, odd, sizeof *odd * (size_t)odds);
    memcpy(both + odds, even, sizeof *even * (size_t)evens);
    is(made, size, both);
    MPI_Group_compare(made, world, &result);
    EQUAL(result, size == 1 ? MPI_IDENT : MPI_SIMILAR);
    MPI_Group_intersection(made, one, &other);
    is(other, evens, even);
    MPI_Group_compare(other, one, &result);
    EQUAL(result, MPI_IDENT);
    MPI_Group_free(&other);
    MPI_Group_difference(made, one, &other);
    is(other, odds, odd);
    MPI_Group_compare(other, world, &result);
    EQUAL(result, MPI_UNEQUAL);
    MPI_Group_free(&other);
    MPI_Group_free(&made);
    /* Ranges, also from the last to the first. */
    int down[1][3] = {{size - 1, 0, -1}}, up[1][3] = {{0, size - 1, 2}};
    MPI_Group_range_incl(world, 1, down, &made);
    for (int at = 0; at < size; at++) ranks[at] = size - 1 - at;
    is(made, size, ranks);
    MPI_Group_free(&made);
    MPI_Group_range_excl(world, 1, up, &made);
    is(made, odds, odd);
    MPI_Group_free(&made);
    /* A range that no group has, and no memory. */
    int far[1][3] = {{0, INT32_MAX, 1}};
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(MPI_Group_range_incl(world, 1, far, &made) != MPI_SUCCESS);
    CHECK(MPI_Group_range_excl(world, 1, far, &made) != MPI_SUCCESS);
    /* Ranges whose step is longer than the way, which goes the other way. */
    int back[1][3] = {{size - 1, size - 2, size}}, forth[1][3] = {{0, 1, -5}};
    if (size > 1) {
        CLASS(MPI_Group_range_incl(world, 1, back, &made), MPI_ERR_ARG);
        CLASS(MPI_Group_range_excl(world, 1, forth, &made), MPI_ERR_ARG);
    }
    /* Ranks that are nowhere else, and nobody. */
    int last = size - 1, nobody = MPI_PROC_NULL;
    MPI_Group_translate_ranks(world, 1, &nobody, one, &result);
    EQUAL(result, MPI_PROC_NULL);
    MPI_Group_translate_ranks(world, 1, &last, one, &result);
    EQUAL(result, last % 2 ? MPI_UNDEFINED : last / 2);
    MPI_Group_incl(world, 0, NULL, &made);
    CHECK(made == MPI_GROUP_EMPTY);
    MPI_Group_size(MPI_GROUP_EMPTY, &result);
    EQUAL(result, 0);
    MPI_Group_free(&one);
    MPI_Group_free(&two);
    MPI_Group_free(&world);
    CHECK(world == MPI_GROUP_NULL);
    return end();
}
