"""Programs in which faults were found from outside."""

import re

import pytest


@pytest.fixture(params=["direct", "fagus", "udp"])
def protocol(request, monkeypatch):
    """Every protocol of shared variables, for the ranks of the test's jobs."""
    monkeypatch.setenv("HIKYAKU_SHARED", request.param)


@pytest.mark.parametrize("options", [(), ("--coll", "broadcast=pipelined")])
@pytest.mark.usefixtures("protocol")
def test_a_variable_between_broadcasts_of_more_than_rings_hold(job, options):
    ended = job(
        3,
        """
        import hikyaku, numpy
        world = hikyaku.world()
        variable = world.shared("x", (4,), "f8")
        data = numpy.zeros(50_000)
        for turn in range(40):
            with variable.write() as values:
                values[0] += 1
            if world.rank == turn % world.size:
                data[:] = turn
            world.bcast(data, turn % world.size)
            assert (data == turn).all()
        world.barrier()
        with variable.read() as values:
            assert values[0] == 120
        """,
        "--timeout",
        "60",
        *options,
    )
    assert (ended.stderr, ended.returncode) == ("", 0)


@pytest.mark.usefixtures("protocol")
def test_who_has_shared_a_variable_and_leaves_is_missed(job):
    ended = job(
        3,
        """
        import hikyaku, sys
        world = hikyaku.world()
        variable = world.shared("x", (4,), "f8")
        with variable.write() as values:
            values[0] += 1
        if world.rank == 0:
            sys.exit(0)
        try:
            world.barrier()
        except hikyaku.PeerError as error:
            print("told:", error, flush=True)
        """,
        "--timeout",
        "60",
    )
    assert (ended.stderr, ended.returncode) == ("", 0)
    lines = ended.stdout.splitlines()
    assert len(lines) == 2 and all(line.startswith("told: ") for line in lines)
    assert any("rank 0 has left the job" in line for line in lines)


@pytest.mark.usefixtures("protocol")
def test_a_wait_for_a_variable_names_it_and_who_has_it(job):
    ended = job(
        3,
        """
        import hikyaku, signal
        world = hikyaku.world()
        variable = world.shared("field", (4,), "f8")
        if world.rank == 0:
            with variable.write():
                world.barrier()
                signal.pause()
        world.barrier()
        [variable.write, variable.read][world.rank - 1]().__enter__()
        """,
        "--timeout",
        "4",
    )
    assert ended.returncode == 124
    for rank, way in [(1, "write"), (2, "read")]:
        told = rf"rank {rank} \(pid \d+\) waits in acquisition of shared variable 'field' to {way}, "
        assert re.search(told + r"held by rank 0, for [0-4]\.\d s", ended.stderr), ended.stderr


UNMATCHED = """
    import hikyaku, numpy
    world = hikyaku.world()
    message = numpy.zeros(1024, "u1")
    if world.rank == 0:
        for number in range({count}):
            world.send(message, 1, 0)
        world.send(message, 1, 1)
    else:
        world.recv(message, 0, 1)
        for number in range({count}):
            world.recv(message, 0, 0)
    """


def test_many_messages_may_be_in_the_way_of_another(job):
    ended = job(2, UNMATCHED.format(count=50_000), "--timeout", "60")
    assert (ended.stderr, ended.returncode) == ("", 0)


def test_messages_in_the_way_beyond_the_limit_are_told(job, monkeypatch):
    monkeypatch.setenv("HIKYAKU_UNMATCHED", "1")
    ended = job(2, UNMATCHED.format(count=5_000), "--timeout", "4")
    assert ended.returncode == 124
    told = r"rank 1 \(pid \d+\) waits in receive from rank 0, tag 1, and holds \d+ unmatched messages"
    assert re.search(told, ended.stderr), ended.stderr


WRONG = {
    "scan": "world.scan(data)",
    "allreduce": "world.allreduce(data)",
    "bcast": "world.bcast(data, 0)",
}


@pytest.mark.parametrize("ranks_per_node", [1, 3])
@pytest.mark.parametrize("lonely", [0, 2])
@pytest.mark.parametrize(
    ("usual", "other"),
    [
        *((call, "world.barrier()") for call in WRONG.values()),
        *(("world.barrier()", call) for call in WRONG.values()),
        ("world.bcast(data, 0)", "world.bcast(data, 1)"),
        ("world.allreduce(data)", "world.allreduce(data.view('i8'))"),
        ("world.allreduce(data)", "world.allreduce(data, 'max')"),
        ("world.reduce(data, root=1)", "world.reduce(data, root=2)"),
    ],
)
def test_ranks_that_call_different_things_are_told(job, usual, other, lonely, ranks_per_node):
    ended = job(
        3,
        f"""
        import hikyaku, numpy
        world = hikyaku.world()
        data = numpy.full(3, float(world.rank))
        try:
            if world.rank == {lonely}:
                {other}
            else:
                {usual}
            # A rank that only sends was done before it could know.
            world.barrier()
            print("ok")
        except hikyaku.Error as error:
            print(error)
        """,
        "--timeout",
        "30",
        "--ranks-per-node",
        str(ranks_per_node),
    )
    assert (ended.stderr, ended.returncode) == ("", 0)
    lines = ended.stdout.splitlines()
    assert len(lines) == 3
    # The second, where the other rank has not been heard of for long.
    told = r"rank \d called .* where rank \d called|.* it called another collective"
    assert any(re.match(told, line) for line in lines), lines
