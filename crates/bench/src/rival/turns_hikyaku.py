"""Two ranks that change a shared variable in turns through hikyaku's package for Python: the other
side of turns.py, with the same commands and the same answers.

Started by `hikyaku run` with the conductor's Unix socket. The command is "shared-turns BYTES 0 WINDOW
BATCHES REPETITIONS", in which a repetition is one turn of each.
"""

import json
import os
import platform
import socket
import sys
import time

import hikyaku
import numpy

BYTES_LIMIT = 1 << 24


def measure(world, length, batches, repetitions):
    variable = world.shared("turns", length // 8, "u8")
    rank, own = world.rank, numpy.zeros(length // 8, "u8")

    def turn():
        while True:
            with variable.write() as array:
                number = array.item(0)
                if number % 2 == rank:
                    own[0] = number + 1
                    array[:] = own
                    return

    elapsed = []
    world.barrier()
    for _ in range(batches):
        start = time.perf_counter_ns()
        for _ in range(repetitions):
            turn()
        elapsed.append(time.perf_counter_ns() - start)
    world.barrier()
    return {"nanoseconds": elapsed}


def answer(world, line):
    verb, *numbers = line.split()
    length, _, _, batches, repetitions, _ = map(int, numbers)
    if verb != "shared-turns":
        return {"error": "an unknown command"}
    if not 8 <= length <= BYTES_LIMIT:
        return {"error": "the command asks for more than the program has"}
    return measure(world, length, batches, repetitions)


def main(path):
    world = hikyaku.world()
    with socket.socket(socket.AF_UNIX) as control:
        control.connect(path)
        stream = control.makefile("rw")
        library = f"hikyaku for Python {platform.python_version()}"
        cores = sorted(os.sched_getaffinity(0))
        hello = {"rank": world.rank, "size": world.size, "pid": os.getpid()}
        print(json.dumps({**hello, "library": library, "cpus": cores}), file=stream, flush=True)
        for line in stream:
            if line.startswith("quit"):
                break
            print(json.dumps(answer(world, line)), file=stream, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
