"""The heat equation on a plate with mpi4py: a hot square in the middle, a cold frame.

    hikyaku run -n 4 -- python heat.py 500

The same problem as heat.c, with the same answer to the last bit.
"""

import sys

import numpy
from mpi4py import MPI

N = 256  # rows and columns, with the frame


def plate():
    """The plate at the start."""
    all = numpy.zeros((N, N))
    all[N // 3 : N * 2 // 3, N // 3 : N * 2 // 3] = 100
    return all


def step(now, next):
    """One step: the inner rows of ``next`` from ``now``."""
    here = now[1:-1, 1:-1]
    around = now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:]
    next[1:-1, 1:-1] = here + 0.2 * (around - 4 * here)


world = MPI.COMM_WORLD
rank, size = world.rank, world.size
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200

# The frame, the first and the last row, belongs to no rank. A rank has a halo row at each end.
starts = numpy.linspace(1, N - 1, size + 1).astype(int)
first, last = starts[rank], starts[rank + 1]
now = plate()[first - 1 : last + 1].copy()
next = now.copy()
above = rank - 1 if rank > 0 else MPI.PROC_NULL
below = rank + 1 if rank < size - 1 else MPI.PROC_NULL

for _ in range(steps):
    world.Sendrecv(now[1], above, 0, now[-1], below, 0)
    world.Sendrecv(now[-2], below, 1, now[0], above, 1)
    step(now, next)
    now, next = next, now

rows = world.gather(now[1:-1])
if rank == 0:
    alone, then = plate(), plate()
    for _ in range(steps):
        step(alone, then)
        alone, then = then, alone
    together = numpy.vstack([alone[:1], *rows, alone[-1:]])
    same = numpy.array_equal(alone, together)
    answer = "the serial answer bit by bit" if same else "which is not the serial answer"
    print(f"heat: {together[N // 2, N // 2]:.9f} in the middle after {steps} steps, {answer}")
    sys.exit(not same)
