"""Persistent exchanges with neighbours: what comes, by which way, and what cannot be."""

import functools
import gc
import subprocess
import sys
import textwrap

import numpy
import pytest

import hikyaku

# A job that takes this long hangs.
spawn = functools.partial(hikyaku.spawn, timeout=120)

SCHEMES = [None, "fast", "mrc", "combined", "messages"]


def ring(world, scheme):
    """A ring: columns of a matrix both ways, and beside them other types and an empty array."""
    size, rank = world.size, world.rank
    left, right = (rank - 1) % size, (rank + 1) % size
    field = numpy.zeros((6, 7))
    sent, come = numpy.zeros(3, "i2"), numpy.zeros(3, "i2")
    nothing = numpy.zeros(0)
    outs = [(left, field[:, 1]), (right, field[:, -2]), (right, nothing), (right, sent)]
    ins = [(right, field[:, -1]), (left, field[:, 0]), (left, nothing), (left, come)]
    with world.exchange(outs, ins, scheme) as halo:
        assert halo.by_messages == (scheme == "messages")
        for turn in range(20):
            field[:, 1:-1], sent[:] = 100 * turn + rank, turn + rank
            halo.start()
            # They are the program's again, and what comes is not there before the wait.
            before = field[:, [0, -1]].copy()
            field[:, 1:-1], sent[:] = -1, -1
            assert (field[:, [0, -1]] == before).all()
            if turn % 2:
                halo.wait()
            else:
                while not halo.test():
                    pass
            assert (field[:, 0] == 100 * turn + left).all()
            assert (field[:, -1] == 100 * turn + right).all()
            assert (come == turn + left).all()
    with pytest.raises(hikyaku.Error, match="has been closed"):
        halo.start()
    return True


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("ranks", "per_node"), [(1, None), (3, None), (4, 2)])
def test_columns_and_whole_arrays_of_a_ring(scheme, ranks, per_node):
    assert all(spawn(ranks, ring, scheme, ranks_per_node=per_node))


ROUNDS = """
import hikyaku, numpy
world = hikyaku.world()
others = [rank for rank in range(4) if rank // 2 != world.rank // 2]
out, into = numpy.empty((2, 3), "i4"), numpy.empty((2, 3), "i4")
with world.exchange(list(zip(others, out)), list(zip(others, into)), SCHEME) as across:
    for turn in range(ROUNDS):
        out[:] = [[100 * turn + 10 * world.rank + to] for to in others]
        across.start()
        across.wait()
        assert (into == [[100 * turn + 10 * of + world.rank] for of in others]).all(), into
"""


def test_the_scheme_says_how_many_puts_cross_between_nodes(tmp_path):
    # Eight edges, each with a put of data and a READY-TO-RECV; combined, one of both each way.
    def crossed(scheme, rounds):
        program, records = tmp_path / "program.py", tmp_path / "records.csv"
        program.write_text(f"SCHEME, ROUNDS = {scheme!r}, {rounds}\n{ROUNDS}")
        words = ["simulate", "-m", "fx100-tofu2", "-n", "4", "--ranks-per-node", "2"]
        words += ["--records", str(records), "--", sys.executable, str(program)]
        command = [sys.executable, "-m", "hikyaku", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        lines = [line.split(",") for line in records.read_text().splitlines()]
        return sum(
            line[1] == "send" and int(line[2]) // 2 != int(line[3]) // 2 for line in lines
        )

    for scheme, expected in [("mrc", 16), ("combined", 4)]:
        assert crossed(scheme, 7) - crossed(scheme, 2) == 5 * expected, scheme


def dropped(world):
    """Nobody but the exchange has the arrays of a round in flight."""
    other = 1 - world.rank
    into = numpy.zeros(1000)
    view = memoryview(into)
    exchange = world.exchange([(other, numpy.full(1000, world.rank + 5.0))], [(other, into)])
    exchange.start()
    del into
    gc.collect()
    spoilt = [numpy.full(1000, -1.0) for _ in range(50)]
    exchange.wait()
    assert (numpy.asarray(view) == other + 5).all() and len(spoilt) == 50
    # Memory that an exchange has cannot be given another size.
    room = bytearray(8)
    kept = world.exchange([(world.rank, b"12345678")], [(world.rank, room)])
    with pytest.raises(BufferError):
        room.extend(b"more")
    kept.start()
    kept.wait()
    kept.close()
    room.extend(b"more")
    assert room == b"12345678more"
    return True


def test_an_exchange_keeps_its_arrays():
    assert all(spawn(2, dropped))


def wrong(world):
    rank, other = world.rank, 1 - world.rank
    one, frozen = numpy.zeros(4), numpy.zeros(4)
    frozen.flags.writeable = False
    for outs, ins, scheme, error, words in [
        ([(other, [1, 2])], [], None, TypeError, "outs: list is not an array"),
        ([], [(other, frozen)], None, ValueError, "ins: the array is read-only"),
        ([], [(other, numpy.broadcast_to(one, (3, 4)).T)], None, ValueError, "read-only"),
        ([(-1, one)], [], None, ValueError, "rank -1 does not exist"),
        ([], [], "tree", ValueError, "there are fast, mrc, combined and messages"),
        # What the ranks find together is an error at all of them.
        ([(other, one)], [], None, ValueError, "1 edges to rank"),
        ([(other, one[: 2 + rank])], [(other, one)], None, ValueError, "about the size"),
    ]:
        with pytest.raises(error, match=words) as raised:
            world.exchange(outs, ins, scheme)
        assert len(str(raised.value).splitlines()) == 1
    # One rank's mistake is an error at the other too.
    with pytest.raises(hikyaku.PeerError if rank else ValueError):
        world.exchange([(other if rank else 7, one)], [(other, one)])
    with world.exchange([(other, one)], [(other, one.copy())]) as exchange:
        with pytest.raises(hikyaku.Error, match="was not started"):
            exchange.wait()
        exchange.start()
        with pytest.raises(hikyaku.Error, match="in flight: wait for it first"):
            exchange.start()
        exchange.wait()
        world.barrier()
    return True


def test_mistakes_are_one_line():
    assert all(spawn(2, wrong))


def closed(world, scheme):
    other = 1 - world.rank
    exchange = world.exchange([(other, numpy.zeros(4))], [(other, numpy.zeros(4))], scheme)
    if world.rank == 0:
        exchange.close()
        world.barrier()
        return True
    exchange.start()
    with pytest.raises(hikyaku.PeerError, match="rank 0 freed its end"):
        exchange.wait()
    world.barrier()
    return True


@pytest.mark.parametrize("scheme", [None, "mrc", "messages"])
def test_an_end_that_is_closed_is_an_error_of_the_other(scheme):
    assert all(spawn(2, closed, scheme))


@pytest.mark.parametrize("scheme", [None, "messages"])
def test_a_signal_ends_a_wait_and_the_round_can_be_waited_for_again(job, scheme):
    ended = job(
        2,
        textwrap.dedent(f"""
        import os, signal, threading, time, hikyaku, numpy
        world = hikyaku.world()
        other, came = 1 - world.rank, numpy.zeros(3)
        exchange = world.exchange([(other, came + world.rank + 1)], [(other, came)], {scheme!r})
        class Enough(Exception):
            pass
        def raise_enough(*_):
            raise Enough
        if world.rank == 0:
            signal.signal(signal.SIGUSR1, raise_enough)
            exchange.start()
            threading.Timer(0.05, os.kill, [os.getpid(), signal.SIGUSR1]).start()
            try:
                exchange.wait()
            except Enough:
                world.send(b"go on", other)
            exchange.wait()
        else:
            world.recv(bytearray(5))
            exchange.start()
            exchange.wait()
        assert (came == other + 1).all()
        print("waited")
        """),
    )
    assert (ended.stderr, ended.returncode, ended.stdout.count("waited")) == ("", 0, 2)
