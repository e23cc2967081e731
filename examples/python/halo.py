"""A grid in strips: every rank has some rows, and needs its neighbours' edges in each step.

    hikyaku run -n 4 -- python halo.py
"""

import numpy

import hikyaku

ROWS, COLUMNS, STEPS = 240, 160, 100


def step(field: numpy.ndarray) -> numpy.ndarray:
    """Every inner point becomes the mean of its neighbours."""
    return (field[:-2, 1:-1] + field[2:, 1:-1] + field[1:-1, :-2] + field[1:-1, 2:]) / 4


def initial() -> numpy.ndarray:
    field = numpy.zeros((ROWS + 2, COLUMNS + 2))
    field[0] = 100
    return field


def main() -> None:
    world = hikyaku.world()
    bounds = [ROWS * rank // world.size for rank in range(world.size + 1)]
    first, last = bounds[world.rank], bounds[world.rank + 1]
    # One row beside each end is the neighbour's, or the border of the grid.
    mine = initial()[first : last + 2].copy()
    above = world.rank - 1 if world.rank > 0 else None
    below = world.rank + 1 if world.rank + 1 < world.size else None
    outs, ins = [], []
    if above is not None:
        outs, ins = [(above, mine[1])], [(above, mine[0])]
    if below is not None:
        outs, ins = [*outs, (below, mine[-2])], [*ins, (below, mine[-1])]
    with world.exchange(outs, ins) as edges:
        for _ in range(STEPS):
            edges.start()
            # Rows that need no neighbour's edge are computed meanwhile.
            inner = step(mine[1:-1])
            edges.wait()
            first, last = step(mine[:3]), step(mine[-3:])
            mine[1, 1:-1], mine[-2, 1:-1], mine[2:-2, 1:-1] = first[0], last[0], inner

    strips = world.gather_object(mine[1:-1])
    if world.rank == 0:
        whole = initial()
        for _ in range(STEPS):
            whole[1:-1, 1:-1] = step(whole)
        assert numpy.array_equal(numpy.vstack(strips), whole[1:-1]), "strips differ from the whole"
        print(f"{STEPS} steps of {ROWS} x {COLUMNS} on {world.size} ranks: equal to the whole grid")


if __name__ == "__main__":
    main()
