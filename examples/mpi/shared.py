"""A shared numpy array in an mpi4py program: a histogram that all ranks add to.

    hikyaku run -n 4 -- python shared.py

mpi4py and hikyaku are one rank in one process, whichever is imported first. MPI scatters the
numbers; each rank counts its own into one array that travels with its lock, so no gather is needed.
"""

import hikyaku
import numpy
from mpi4py import MPI

NUMBERS, BINS = 10_000, 32  # of each rank

comm = MPI.COMM_WORLD
world = hikyaku.world()
assert (world.rank, world.size) == (comm.rank, comm.size)

mine = numpy.empty(NUMBERS)
all = numpy.random.default_rng(7).normal(size=comm.size * NUMBERS) if comm.rank == 0 else None
comm.Scatter(all, mine)

histogram = world.shared("histogram", BINS, "i8")  # on every rank, zeros at first
edges = numpy.linspace(-4, 4, BINS + 1)
for part in numpy.array_split(mine, 100):
    with histogram.write() as counts:
        counts += numpy.histogram(part.clip(-4, 4), edges)[0]

comm.Barrier()
if comm.rank == 0:
    with histogram.read() as counts:
        assert (counts == numpy.histogram(all.clip(-4, 4), edges)[0]).all()
        print(f"{counts.sum()} numbers of {comm.size} ranks, as counted by one")
