"""A work queue without a server: the number of the next piece of work is a counter in a window of
rank 0, taken by an atomic addition. Results go into a second window.

    hikyaku run -n 4 -- python work_queue.py
"""

import hikyaku

PIECES = 400


def collatz(number: int) -> int:
    """The number of steps to 1: work of unknown length."""
    steps = 0
    while number != 1:
        number = number // 2 if number % 2 == 0 else 3 * number + 1
        steps += 1
    return steps


def main() -> None:
    world = hikyaku.world()
    with world.window(1, "i8") as queue, world.window(PIECES, "i8") as results:
        done = 0
        while (piece := queue.fetch_add(0, 0, 1)) < PIECES:
            results.put(0, [collatz(piece + 1)], index=piece)
            done += 1
        shares = world.gather_object(done)
        # Everybody has put what they had before the result is read and the parts go.
        world.barrier()
        if world.rank == 0:
            steps = results.local()
            assert steps.tolist() == [collatz(piece + 1) for piece in range(PIECES)]
            assert sum(shares) == PIECES
            print(f"{PIECES} pieces, longest {steps.max()} steps; each rank did {shares}")
        world.barrier()


if __name__ == "__main__":
    main()
