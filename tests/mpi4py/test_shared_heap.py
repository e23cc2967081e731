"""numpy's arrays in memory that ranks share: `hikyaku run --shared-heap`."""

from __future__ import annotations

import textwrap

from programs import start

ARRAYS = """
import multiprocessing
import numpy as np

def is_shared(array):
    for line in open("/proc/self/maps"):
        start, end = (int(word, 16) for word in line.split()[0].split("-"))
        if start <= array.ctypes.data < end:
            return "memfd:hikyaku" in line
    return False

mine = np.full(1 << 20, rank, "f8")
theirs, total = np.zeros_like(mine), np.empty_like(mine)
assert is_shared(mine) and is_shared(theirs) and not is_shared(np.zeros(10))
before = (rank - 1) % size
for turn in range(1, 21):
    mine += 1
    world.Sendrecv(mine, (rank + 1) % size, recvbuf=theirs, source=before)
    assert (theirs == before + turn).all()
world.Allreduce(mine, total)
assert (total == sum(range(size)) + 20 * size).all()

def child(queue):
    assert (mine == rank + 20).all() and not is_shared(mine)
    mine[:] = -1
    queue.put(float(mine.sum()))

forks = multiprocessing.get_context("fork")
queue = forks.Queue()
process = forks.Process(target=child, args=[queue])
process.start()
assert queue.get() == -mine.size
process.join()
assert (mine == rank + 20).all() and is_shared(mine)
"""


def test_arrays_are_shared_and_children_have_their_own(tmp_path):
    done = start(tmp_path, ["run", "-n", "2", "--shared-heap"], textwrap.dedent(ARRAYS))
    assert (done.returncode, done.stderr) == (0, "")
