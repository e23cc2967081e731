"""Messages and hand-offs beside multiprocessing, block by block in one run.

    python bench.py [BLOCKS [PART]]

PART measures one part of so many, which says little but that it works.

Two processes, each pinned to a processor of its own if there are two. Every block measures each way
once, one after the other, so that all meet the same machine; a ratio is formed within a block. Times
of a shared machine mean little, ratios more: the table has their medians and quartiles. Within a block
the median of batches of 50 counts, so that a processor that was taken away for milliseconds does not.

- message: 8 bytes there and back, half of that; Pipe sends them as bytes.
- hand-off: two processes take turns to change an array of 4 KiB, which lies in shared_memory or is
  a shared variable; a process that is not at turn with a lock looks again.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable
from multiprocessing import shared_memory
from typing import Any

import numpy

import hikyaku

ELEMENTS = 512
MESSAGES = 5_000
TURNS = {"hikyaku": 20_000, "Semaphore": 4_000, "Condition": 2_000, "Lock": 2_000}


BATCH = 50


def pin(rank: int) -> None:
    processors = sorted(os.sched_getaffinity(0))
    if len(processors) > 1:
        os.sched_setaffinity(0, {processors[rank]})


def in_batches(turns: int, turn: Callable[[], object]) -> float:
    """Seconds a turn: the median of batches."""
    batches = []
    for _ in range(max(1, turns // BATCH)):
        begun = time.perf_counter()
        for _ in range(BATCH):
            turn()
        batches.append((time.perf_counter() - begun) / BATCH)
    return statistics.median(batches)


# hikyaku: both measurements in one job.


def hikyaku_block(world: Any, part: int) -> dict[str, float]:
    return {
        "message": hikyaku_message(world, MESSAGES // part),
        "hand-off": hikyaku_hand_over(world, TURNS["hikyaku"] // part),
    }


def hikyaku_message(world: Any, turns: int) -> float:
    array, peer = numpy.zeros(1), 1 - world.rank

    def there_and_back() -> None:
        world.send(array, peer)
        world.recv(array, peer)

    def back() -> None:
        world.recv(array, peer)
        world.send(array, peer)

    world.barrier()
    return in_batches(turns, back if world.rank else there_and_back) / 2


def hikyaku_hand_over(world: Any, turns: int) -> float:
    variable = world.shared("turns", ELEMENTS, "f8")
    rank = world.rank

    def turn() -> None:
        while True:
            with variable.write() as array:
                if array[0] % 2 == rank:
                    array += 1
                    return

    world.barrier()
    seconds = in_batches(turns, turn) / 2
    world.barrier()
    return seconds


# multiprocessing: processes that are forked with what they share.


def timed(turns: int, turn_of: Callable[[int], Callable[[], object]]) -> float:
    """Has two processes take turns; seconds of half a turn, of the slower one."""
    context = multiprocessing.get_context("fork")
    start, times = context.Barrier(2), context.SimpleQueue()

    def process(rank: int) -> None:
        pin(rank)
        turn = turn_of(rank)
        start.wait()
        times.put(in_batches(turns, turn) / 2)

    processes = [context.Process(target=process, args=(rank,)) for rank in range(2)]
    for one in processes:
        one.start()
    for one in processes:
        one.join()
    return max(times.get() for _ in processes)


def pipe_message(turns: int) -> float:
    ends = multiprocessing.Pipe()
    payload = bytes(8)

    def turn_of(rank: int) -> Callable[[], object]:
        end = ends[rank]

        def there_and_back() -> None:
            end.send_bytes(payload)
            end.recv_bytes()

        def back() -> None:
            end.recv_bytes()
            end.send_bytes(payload)

        return back if rank else there_and_back

    return timed(turns, turn_of)


def hand_over(name: str, turns: int) -> float:
    context = multiprocessing.get_context("fork")
    memory = shared_memory.SharedMemory(create=True, size=8 * ELEMENTS)
    try:
        array = numpy.ndarray(ELEMENTS, "f8", buffer=memory.buf)
        array[:] = 0
        lock, condition = context.Lock(), context.Condition()
        semaphores = [context.Semaphore(1), context.Semaphore(0)]

        def by_lock(rank: int) -> None:
            while True:
                with lock:
                    if array[0] % 2 == rank:
                        array[:] += 1
                        return

        def by_condition(rank: int) -> None:
            with condition:
                while array[0] % 2 != rank:
                    condition.wait()
                array[:] += 1
                condition.notify()

        def by_semaphore(rank: int) -> None:
            semaphores[rank].acquire()
            array[:] += 1
            semaphores[1 - rank].release()

        turn = {"Lock": by_lock, "Condition": by_condition, "Semaphore": by_semaphore}[name]
        seconds = timed(turns, lambda rank: lambda: turn(rank))
        assert array[-1] == 2 * max(1, turns // BATCH) * BATCH, "turns were lost"
        del array
        return seconds
    finally:
        memory.close()
        memory.unlink()


def block(part: int) -> dict[str, dict[str, float]]:
    ranks = hikyaku.spawn(2, hikyaku_block, part)
    ours = {what: max(times[what] for times in ranks) for what in ranks[0]}
    theirs = ["Semaphore", "Condition", "Lock"]
    return {
        "message": {"hikyaku": ours["message"], "Pipe": pipe_message(MESSAGES // part)},
        "hand-off": {
            "hikyaku": ours["hand-off"],
            **{name: hand_over(name, TURNS[name] // part) for name in theirs},
        },
    }


def quartiles(values: list[float]) -> str:
    if len(values) < 2:
        return f"{values[0]:8.2f}"
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:8.2f}  ({low:.2f} to {high:.2f})"


def main() -> None:
    count, part = [int(word) for word in [*sys.argv[1:], *["5", "1"][len(sys.argv) - 1 :]]]
    blocks = [block(part) for _ in range(count)]
    for what in blocks[0]:
        print(f"{what}: microseconds, and times as long as hikyaku ({len(blocks)} blocks)")
        for name in blocks[0][what]:
            times = [1e6 * block[what][name] for block in blocks]
            ratios = [block[what][name] / block[what]["hikyaku"] for block in blocks]
            print(f"  {name:10} {quartiles(times):32} {quartiles(ratios)}")


if __name__ == "__main__":
    # Functions are sent to ranks by name, and __main__ has none there.
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import bench

    bench.main()
