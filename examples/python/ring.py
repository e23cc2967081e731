"""A ring: every rank hears from the one before it, and all agree on a sum.

    hikyaku run -n 4 -- python ring.py
"""

import numpy

import hikyaku

world = hikyaku.world()
rank, size = world.rank, world.size
heard = numpy.zeros(1, "i8")
world.sendrecv(numpy.array([rank]), (rank + 1) % size, heard, (rank - 1) % size)
world.allreduce(heard, "sum")
assert heard[0] == size * (size - 1) // 2
print(f"rank {rank} of {size}: sum {heard[0]}")
