"""A shared array: one variable that every rank writes to and reads, and that travels with its lock.

    hikyaku run -n 4 -- python shared_array.py
"""

import hikyaku

world = hikyaku.world()
votes = world.shared("votes", 10, "i8")  # on every rank, zeros at first
for ballot in range(100):
    with votes.write() as counts:
        counts[(ballot * 7 + world.rank) % 10] += 1
world.barrier()  # all have voted
with votes.read() as counts:
    assert counts.sum() == 100 * world.size
    print(f"rank {world.rank}: {counts.sum()} votes")
