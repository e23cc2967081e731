"""Two processes that change an array in turns by what Python's multiprocessing has: a rival of
`hikyaku bench shared`, started with the conductor's Unix socket.

The array lies in shared_memory and begins with a number, whose turn it is. The commands are those
of control.rs: "turns-lock BYTES 0 WINDOW BATCHES REPETITIONS", in which a repetition is one turn of
each.
"""

import ctypes
import json
import multiprocessing
import os
import platform
import signal
import socket
import sys
import time
from multiprocessing import shared_memory

BYTES_LIMIT = 1 << 24
CONTEXT = multiprocessing.get_context("fork")


def pin(rank):
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        os.sched_setaffinity(0, {cores[rank]})


def turns(rank, array, own):
    """By verb: one turn of a rank, which is given how many bytes to write."""
    number = array[:8].cast("Q")
    lock, condition, semaphores = LOCKS

    def write(length):
        own[:8] = (number[0] + 1).to_bytes(8, "little")
        array[:length] = memoryview(own)[:length]

    def by_lock(length):
        while True:
            with lock:
                if number[0] % 2 == rank:
                    return write(length)

    def by_condition(length):
        with condition:
            while number[0] % 2 != rank:
                condition.wait()
            write(length)
            condition.notify()

    def by_semaphore(length):
        semaphores[rank].acquire()
        write(length)
        semaphores[1 - rank].release()

    return {"turns-lock": by_lock, "turns-cond": by_condition, "turns-sem": by_semaphore}


def measure(turn, length, batches, repetitions):
    elapsed = []
    for _ in range(batches):
        start = time.perf_counter_ns()
        for _ in range(repetitions):
            turn(length)
        elapsed.append(time.perf_counter_ns() - start)
    return {"nanoseconds": elapsed}


def answer(known, line):
    verb, *numbers = line.split()
    length, _, _, batches, repetitions, _ = map(int, numbers)
    if verb not in known:
        return {"error": "an unknown command"}
    if not 8 <= length <= BYTES_LIMIT:
        return {"error": "the command asks for more than the program has"}
    return measure(known[verb], length, batches, repetitions)


def serve(rank, name, path):
    # A process whose parent is killed would wait in a semaphore for ever.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    pin(rank)
    memory = shared_memory.SharedMemory(name)
    known = turns(rank, memory.buf, bytearray(BYTES_LIMIT))
    with socket.socket(socket.AF_UNIX) as control:
        control.connect(path)
        stream = control.makefile("rw")
        library = f"Python {platform.python_version()} multiprocessing"
        cores = sorted(os.sched_getaffinity(0))
        hello = {"rank": rank, "size": 2, "pid": os.getpid(), "library": library, "cpus": cores}
        print(json.dumps(hello), file=stream, flush=True)
        for line in stream:
            if line.startswith("quit"):
                break
            print(json.dumps(answer(known, line)), file=stream, flush=True)
    os._exit(0)


def main(path):
    memory = shared_memory.SharedMemory(create=True, size=BYTES_LIMIT)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        ranks = [CONTEXT.Process(target=serve, args=(rank, memory.name, path)) for rank in (0, 1)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()
    finally:
        memory.close()
        memory.unlink()


LOCKS = CONTEXT.Lock(), CONTEXT.Condition(), [CONTEXT.Semaphore(1), CONTEXT.Semaphore(0)]

if __name__ == "__main__":
    main(sys.argv[1])
