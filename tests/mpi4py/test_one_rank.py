"""`import hikyaku` in an mpi4py program is the same rank, whichever has joined first."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest
from programs import HIKYAKU, PATIENCE, ROOT, TARGET

ORDERS = {
    "mpi first": """
        from mpi4py import MPI
        import hikyaku
        w = hikyaku.world()
        """,
    "hikyaku first": """
        import hikyaku
        w = hikyaku.world()
        from mpi4py import MPI
        """,
    "by rank": """
        import os
        if int(os.environ["HIKYAKU_RANK"]) % 2:
            from mpi4py import MPI
        import hikyaku
        w = hikyaku.world()
        from mpi4py import MPI
        """,
}


def run(tmp_path, order, source, n=3, head="", **options):
    program = tmp_path / "program.py"
    common = "import sys, numpy\nworld = MPI.COMM_WORLD\nrank, size = world.rank, world.size\n"
    parts = [head, textwrap.dedent(ORDERS[order]), common, textwrap.dedent(source)]
    program.write_text("\n".join(parts))
    command = [HIKYAKU, "run", "-n", str(n), "--timeout", "60", "--", sys.executable, program]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, **options)


def passes(*arguments, **named):
    done = run(*arguments, **named)
    assert (done.stderr, done.returncode) == ("", 0)
    return done.stdout


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("n", [1, 3])
def test_both_are_one_rank_with_one_memory(tmp_path, order, n):
    passes(
        tmp_path,
        order,
        """
        assert (w.rank, w.size) == (rank, size)
        right, left = (rank + 1) % size, (rank - 1) % size
        # A message that one sends the other receives.
        into = numpy.empty(5)
        request = w.isend(numpy.full(5, rank, "d"), right, tag=3)
        world.Recv(into, left, 3)
        request.wait()
        assert (into == left).all()
        request = world.Isend(numpy.full(5, rank + 10, "d"), right, 4)
        w.recv(into, left, 4)
        request.Wait()
        assert (into == left + 10).all()
        # Objects of hikyaku have a communicator of their own.
        assert w.allgather_object(rank) == list(range(size))
        # Collectives of both, in turns, blocking and not.
        for turn in range(20):
            numbers = numpy.full(4, rank + turn, "i8")
            w.allreduce(numbers)
            assert (numbers == size * turn + size * (size - 1) // 2).all()
            assert world.allreduce(rank) == size * (size - 1) // 2
            pending = world.Ibarrier()
            w.barrier()
            pending.Wait()
        # Communicators of both.
        half, part = w.split(rank % 2), world.Split(rank % 2)
        assert (half.rank, half.size) == (part.rank, part.size)
        assert half.allgather_object(rank) == part.allgather(rank)
        copy = w.duplicate()
        copy.barrier()
        """,
        n=n,
    )


@pytest.mark.parametrize("order", ORDERS)
def test_shared_arrays_and_windows(tmp_path, order):
    passes(
        tmp_path,
        order,
        """
        x = w.shared("x", 4, "i8")
        for turn in range(200):
            with x.write() as a:
                a[turn % 4] += 1
        # A rank that is in a call of MPI gives the variable to who asks.
        if rank == 0:
            world.recv(source=1)
        else:
            for turn in range(100):
                with x.write() as a:
                    a[0] += 1
            if rank == 1:
                world.send(None, 0)
        world.Barrier()
        with x.read() as a:
            assert a.sum() == 200 * size + 100 * (size - 1), a
        window = w.window(size, "i8")
        window.fetch_add(0, rank, 1 + rank)
        world.Barrier()
        if rank == 0:
            whole = numpy.empty(size, "i8")
            window.get(0, whole)
            assert whole.tolist() == [1 + of for of in range(size)]
        w.barrier()
        window.close()
        """,
        n=4,
    )


def test_other_threads_are_in_mpi_meanwhile(tmp_path):
    passes(
        tmp_path,
        "mpi first",
        """
        import gc, threading
        assert MPI.Query_thread() == MPI.THREAD_MULTIPLE
        own = world.Dup()
        stop = False

        def exchange():
            # Calls that keep the interpreter, calls that let it go, and objects that MPI frees.
            turn = 0
            while True:
                over = own.allreduce(stop, MPI.LAND)
                group = own.Get_group()
                assert own.rank == rank and group.size == size
                numbers = numpy.full(20_000, turn, "d")
                own.Sendrecv_replace(numbers, (rank + 1) % size, 0, (rank - 1) % size, 0)
                assert (numbers == turn).all()
                turn += 1
                if over:
                    return

        threads = [threading.Thread(target=exchange)]
        [thread.start() for thread in threads]
        x = w.shared("x", 1, "i8")
        for turn in range(300):
            numbers = numpy.full(1 + turn * 50, turn, "i8")
            w.allreduce(numbers)
            assert (numbers == turn * size).all()
            assert w.allgather_object(turn) == [turn] * size
            with x.write() as a:
                a[0] += 1
            requests = [w.irecv(numpy.empty(3), (rank - 1) % size, 9)]
            requests.append(w.isend(numpy.empty(3), (rank + 1) % size, 9))
            [request.wait() for request in requests]
            del requests
            if turn % 50 == 0:
                gc.collect()
        stop = True
        [thread.join() for thread in threads]
        w.barrier()
        with x.read() as a:
            assert a[0] == 300 * size
        """,
        n=2,
    )


def test_a_wait_lets_other_threads_of_this_rank_end_it(tmp_path):
    passes(
        tmp_path,
        "mpi first",
        """
        import threading, time
        other = (rank + 1) % size

        def late():
            time.sleep(0.2)
            world.Send(numpy.full(1, rank, "d"), other, 5)

        thread = threading.Thread(target=late)
        thread.start()
        into = numpy.empty(1)
        w.recv(into, (rank - 1) % size, 5)
        thread.join()
        assert into[0] == (rank - 1) % size
        """,
        n=2,
    )


def test_ctrl_c_ends_a_wait_of_hikyaku_in_an_mpi_program(tmp_path):
    said = passes(
        tmp_path,
        "mpi first",
        """
        import os, signal, threading
        def handler(*_):
            # A handler may call either.
            assert world.Get_rank() == w.rank
            raise KeyboardInterrupt
        signal.signal(signal.SIGUSR1, handler)
        if rank == 0:
            timer = threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGUSR1])
            timer.start()
            try:
                w.recv(numpy.empty(1), 1, 5)
            except KeyboardInterrupt:
                print("ended")
        world.Barrier()
        """,
        n=2,
    )
    assert said == "ended\n"


def test_another_build_is_one_line(tmp_path):
    """A library of another release that has joined the job is named, and what to do."""
    source = tmp_path / "other.c"
    source.write_text(
        """
        struct answer { const char *build; unsigned long bytes; int joined; void *a, *b; };
        void hikyaku_rank_here(const char *build, unsigned long bytes, struct answer *answer) {
            (void)build, (void)bytes;
            *answer = (struct answer){"0.0.1, build of old", 19, 1, 0, 0};
        }
        """
    )
    library = tmp_path / "libother.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    program = tmp_path / "program.py"
    program.write_text("import hikyaku\nhikyaku.world()\n")
    command = [sys.executable, program]
    environment = os.environ | {"LD_PRELOAD": str(library)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    line = done.stderr.splitlines()[-1]
    assert done.returncode == 1
    assert line.startswith(
        f"hikyaku.Error: `{library}`, which is hikyaku 0.0.1, build of old, is the rank of this "
        "process, and hikyaku 0."
    )
    assert line.endswith(" cannot be the same: install both from one build")


@pytest.mark.parametrize("n", [1, 4])
def test_the_example_counts_right(n):
    example = ROOT / "examples" / "mpi" / "shared.py"
    command = [TARGET / "debug" / "hikyaku", "run", "-n", str(n), "--", sys.executable, example]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout == f"{n * 10_000} numbers of {n} ranks, as counted by one\n"
