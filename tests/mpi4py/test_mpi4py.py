"""Programs written for mpi4py run on hikyaku unchanged: its wheel from PyPI, no variable set."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from programs import HEAD, TARGET, start


@pytest.mark.parametrize("n", [1, 3])
def test_it_is_hikyaku(job, n):
    said = job(
        n,
        """
        assert MPI.Get_version() == (5, 0)
        assert MPI.Query_thread() == MPI.THREAD_MULTIPLE
        assert world.name == "MPI_COMM_WORLD" and MPI.COMM_SELF.size == 1
        print(size, MPI.Get_library_version())
        """,
    )
    lines = said.splitlines()
    assert len(lines) == n
    assert all(line.startswith(f"{n} hikyaku ") for line in lines)


def test_a_program_without_a_launcher_is_one_rank(tmp_path):
    program = tmp_path / "alone.py"
    program.write_text(HEAD + "print(size, world.allreduce(5))")
    path = str(TARGET / "debug" / "mpi")
    environment = os.environ | {"LD_LIBRARY_PATH": path, "MPI4PY_LIBMPI": f"{path}/libmpi.so.12"}
    command = [sys.executable, program]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (done.stdout, done.stderr) == ("1 5\n", "")


@pytest.mark.parametrize("n", [1, 2, 4])
def test_messages(job, n):
    job(
        n,
        """
        right, left = (rank + 1) % size, (rank - 1) % size
        for length in [0, 1, 7, 1000, 100_000]:
            out, into = numpy.full(length, rank, "d"), numpy.empty(length + 3, "d")
            status = MPI.Status()
            world.Sendrecv(out, right, 5, into, left, MPI.ANY_TAG, status)
            assert (into[:length] == left).all()
            assert (status.source, status.tag) == (left, 5)
            assert status.Get_count(MPI.DOUBLE) == length
            requests = [world.Irecv(into, left, 6), world.Issend(out, right, 6)]
            MPI.Request.Waitall(requests)
            assert (into[:length] == left).all()
        persistent = [world.Send_init(out, right, 7), world.Recv_init(into, left, 7)]
        for turn in range(5):
            out[:] = rank + turn
            MPI.Prequest.Startall(persistent)
            MPI.Request.Waitall(persistent)
            assert (into[:length] == left + turn).all()
        assert world.sendrecv({"from": rank}, right, source=left) == {"from": left}
        requests = [world.isend(rank, to, 8) for to in range(size)]
        heard = sorted(world.recv(source=MPI.ANY_SOURCE, tag=8) for _ in range(size))
        assert heard == list(range(size))
        MPI.Request.waitall(requests)
        """,
    )


def test_data_with_gaps(job):
    job(
        2,
        """
        table = numpy.arange(60, dtype="i").reshape(6, 10)
        column = MPI.INT.Create_vector(6, 1, 10).Commit()
        box = MPI.INT.Create_subarray([6, 10], [2, 3], [1, 4]).Commit()
        if rank == 0:
            world.Send([table[0, 3:], 1, column], 1)
            world.Send([table, 1, box], 1)
        else:
            into, inside = numpy.zeros(6, "i"), numpy.zeros((6, 10), "i")
            world.Recv(into, 0)
            assert (into == table[:, 3]).all()
            world.Recv([inside, 1, box], 0)
            assert (inside[1:3, 4:7] == table[1:3, 4:7]).all()
            assert inside.sum() == table[1:3, 4:7].sum()
        assert column.Get_extent() == (0, 204) and column.Get_size() == 24
        """,
    )


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_collectives(job, n):
    job(
        n,
        """
        ranks = list(range(size))
        mine, into = numpy.full(1000, rank, "d"), numpy.empty(1000, "d")
        for started in [False, True]:
            if started:
                world.Iallreduce(mine, into).Wait()
            else:
                world.Allreduce(mine, into)
            assert (into == sum(ranks)).all()
        kept = world.Bcast_init(into, 0)
        for turn in range(3):
            into[:] = turn if rank == 0 else -1
            kept.Start()
            kept.Wait()
            assert (into == turn).all()
        assert world.bcast("word" if rank == 0 else None) == "word"
        assert world.allgather(rank) == ranks
        assert world.alltoall([(rank, to) for to in ranks]) == [(of, rank) for of in ranks]
        assert world.scan(rank) == sum(ranks[: rank + 1])
        assert world.gather(rank, 0) == (ranks if rank == 0 else None)
        counts = [of + 1 for of in ranks]
        all = numpy.empty(sum(counts), "i")
        world.Allgatherv(numpy.full(rank + 1, rank, "i"), [all, counts])
        assert all.tolist() == [of for of in ranks for _ in range(of + 1)]
        own = MPI.Op.Create(lambda a, b, _: numpy.copyto(
            numpy.frombuffer(b, "i"), numpy.frombuffer(a, "i") * 10 + numpy.frombuffer(b, "i")))
        digit, number = numpy.array([rank + 1], "i"), numpy.zeros(1, "i")
        world.Reduce(digit, number, own, 0)
        own.Free()
        extreme = world.allreduce((rank % 2, rank), MPI.MAXLOC)
        assert extreme == ((1, 1) if size > 1 else (0, 0))
        """,
    )


def test_communicators(job):
    job(
        4,
        """
        half = world.Split(rank % 2, -rank)
        assert half.size == 2 and half.allgather(rank) == [2 + rank % 2, rank % 2]
        some = world.Create_group(world.group.Incl([3, 1])) if rank % 2 else MPI.COMM_NULL
        if rank % 2:
            assert some.allgather(rank) == [3, 1]
            some.Free()
        node = world.Split_type(MPI.COMM_TYPE_SHARED)
        assert node.size == 4 and MPI.Comm.Compare(node, world) == MPI.CONGRUENT
        for _ in range(300):
            world.Dup().Free()
            half.Dup().Free()
        seen = []
        key = MPI.Comm.Create_keyval(lambda c, k, v: v + 1, lambda c, k, v: seen.append(v))
        half.Set_attr(key, 5)
        copy = half.Dup()
        assert copy.Get_attr(key) == 6
        copy.Free()
        assert seen == [6] and world.Get_attr(MPI.TAG_UB) == 2**31 - 1
        half.Free()
        """,
    )


def test_what_is_wrong_is_an_error_of_its_class(job):
    job(
        2,
        """
        one = numpy.zeros(1, "i")
        fails(MPI.ERR_RANK, world.Send, one, 2)
        fails(MPI.ERR_TAG, world.Send, one, 0, -5)
        fails(MPI.ERR_ROOT, world.Bcast, one, 9)
        fails(MPI.ERR_TYPE, world.Send, [one, 1, MPI.INT.Create_vector(1, 1, 1)], 0)
        fails(MPI.ERR_OP, world.Allreduce, numpy.zeros(1), numpy.zeros(1), MPI.BAND)
        if rank == 0:
            world.Send(numpy.zeros(4, "i"), 1)
        else:
            fails(MPI.ERR_TRUNCATE, world.Recv, one, 0)
        fails(MPI.ERR_UNSUPPORTED_OPERATION, MPI.Win.Create, one)
        """,
    )


def test_an_error_that_nobody_handles_ends_all_with_one_line_that_says_why(tmp_path):
    done = start(
        tmp_path,
        ["run", "-n", "2"],
        """
        world.Set_errhandler(MPI.ERRORS_ARE_FATAL)
        if rank == 0:
            world.Send(numpy.zeros(1), 7)
        world.Barrier()
        """,
    )
    line = (
        "rank 0 of MPI_COMM_WORLD, MPI_Send_c: `dest`: rank 7 does not exist: MPI_COMM_WORLD has "
        "ranks 0 to 1 (the rank is not valid)"
    )
    assert done.returncode == 6
    assert line in done.stderr.splitlines()


def test_a_rank_that_dies_is_an_error_at_the_others(tmp_path):
    done = start(
        tmp_path,
        ["run", "-n", "2", "--grace", "10"],
        """
        import os, signal
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            world.recv(source=1)
        except MPI.Exception as error:
            assert error.Get_error_class() == MPI.ERR_PROC_ABORTED
            assert "rank 1 (pid " in str(error), error
            print("told")
        """,
    )
    assert (done.returncode, done.stdout) == (137, "told\n")


def test_the_same_program_in_virtual_time(tmp_path):
    program = """
    begin = MPI.Wtime()
    for _ in range(10):
        world.allreduce(rank)
    if rank == 0:
        print(f"{(MPI.Wtime() - begin) * 1e6:.3f}")
    """
    words = ["simulate", "--machine", "cenju4", "--ranks", "4"]
    first, second = (start(tmp_path, words, program) for _ in range(2))
    assert first.returncode == 0, first.stderr
    assert first.stdout.splitlines()[0] == second.stdout.splitlines()[0]
    assert float(first.stdout.splitlines()[0]) > 10
