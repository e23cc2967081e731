"""Programs under ``hikyaku run``: how ranks find each other, how they end, and what ends a wait."""

import signal
import subprocess
import sys

import pytest


def test_ranks_find_each_other(job):
    ended = job(
        3,
        """
        import hikyaku, numpy
        world = hikyaku.world()
        right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
        heard = numpy.empty(1, "i8")
        world.sendrecv(numpy.array([world.rank]), right, heard, left)
        total = numpy.array([heard[0]])
        world.allreduce(total)
        assert (heard[0], total[0]) == (left, 3)
        print(f"rank {world.rank} of {world.size} on node {world.node} of {world.nodes}")
        """,
        "--ranks-per-node",
        "2",
    )
    assert (ended.stderr, ended.returncode) == ("", 0)
    expected = {f"rank {r} of 3 on node {r // 2} of 2" for r in range(3)}
    assert set(ended.stdout.splitlines()) == expected


def test_options_of_the_command(job):
    source = "import os; print(os.environ['HIKYAKU_RANK'], os.environ.get('HIKYAKU_COLL_BARRIER'))"
    ended = job(2, source, "--label", "--coll", "barrier=dissemination", "--bind", "none")
    assert sorted(ended.stdout.splitlines()) == ["[0] 0 dissemination", "[1] 1 dissemination"]
    ended = job(2, source, "--coll", "barrier=sync")
    assert sorted(ended.stdout.splitlines()) == ["0 sync", "1 sync"]
    for options, words in [
        (["--coll", "barrier=rong"], "rong"),
        (["--hosts", "a:1,b:1", "--coll", "barrier=sync"], "needs ranks that share memory"),
        (["--timeout", "0"], "more than 0 seconds"),
        (["--ranks-per-node", "0"], "at least one rank"),
    ]:
        ended = job(2, source, *options)
        assert ended.returncode == 2 and words in ended.stderr
    assert job(0, source).returncode == 2
    assert "at least one rank" in job(0, source).stderr


def test_ranks_that_poll_on_one_processor_give_it_away(job):
    # One that kept it until its time is over would ask thousands of times in each round.
    ended = job(
        3,
        """
        import os
        os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
        import hikyaku, numpy
        world = hikyaku.world()
        right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
        heard, rounds = numpy.empty(1, "i8"), 50

        def vain(begin, test):
            world.barrier()
            found_nothing = 0
            for number in range(rounds):
                request = begin(number)
                while not test(request):
                    found_nothing += 1
            return found_nothing // rounds

        def message(number):
            request = world.irecv(heard, left, 1)
            world.send(numpy.array([number]), right, 1)
            return request

        def probed(number):
            world.send(numpy.array([number]), right, 2)

        def found(_):
            there = world.iprobe(left, 2)
            if there:
                world.recv(heard, left, 2)
            return there

        counts = [
            vain(message, lambda request: request.test()),
            vain(probed, found),
        ]
        assert max(counts) < 200, counts
        """,
        "--bind",
        "none",
    )
    assert (ended.stderr, ended.returncode) == ("", 0)


def test_the_program_of_the_package_has_all_commands():
    words = [sys.executable, "-m", "hikyaku", "--help"]
    told = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert told.returncode == 0
    for command in ["run", "bench", "machine", "reproduce", "simulate"]:
        assert f"\n  {command} " in told.stdout, command


# Calls of rank r that never return, on a communicator of its own, and how its line goes on.
WAITS = [
    ("world.send(long, last, 3)", "send to rank LAST, tag 3, for"),
    ("world.recv(one, last, 5)", "receive from rank LAST, tag 5, for"),
    ("world.recv(one)", "receive from any rank, any tag, for"),
    ("world.sendrecv(one, last, two, last, 6)", "receive from rank LAST, tag 6, for"),
    ("world.isend(long, last, 3).wait()", "send to rank LAST, tag 3, for"),
    ("world.irecv(one, last, 5).wait()", "receive from rank LAST, tag 5, for"),
    (
        "open = world.irecv(two, last, 8); world.irecv(one, last, 5).wait()",
        "receive from rank LAST, tag 5, for",
    ),
    ("world.probe(last, 4)", "probe for a message from rank LAST, tag 4, for"),
    ("own.barrier()", "barrier with rank"),
    ("own.bcast(one, last)", "broadcast (root LAST) with rank"),
    ("own.reduce(one, 'sum', world.rank)", "reduce (root SELF) with rank"),
    ("own.allreduce(one)", "allreduce with rank"),
    ("own.gather(one, world.rank)", "gather (root SELF) with rank"),
    ("own.scatter(None, one, last)", "scatter (root LAST) with rank"),
    ("own.allgather(one, every)", "allgather with rank"),
    ("own.alltoall(every, every.copy())", "alltoall with rank"),
    ("own.scan(one)", "scan with rank"),
]


def test_every_wait_says_what_it_waits_for(job):
    last = len(WAITS)
    calls = [call for call, _ in WAITS] + ["world.recv(one, 0, 99)"]
    lines = [line for _, line in WAITS] + ["receive from rank 0, tag 99, for"]
    ended = job(
        last + 1,
        f"""
        import hikyaku, numpy
        world = hikyaku.world()
        last = world.size - 1
        long, one, two = numpy.zeros(1 << 20, "u1"), numpy.zeros(1), numpy.zeros(1)
        every = numpy.zeros(world.size)
        for _ in range(world.rank + 1):
            own = world.duplicate()
        world.barrier()
        exec({calls!r}[world.rank])
        """,
        "--timeout",
        "30",
    )
    assert ended.returncode == 124
    assert "the job did not end within 30 s" in ended.stderr
    for rank, (call, line) in enumerate(zip(calls, lines, strict=True)):
        expected = "waits in " + line.replace("LAST", str(last)).replace("SELF", str(rank))
        told = [told for told in ended.stderr.splitlines() if f" rank {rank} (pid " in told]
        assert any(expected in one for one in told), (call, expected, ended.stderr)


def test_an_exception_ends_the_job_and_is_told_to_who_waits(job):
    ended = job(
        2,
        """
        import hikyaku, numpy
        world = hikyaku.world()
        if world.rank == 0:
            raise KeyError("the first failure")
        try:
            world.recv(numpy.empty(1), 0)
        except hikyaku.PeerError as error:
            print("told:", error, flush=True)
        """,
    )
    assert ended.returncode == 1
    assert "KeyError: 'the first failure'" in ended.stderr
    assert ended.stdout.startswith("told: rank 0 (pid ")


def test_a_rank_that_is_killed_is_an_error_in_every_wait(job):
    ended = job(
        2,
        """
        import hikyaku, numpy, os, signal
        world = hikyaku.world()
        world.barrier()
        if world.rank == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        one = numpy.empty(1)
        request = world.irecv(one, 0)
        calls = [request.wait, world.barrier, lambda: world.recv(one, 0), lambda: world.probe(0),
                 lambda: world.allreduce(one), lambda: world.recv_object(0),
                 lambda: world.send(numpy.empty(1 << 20), 0), lambda: world.gather(one)]
        for call in calls:
            try:
                call()
            except hikyaku.PeerError as error:
                assert "rank 0" in str(error), error
            else:
                raise AssertionError("a wait for the dead ended")
        print("all told", flush=True)
        """,
    )
    assert ended.returncode == 128 + signal.SIGKILL
    assert ended.stdout == "all told\n"
    assert "rank 0" in ended.stderr and "SIGKILL" in ended.stderr


def test_a_rank_that_leaves_is_an_error_to_who_waits(job):
    ended = job(
        2,
        """
        import hikyaku, numpy
        world = hikyaku.world()
        if world.rank == 1:
            try:
                world.recv(numpy.empty(1), 0)
            except hikyaku.PeerError as error:
                print(error)
        """,
    )
    assert (ended.stderr, ended.returncode) == ("", 0)
    assert "rank 0 has left the job" in ended.stdout


def test_messages_of_a_rank_that_is_through_arrive(job):
    ended = job(
        2,
        """
        import hikyaku, numpy
        world = hikyaku.world()
        if world.rank == 0:
            for number in range(300):
                world.isend(numpy.full(10, number), 1)
        else:
            into = numpy.empty(10, "i8")
            for number in range(100):
                world.recv(into, 0)
                assert (into == number).all()
        """,
    )
    assert (ended.stderr, ended.returncode) == ("", 0)


def test_ctrl_c_ends_every_wait(job):
    ended = job(
        2,
        """
        import hikyaku, numpy, os, signal, threading
        world = hikyaku.world()
        one = numpy.empty(1)
        waits = {
            "recv": lambda: world.recv(one, 1),
            "probe": lambda: world.probe(1),
            "request": lambda: world.irecv(one, 1).wait(),
            "send": lambda: world.send(numpy.empty(1 << 22), 1),
            "object": lambda: world.recv_object(1),
            "barrier": lambda: world.barrier(),
            "allreduce": lambda: world.allreduce(one),
        }
        for name, wait in waits.items():
            apart = world.duplicate()
            if world.rank == 1:
                # It only goes on when rank 0 has been interrupted.
                assert apart.recv_object(0) == name
                continue
            interrupt = lambda: os.kill(os.getpid(), signal.SIGINT)
            thread = threading.Thread(target=interrupt)
            try:
                thread.start()
                wait()
            except KeyboardInterrupt:
                print("interrupted:", name)
            thread.join()
            apart.send_object(name, 1)
        """,
    )
    assert ended.returncode == 0, ended.stderr
    names = ["recv", "probe", "request", "send", "object", "barrier", "allreduce"]
    assert ended.stdout.splitlines() == [f"interrupted: {name}" for name in names]


def test_a_handler_may_use_the_world_in_the_middle_of_a_wait(job):
    ended = job(
        2,
        """
        import hikyaku, numpy, os, signal
        world = hikyaku.world()
        heard = numpy.zeros(1)
        if world.rank == 0:
            def answer(number, frame):
                inner = numpy.zeros(1)
                world.recv(inner, 1, tag=1)
                world.send(inner + 1, 1, tag=2)
            signal.signal(signal.SIGUSR1, answer)
            world.send_object(os.getpid(), 1)
            world.recv(heard, 1, tag=3)
            assert heard[0] == 9
        else:
            pid = world.recv_object(0)
            world.send(numpy.array([7.0]), 0, tag=1)
            os.kill(pid, signal.SIGUSR1)
            world.recv(heard, 0, tag=2)
            assert heard[0] == 8
            world.send(heard + 1, 0, tag=3)
        """,
    )
    assert (ended.stderr, ended.returncode) == ("", 0)


def test_other_threads_run_while_a_rank_waits(job):
    ended = job(
        2,
        """
        import hikyaku, numpy, os, threading
        world = hikyaku.world()
        # Rank 1 sends what rank 0 waits for when a thread of rank 0 has asked for it.
        if world.rank == 0:
            path = world.recv_object(1)
            def ask():
                with open(path, "w") as fifo:
                    fifo.write("go")
            thread = threading.Thread(target=ask)
            world.send_object("waiting", 1)
            thread.start()
            world.recv(numpy.zeros(1), 1)
            thread.join()
        else:
            path = f"{__file__}.fifo"
            os.mkfifo(path)
            world.send_object(path, 0)
            world.recv_object(0)
            with open(path) as fifo:
                assert fifo.read() == "go"
            world.send(numpy.ones(1), 0)
        """,
    )
    assert (ended.stderr, ended.returncode) == ("", 0)


def test_a_forked_child_is_no_rank(job):
    ended = job(
        2,
        """
        import hikyaku, os, sys
        world = hikyaku.world()
        child = os.fork()
        if child == 0:
            try:
                world.barrier()
            except hikyaku.Error as error:
                print(error, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        world.barrier()
        """,
    )
    assert (ended.stderr, ended.returncode) == ("", 0)
    lines = ended.stdout.splitlines()
    assert len(lines) == 2 and all("forked from a rank" in line for line in lines)


def test_a_program_that_leaves_twice_or_asks_afterwards(job):
    ended = job(
        1,
        """
        import atexit, hikyaku
        def late():
            try:
                print(hikyaku.world().rank)
            except hikyaku.Error as error:
                print(error)
        atexit.register(late)
        hikyaku.world()
        """,
    )
    assert (ended.stderr, ended.returncode) == ("", 0)
    assert "has left its job" in ended.stdout


def test_ctrl_c_to_the_command_ends_the_job():
    source = "import hikyaku; w = hikyaku.world(); print('up', flush=True); w.recv(bytearray(1), 1 - w.rank)"
    words = [sys.executable, "-m", "hikyaku", "run", "-n", "2", "--", sys.executable, "-c", source]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert [run.stdout.readline() for _ in range(2)] == ["up\n", "up\n"]
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate(timeout=60)
    assert run.returncode == 128 + signal.SIGINT
    assert "KeyboardInterrupt" in errors
    assert "hikyaku: interrupted by signal 2 (SIGINT)" in errors


@pytest.mark.parametrize("way", ["kill", "leave"])
@pytest.mark.parametrize("until", ["world.recv(one, 1)", "while True: window.get(1)"])
def test_a_window_of_a_rank_that_is_gone_is_its_end(job, way, until):
    ended = job(
        2,
        f"""
        import hikyaku, numpy, os, sys
        world = hikyaku.world()
        window, one = world.window(16, "i8"), numpy.empty(1)
        world.barrier()
        if world.rank == 1:
            if "{way}" == "kill":
                os.kill(os.getpid(), 9)
            sys.exit(0)
        try:
            {until}
        except hikyaku.PeerError:
            pass
        for call in [
            lambda: window.get(1),
            lambda: window.fetch_add(1, 0, 1),
            lambda: window.put(1, numpy.arange(4)),
        ]:
            try:
                print("value", call(), flush=True)
            except hikyaku.PeerError as error:
                print("told:", error, flush=True)
        """,
        "--timeout",
        "60",
    )
    assert ended.stdout.count("told: rank 1") == 3, ended.stdout + ended.stderr
