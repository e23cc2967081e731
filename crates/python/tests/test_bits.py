"""Collectives give, bit for bit, what they give in Rust and C, for real and in virtual time.

What is called and what comes of it is in tests/jobs/bits.txt. Values and digests are those of
tests/jobs/src/bits.rs. The file is the ranks' program too: its words are operations and lengths.
"""

import os
import pathlib
import subprocess
import sys
from collections import defaultdict

import numpy

import hikyaku

TABLE = pathlib.Path(__file__).parents[3] / "tests/jobs/bits.txt"

# A job that takes this long hangs.
PATIENCE = 120


def mixed(words):
    words = (words ^ (words >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return words ^ (words >> numpy.uint64(31))


def words_of(rank, length):
    """The words of the first places of a rank."""
    places = numpy.arange(1, length + 1, dtype="u8") + numpy.uint64(rank << 40)
    return places * numpy.uint64(0x9E3779B97F4A7C15)


def values_of(rank, *shape):
    words = mixed(words_of(rank, numpy.prod(shape)))
    mantissas = (words >> numpy.uint64(11)).astype("i8") - (1 << 52)
    exponents = (words & numpy.uint64(63)).astype("i4") - 32
    return numpy.ldexp(mantissas.astype("f8"), exponents).reshape(shape)


def digest_of(rank, result):
    bits = result.ravel().view("u8")
    return int(mixed(bits ^ words_of(rank, len(bits))).sum())


def in_place(name, *arguments):
    def call(world, length):
        array = values_of(world.rank, length)
        getattr(world, name)(array, *arguments)
        return array

    return call


def rooted(call):
    """The last rank is the root; who has no result has nothing."""

    def result(world, length):
        result = call(world, length, world.size - 1)
        return numpy.empty(0) if result is None else result

    return result


def barrier(world, _):
    world.barrier()
    return numpy.empty(0)


@rooted
def broadcast(world, length, root):
    array = values_of(world.rank, length)
    world.bcast(array, root)
    return array


@rooted
def reduce(world, length, root):
    array = values_of(world.rank, length)
    world.reduce(array, "sum", root)
    return array if world.rank == root else None


@rooted
def gather(world, length, root):
    return world.gather(values_of(world.rank, length), root)


@rooted
def scatter(world, length, root):
    data = values_of(world.rank, world.size, length) if world.rank == root else None
    return world.scatter(data, numpy.empty(length), root)


def spread(world, length, strides):
    """Arrays for what this rank has for each other and gets of it, which is as much: views of all
    that it gives, and of zeros."""
    lengths = [length + world.rank + other for other in range(world.size)]
    ends = numpy.cumsum(lengths)

    def views(array, stride):
        return [
            array[stride * (end - length) : stride * end : stride]
            for length, end in zip(lengths, ends)
        ]

    give, take = strides
    into = numpy.zeros(take * ends[-1])
    return views(values_of(world.rank, give * ends[-1]), give), into, views(into, take)


def alltoallw(*strides):
    def call(world, length):
        parts, into, places = spread(world, length, strides)
        world.alltoallw(parts, places)
        return into

    return call


OPERATIONS = {
    "barrier": barrier,
    "broadcast": broadcast,
    "reduce": reduce,
    "allreduce": in_place("allreduce"),
    "gather": gather,
    "scatter": scatter,
    "allgather": lambda world, length: world.allgather(values_of(world.rank, length)),
    "alltoall": lambda world, length: world.alltoall(values_of(world.rank, world.size, length)),
    "reduce_scatter_block": lambda world, length: world.reduce_scatter(
        values_of(world.rank, world.size, length)
    ),
    "alltoallv": alltoallw(1, 1),
    "alltoallw": alltoallw(2, 3),
    "scan": in_place("scan"),
    "exscan": in_place("exscan"),
}


def call_all(operations, lengths):
    """What a rank does."""
    world = hikyaku.world()
    for operation in operations.split(","):
        for length in lengths.split(","):
            result = OPERATIONS[operation](world, int(length))
            print("python", operation, length, f"{digest_of(world.rank, result):016x}")


def table():
    """Operations, lengths and, by ranks and ranks per node, the digests by operation and length."""
    lines = [line.split() for line in TABLE.read_text().splitlines()]
    operations = [line[1] for line in lines if line[:1] == ["operation"] and "python" in line]
    [lengths] = [line[1:] for line in lines if line[:1] == ["lengths"]]
    jobs = defaultdict(dict)
    for line in lines:
        if line[:1] == ["bits"] and line[3] in operations:
            digests = {(line[3], length): int(d, 16) for length, d in zip(lengths, line[4:])}
            jobs[int(line[1]), int(line[2])].update(digests)
    return operations, lengths, jobs


def sums(output):
    """The digests of all ranks, added up, by operation and length."""
    sums = defaultdict(int)
    for line in output.splitlines():
        words = line.split()
        if words[:1] == ["python"]:
            key = words[1], words[2]
            sums[key] = (sums[key] + int(words[3], 16)) % 2**64
    return sums


def test_collectives_give_the_bits_that_they_give_in_rust():
    operations, lengths, jobs = table()
    program = [sys.executable, __file__, ",".join(operations), ",".join(lengths)]
    for (ranks, per_node), expected in jobs.items():
        nodes = ["-n", str(ranks), "--ranks-per-node", str(per_node or ranks)]
        ways = [["run"], ["simulate", "-m", "cenju4"]]
        # Starting interpreters is what takes the time: in short, every shape of three ranks.
        for way in ways if ranks == 3 or "HIKYAKU_LONG" in os.environ else ways[:1]:
            ended = subprocess.run(
                [sys.executable, "-m", "hikyaku", *way, *nodes, "--", *program],
                capture_output=True,
                text=True,
                timeout=PATIENCE,
            )
            assert ended.returncode == 0, (way, nodes, ended.stdout, ended.stderr)
            assert sums(ended.stdout) == expected, (way, nodes)


if __name__ == "__main__":
    call_all(*sys.argv[1:])
