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
    for _ in range(STEPS):
        requests = []
        if above is not None:
            requests += [world.irecv(mine[0], above), world.isend(mine[1], above)]
        if below is not None:
            requests += [world.irecv(mine[-1], below), world.isend(mine[-2], below)]
        for request in requests:
            request.wait()
        mine[1:-1, 1:-1] = step(mine)

    strips = world.gather_object(mine[1:-1])
    if world.rank == 0:
        whole = initial()
        for _ in range(STEPS):
            whole[1:-1, 1:-1] = step(whole)
        assert numpy.array_equal(numpy.vstack(strips), whole[1:-1]), "strips differ from the whole"
        print(f"{STEPS} steps of {ROWS} x {COLUMNS} on {world.size} ranks: equal to the whole grid")


if __name__ == "__main__":
    main()
