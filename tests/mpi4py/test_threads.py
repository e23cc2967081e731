"""Threads that call MPI at any time (MPI_THREAD_MULTIPLE), as mpi4py programs ask for by default."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
from programs import HEAD, HIKYAKU, PATIENCE, start

# What the programs have: `together` runs functions in threads and passes on what they raise.
THREADS = """
import threading

def together(*functions):
    raised = []
    def guarded(function):
        try:
            function()
        except BaseException as error:
            raised.append(error)
    threads = [threading.Thread(target=guarded, args=[function]) for function in functions]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    if raised:
        raise raised[0]

def each(n, function):
    together(*[lambda number=number: function(number) for number in range(n)])

"""


def program(source: str) -> str:
    return THREADS + textwrap.dedent(source)


@pytest.fixture
def threads(job):
    return lambda n, source: job(n, program(source))


def test_levels_are_as_asked_for(threads):
    threads(
        2,
        """
        assert MPI.Query_thread() == MPI.THREAD_MULTIPLE
        seen = [MPI.Is_thread_main()]
        together(lambda: seen.append(MPI.Is_thread_main()))
        assert seen == [True, False]
        """,
    )


@pytest.mark.parametrize("level", ["single", "funneled", "serialized", "multiple"])
def test_a_lower_level_is_provided_too(tmp_path, level):
    source = f"""
    assert MPI.Query_thread() == MPI.THREAD_{level.upper()}
    assert world.allreduce(1) == 2
    """
    head = f"import mpi4py\nmpi4py.rc.thread_level = '{level}'\n"
    file = tmp_path / "level.py"
    file.write_text(head + HEAD + textwrap.dedent(source))
    command = [HIKYAKU, "run", "-n", "2", "--", sys.executable, file]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")


def test_in_virtual_time_threads_take_turns(tmp_path):
    words = ["simulate", "--machine", "cenju4", "--ranks", "2"]
    done = start(tmp_path, words, "assert MPI.Query_thread() == MPI.THREAD_SERIALIZED")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("n", "count"), [(1, 2), (2, 2), (2, 8), (4, 4)])
def test_threads_play_ping_pong(threads, n, count):
    threads(
        n,
        f"""
        def play(number):
            right, left = (rank + 1) % size, (rank - 1) % size
            for length in [0, 1, 5, 500, 20_000, 200_000]:
                out = numpy.full(length, rank * 100 + number, "d")
                into = numpy.empty(length, "d")
                for turn in range(5):
                    request = world.Isend(out, right, number)
                    status = MPI.Status()
                    world.Recv(into, left, number, status)
                    request.Wait()
                    assert (status.source, status.tag) == (left, number)
                    assert (into == left * 100 + number).all()

        each({count}, play)
        """,
    )


def test_threads_of_two_ranks_block_each_other_and_nobody_else(threads):
    threads(
        2,
        """
        other, one = 1 - rank, numpy.zeros(1, "i")
        # Blocking both ways, in an order that only threads can keep.
        def first():
            world.Recv(one, other, 1)
        def second():
            world.Ssend(numpy.ones(1, "i"), other, 1)
        together(first, second)
        assert one[0] == 1
        """,
    )


def test_a_rank_may_wait_for_another_thread_of_its_own(threads):
    threads(
        2,
        """
        long = numpy.arange(300_000)
        into = numpy.empty_like(long)
        together(
            lambda: world.Send(long, rank, 1),
            lambda: (world.Recv(bytearray(1), rank, 2), world.Recv(into, rank, 1)),
            lambda: world.Ssend(bytearray(1), rank, 2),
        )
        assert (into == long).all()
        # More than the own ring holds, with nobody there yet who takes it.
        def send():
            requests = [world.Isend(long[:5000], rank, 3) for _ in range(400)]
            MPI.Request.Waitall(requests)
            world.Send(bytearray(1), rank, 4)
        def take():
            world.Recv(bytearray(1), rank, 4)
            for _ in range(400):
                world.Recv(into, rank, 3)
        together(send, take)
        """,
    )


@pytest.mark.parametrize(("n", "count"), [(2, 2), (3, 4), (4, 8)])
def test_each_thread_has_a_communicator_and_makes_collectives(threads, n, count):
    threads(
        n,
        f"""
        parents = [world.Dup() for _ in range({count})]

        def compute(number):
            # Made at once, by all threads, in another order at each rank.
            own = parents[number].Dup()
            half = own.Split(rank % 2, -rank)
            some = own.Create_group(own.group.Incl(list(range(size))[::-1]), number)
            ranks = list(range(size))
            mine, into = numpy.full(300, rank + number, "d"), numpy.empty(300, "d")
            for turn in range(10):
                for comm in [own, some]:
                    comm.Allreduce(mine, into)
                    assert (into == sum(ranks) + size * number).all()
                    comm.Barrier()
                    assert comm.bcast((turn, number) if comm.rank == 0 else None) == (turn, number)
                    request = comm.Iallreduce(mine, into)
                    request.Wait()
                    assert (into == sum(ranks) + size * number).all()
                assert own.gather(rank, 0) == (ranks if rank == 0 else None)
                assert half.allgather(rank) == sorted(ranks[rank % 2 :: 2], reverse=True)
            [comm.Free() for comm in [own, half, some]]

        together(*[lambda number=number: compute(number)
                   for number in sorted(range({count}), key=lambda it: it * (rank + 1) % 7)])
        """,
    )


def test_groups_with_different_tags_are_made_at_once(threads):
    threads(
        2,
        """
        for turn in range(10):
            def make(tag):
                made = world.Create_group(world.group, tag)
                assert made.allgather((rank, tag)) == [(0, tag), (1, tag)]
                made.Free()
            tags = [7, 8, 9]
            each(3, lambda at: make(tags[(at + rank) % 3]))
        """,
    )


def test_some_block_while_another_computes_and_sends(threads):
    threads(
        2,
        """
        heard = []
        def listen(tag):
            into = numpy.empty(1, "i")
            for _ in range(50):
                world.Recv(into, MPI.ANY_SOURCE, tag)
                heard.append(int(into[0]))
        def compute():
            for turn in range(50):
                numpy.linalg.svd(numpy.ones((20, 20)))
                for tag in range(3):
                    world.Send(numpy.array([turn], "i"), 1 - rank, tag)
        together(*[lambda tag=tag: listen(tag) for tag in range(3)], compute)
        assert sorted(heard) == sorted(list(range(50)) * 3)
        """,
    )


def test_many_threads_wait_for_any(threads):
    threads(
        2,
        """
        def wait(number):
            tags = [number * 10 + at for at in range(5)]
            for turn in range(10):
                places = [numpy.empty(100, "i") for _ in tags]
                receives = [world.Irecv(into, 1 - rank, tag) for into, tag in zip(places, tags)]
                sends = [world.Isend(numpy.full(100, tag, "i"), 1 - rank, tag)
                         for tag in reversed(tags)]
                barrier = comms[number].Ibarrier()
                found = [MPI.Request.Waitany(receives) for _ in range(3)]
                while True:
                    some = MPI.Request.Waitsome(receives)
                    if some is None:
                        break
                    found += some
                assert sorted(found) == list(range(5))
                assert all((into == tag).all() for into, tag in zip(places, tags))
                MPI.Request.Waitall([*sends, barrier])

        comms = [world.Dup() for _ in range(6)]
        each(6, wait)
        """,
    )


def test_matched_probes_share_messages_out(threads):
    threads(
        3,
        """
        taken = []
        def work(_):
            while True:
                status = MPI.Status()
                message = world.Mprobe(MPI.ANY_SOURCE, MPI.ANY_TAG, status)
                into = numpy.empty(status.Get_count(MPI.INT), "i")
                message.Recv(into)
                assert len(into) == status.tag
                if status.tag == 0:
                    return
                taken.append((status.source, int(into[0])))
        def send():
            for turn in range(100):
                out = numpy.full(turn % 40 + 1, turn, "i")
                for to in range(size):
                    world.Send(out, to, len(out))
            world.Barrier()
            for _ in range(4):
                world.Send(numpy.empty(0, "i"), rank, 0)
        together(*[lambda: work(0)] * 4, send)
        assert sorted(taken) == [(of, turn) for of in range(size) for turn in range(100)]
        """,
    )


def test_functions_of_the_program_may_call_and_wait(threads):
    threads(
        2,
        """
        stop = []
        def ask():
            # Holds the interpreter while it is in MPI.
            while not stop:
                world.Get_rank()
                MPI.Wtime()
        def add(one, other, _):
            world.Get_size()
            into = numpy.frombuffer(other, "i")
            numpy.copyto(into, numpy.frombuffer(one, "i") + into)
        def reduce(number):
            own = MPI.Op.Create(add, commute=True)
            into = numpy.empty(10, "i")
            for turn in range(30):
                comms[number].Allreduce(numpy.full(10, rank + turn, "i"), into, own)
                assert (into == 2 * turn + 1).all()
            own.Free()
            seen.append(number)
            if len(seen) == 3:
                stop.append(1)
        seen = []
        comms = [world.Dup() for _ in range(3)]
        key = MPI.Comm.Create_keyval(lambda comm, key, value: comm.Get_size())
        world.Set_attr(key, 1)
        together(ask, *[lambda number=number: reduce(number) for number in range(3)])
        """,
    )


def test_threads_that_wait_use_no_processor(threads):
    said = threads(
        2,
        """
        import time
        comms = [world.Dup() for _ in range(2)]
        def probe():
            world.Probe(1 - rank, 8)
            world.Recv(bytearray(1), 1 - rank, 8)
        def wake():
            began, used = time.monotonic(), time.process_time()
            time.sleep(2)
            part = (time.process_time() - used) / (time.monotonic() - began)
            print("idle" if part < 0.1 else part)
            for tag in range(3):
                world.Send(bytearray(1), 1 - rank, tag)
            world.Send(bytearray(1), 1 - rank, 8)
            comms[0].Barrier() if rank else comms[1].Allreduce(numpy.ones(1), numpy.ones(1))
        waits = [lambda tag=tag: world.Recv(bytearray(1), MPI.ANY_SOURCE, tag) for tag in range(3)]
        waits.append(lambda: comms[1].Allreduce(numpy.ones(1), numpy.ones(1)) if rank else
                     comms[0].Barrier())
        together(*waits, probe, wake)
        """,
    )
    assert said == "idle\nidle\n"


def test_all_threads_are_told_of_a_death(tmp_path):
    source = program(
        """
        import os, signal
        comms = [world.Dup() for _ in range(2)]
        told = []
        def expect(call):
            try:
                call()
            except MPI.Exception as error:
                assert error.Get_error_class() == MPI.ERR_PROC_ABORTED, error
                told.append(1)
        def die():
            world.Recv(bytearray(1), 0, 5)
            os.kill(os.getpid(), signal.SIGKILL)
        def kill():
            import time
            time.sleep(0.5)
            world.Send(bytearray(1), 1, 5)
        def waitany():
            MPI.Request.Waitany([world.Irecv(bytearray(1), 1, tag) for tag in (6, 7)])
        if rank == 1:
            together(die, lambda: world.Recv(bytearray(1), 0, 9))
        together(
            kill,
            lambda: expect(lambda: world.Recv(bytearray(1), 1, 1)),
            lambda: expect(lambda: world.Recv(bytearray(1), MPI.ANY_SOURCE, 1)),
            lambda: expect(lambda: world.Ssend(bytearray(1), 1, 2)),
            lambda: expect(lambda: world.Probe(1, 3)),
            lambda: expect(lambda: comms[0].Barrier()),
            lambda: expect(lambda: comms[1].Allreduce(numpy.ones(9000), numpy.ones(9000))),
            lambda: expect(waitany),
        )
        print(len(told))
        """
    )
    done = start(tmp_path, ["run", "-n", "2", "--grace", "20"], source)
    assert (done.returncode, done.stdout) == (137, "7\n"), done.stderr


def test_an_error_of_one_thread_is_no_other_threads(threads):
    threads(
        2,
        """
        def wrong(number):
            for _ in range(50):
                try:
                    world.Send(bytearray(1), 100 + number)
                except MPI.Exception as error:
                    assert error.Get_error_class() == MPI.ERR_RANK
                else:
                    raise AssertionError("it was sent")
        def right(number):
            for _ in range(50):
                into = bytearray(9)
                world.Sendrecv(bytes([number] * 9), 1 - rank, number, into, 1 - rank, number)
                assert into == bytes([number] * 9)
        together(*[lambda number=number: call(number)
                   for number in range(3) for call in (wrong, right)])
        """,
    )
