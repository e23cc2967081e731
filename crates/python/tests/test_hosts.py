"""Ranks of two hosts, which are both this machine: what goes between them goes by libfabric."""

import subprocess
import sys

import pytest

# Runs a daemon's command line where it is, whatever the host.
AGENT = "sh -c 'exec sh -c \"$1\"'"


@pytest.fixture
def hosts(job):
    """hosts(source): runs a program on two ranks of each of two hosts."""
    found = subprocess.run([sys.executable, "-m", "hikyaku", "fabric", "list"], capture_output=True)
    if found.returncode != 0:
        pytest.skip(found.stderr.decode())
    return lambda source: job(4, source, "--hosts", "a:2,b:2", "--launcher-exec", AGENT)


def test_ranks_of_two_hosts_work_together(hosts):
    ended = hosts(
        """
        import hikyaku, numpy
        world = hikyaku.world()
        rank, size = world.rank, world.size
        right, left = (rank + 1) % size, (rank - 1) % size
        # Short ones, and some that are fetched.
        for length in (1, 1000, 500_000):
            heard = numpy.empty(length, "i8")
            world.sendrecv(numpy.full(length, rank), right, heard, left)
            assert (heard == left).all()
            world.allreduce(heard)
            assert (heard == 6).all()
        assert world.allgather_object({"rank": rank}) == [{"rank": r} for r in range(size)]
        x = world.shared("between hosts", (4, 100), "f8")
        for turn in range(5):
            with x.write() as a:
                a[rank] += turn
        world.barrier()
        with x.read() as a:
            assert (a == 10).all()
        print(rank)
        """
    )
    assert (ended.stderr, ended.returncode) == ("", 0)
    assert sorted(ended.stdout.split()) == ["0", "1", "2", "3"]


def test_an_error_names_the_host_of_the_rank_that_is_gone(hosts):
    ended = hosts(
        """
        import hikyaku, numpy, os
        world = hikyaku.world()
        world.barrier()
        if world.rank == 3:
            os._exit(7)
        try:
            world.recv(numpy.empty(1), 3)
        except hikyaku.PeerError as error:
            print(f"{world.rank}: {error}")
        """
    )
    lines = sorted(ended.stdout.splitlines())
    assert len(lines) == 3, (ended.stdout, ended.stderr)
    for rank, line in enumerate(lines):
        assert line.startswith(f"{rank}: rank 3 (pid ")
        assert line.endswith(" on host b died: exited with code 7 before it left the job")


def test_messages_advance_while_a_rank_works_beside(hosts):
    ended = hosts(
        """
        import hikyaku, numpy, os, time
        world = hikyaku.world()
        told, length = __file__ + ".told", 8 << 20
        world.barrier()
        if world.rank == 2:
            world.send(numpy.full(length, 7, "u1"), 0)
            open(told, "w").close()
        elif world.rank == 0:
            def work(limit):
                start = time.monotonic()
                while not os.path.exists(told) and time.monotonic() < start + limit:
                    time.sleep(0.001)
                return os.path.exists(told)
            into = numpy.zeros(length, "u1")
            request = world.irecv(into, 2)
            print(world.overlap(work, limit=60))
            request.wait()
            assert (into == 7).all()
            try:
                world.overlap(lambda: 1 / 0)
            except ZeroDivisionError as error:
                print(error)
        """
    )
    assert (ended.stderr, ended.returncode) == ("", 0)
    assert ended.stdout.splitlines() == ["True", "division by zero"]
