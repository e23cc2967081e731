"""Shared variables: what a block gives, what is left of it afterwards, and ranks that share."""

import functools
import gc
import signal
import threading
import warnings

import numpy
import pytest

import hikyaku

# A job that takes this long hangs.
spawn = functools.partial(hikyaku.spawn, timeout=120)


@pytest.fixture(scope="module")
def world():
    return hikyaku.world()


def test_a_block_gives_an_array_without_a_copy(world):
    x = world.shared("plain", (3, 4), "f4")
    assert (x.name, x.shape, x.dtype, x.parts, x.origin) == ("plain", (3, 4), "f4", 1, (0, 0))
    assert repr(x) == "<hikyaku.Shared 'plain': (3, 4) of float32>"
    with x.write() as a:
        assert (a.shape, a.dtype, a.any()) == ((3, 4), numpy.float32, False)
        assert a.flags.writeable and a.flags.aligned and not a.flags.owndata
        a[:] = numpy.arange(12).reshape(3, 4)
        first = a.ctypes.data
    with x.read() as a:
        assert a.ctypes.data == first
        assert (a == numpy.arange(12).reshape(3, 4)).all()
    with x.write() as a:
        assert a.ctypes.data == first and a[2, 3] == 11


def test_writing_after_the_block_raises(world):
    x = world.shared("after", 4)
    with x.write() as a:
        a[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        a[0] = 2
    with pytest.raises(ValueError, match="read-only"):
        a += 1
    assert not a[1:].flags.writeable
    with x.write() as b:
        assert list(b) == [1, 0, 0, 0]
        b[0] = 3


def test_an_array_that_was_kept_is_not_writable_in_a_later_block(world):
    x = world.shared("kept arrays", (2, 3), "i8")
    kept = []
    for number in range(6):
        with x.write() as a:
            assert a.flags.writeable and not any(array.flags.writeable for array in kept)
            assert all(array is not a for array in kept)
            a[:] = number
        kept.append(a)
        with pytest.raises(ValueError, match="read-only"):
            kept[0][0, 0] = 9
    # A view keeps the array that it is of; also one that only a memoryview or an iterator has.
    for keep in [lambda a: a[1:], memoryview, lambda a: a.flat, lambda a: [a]]:
        with x.write() as a:
            view, first = keep(a), id(a)
        del a
        with x.write() as b:
            assert id(b) != first
        del view
    # What they show is the newest contents all the same.
    assert all((array == 5).all() for array in kept)


def test_an_array_that_nobody_kept_is_used_again(world):
    x = world.shared("used again", 3)
    seen = set()
    for _ in range(100):
        with x.write() as a:
            seen.add(id(a))
        with x.write(timeout=1) as b:
            seen.add(id(b))
        del b
    assert len(seen) <= 2
    for access in [x.read, x.read, functools.partial(x.read, timeout=1)]:
        with access() as a:
            seen.add(id(a))
    assert len(seen) <= 3


def test_an_array_that_was_changed_in_place_is_not_used_again(world):
    x = world.shared("changed in place", (2, 6), "i4")

    def reshape(array):
        array.shape = (3, 4)

    def retype(array):
        array.dtype = "u4"

    def both(array):
        array.shape = (12,)
        array.shape = (6, 2)

    for access in [x.write, x.read]:
        for change in [reshape, retype, both]:
            with access() as a, warnings.catch_warnings():
                # numpy would rather not have it done.
                warnings.simplefilter("ignore", DeprecationWarning)
                change(a)
            del a
            for _ in range(3):
                with access() as a:
                    assert (a.shape, a.strides, a.dtype) == ((2, 6), (24, 4), numpy.dtype("i4"))
                    assert a.flags.writeable == (access == x.write)


def test_the_switch_is_the_flag_that_numpy_shows(world):
    for shape, dtype in [((), "f8"), (1, "i2"), ((2, 3, 4), "c16"), (5, "i4,f8")]:
        x = world.shared(f"switch {shape}", shape, dtype)
        with x.write() as a:
            inside = a.flags.num
            assert inside == numpy.require(a, requirements="W").flags.num
            assert a.flags.writeable
        assert not a.flags.writeable and a.flags.num == inside & ~0x400
        a.flags.writeable = True
        assert a.flags.num == inside
        with x.read() as a:
            assert not a.flags.writeable


def test_arrays_that_begin_otherwise_are_switched_by_numpy(job):
    ended = job(
        1,
        """
        import hikyaku, numpy
        real = numpy.ndarray
        class Other:
            # An object that is shorter than the beginning of an array, which is never looked at.
            __slots__ = ()
            def __new__(cls, *arguments):
                return real(*arguments)
        numpy.ndarray = Other
        x = hikyaku.world().shared("x", (2, 3))
        kept = []
        for number in range(4):
            with x.write() as a:
                print(a.flags.writeable, any(array.flags.writeable for array in kept))
                a[1, 2] = number
            kept.append(a)
        print(a.flags.writeable, len(set(map(id, kept))), kept[0][1, 2])
        with x.read() as a:
            print(a.flags.writeable, a[1, 2])
        """,
    )
    assert (ended.stderr, ended.returncode) == ("", 0)
    told = ended.stdout.splitlines()
    assert told == ["True False"] * 4 + ["False 4 3.0", "False 3.0"]


def test_leaving_takes_what_is_said_about_an_exception(world):
    x = world.shared("leaving", 1)
    for raised in [(), (None,), (None, None, None), (KeyError, KeyError("x"), None)]:
        access = x.write()
        a = access.__enter__()
        assert access.__exit__(*raised) is False
        assert not a.flags.writeable
    # Without having entered, too.
    assert x.write().__exit__(None, None, None) is False
    with x.write() as a:
        a[0] = 1


def test_views_made_inside_cannot_be_switched_off(world):
    x = world.shared("derived", (2, 4))
    with x.write() as a:
        views = [a[1:], a.T, a.reshape(-1), a.view("u1"), memoryview(a)]
        copy = a[1:].copy()
    # Writing through one after the block is not noticed: it goes to the copy that all share.
    assert [view.flags.writeable for view in views[:4]] == [True] * 4
    assert not views[4].readonly
    views[2][:] = 7
    with x.read() as b:
        assert (b == 7).all()
        inner = b[1:]
    # Views of an array that was only read are read-only for ever.
    with pytest.raises(ValueError, match="read-only"):
        inner[0] = 1
    with pytest.raises(ValueError):
        inner.flags.writeable = True
    # A copy is its owner's; a view keeps the memory that it shows.
    copy[:] = 5
    with x.read() as b:
        assert (b == 7).all()
    del x, a, b, inner
    gc.collect()
    assert (views[1] == 7).all()


def test_a_read_array_is_never_written(world):
    x = world.shared("reading", 4)
    with x.read() as a:
        with pytest.raises(ValueError, match="read-only"):
            a[0] = 1
        with pytest.raises(ValueError):
            a.flags.writeable = True
    with pytest.raises(ValueError):
        a.flags.writeable = True


def test_an_exception_lets_go(world):
    x = world.shared("raising", 1)
    with pytest.raises(KeyError):
        with x.write() as a:
            raise KeyError
    with pytest.raises(ValueError, match="read-only"):
        a[0] = 1
    with x.write(timeout=0) as a:
        a[0] = 1


def test_it_is_found_by_its_name(world):
    for dtype in ["f4", "i4,f8", numpy.dtype("u1,f8", align=True)]:
        x = world.shared("named", (2, 3), dtype)
        with x.write() as a:
            a.view("u1")[:] = 1
        y = world.shared_named("named")
        assert (y.name, y.shape, y.dtype) == ("named", (2, 3), numpy.dtype(dtype))
        with y.read() as b:
            assert (b == a).all()
        with x.write():
            with pytest.raises(hikyaku.Error, match="held by this rank already"):
                with y.write():
                    raise AssertionError("held twice")
        del x, y, a, b
        gc.collect()
    with pytest.raises(hikyaku.Error, match="no shared variable `named`"):
        world.shared_named("named")


def test_having_it_twice_is_an_error(world):
    x = world.shared("twice", 1)
    for outer in [x.write, x.read]:
        for inner in [x.write, x.read]:
            with outer():
                with pytest.raises(hikyaku.Error, match="`twice` is held by this rank already"):
                    with inner():
                        raise AssertionError("held twice")
    with x.write() as a:
        a[0] = 1


def test_a_timeout_must_be_one(world):
    x = world.shared("timeout", 1)
    for bad in [-1, float("nan"), 1e300]:
        with pytest.raises(ValueError, match="number of seconds"):
            x.write(timeout=bad)
    # Its owner, this rank, is asked even if it is unlocked.
    x = world.shared("long timeout", 1, protocol="fagus")
    with x.write(timeout=1e19) as a:
        a[0] = 1


def test_arrays_of_any_plain_type(world):
    for dtype in ["?", "i1", "c16", "S5", "i4,f8", "M8[s]"]:
        x = world.shared(f"of {dtype}", 3, dtype)
        with x.write() as a:
            a.view("u1").reshape(-1)[:] = 1
        with x.read() as a:
            assert a.dtype == numpy.dtype(dtype) and (a.view("u1") == 1).all()
    with pytest.raises(TypeError, match="Python objects"):
        world.shared("objects", 3, "O")


def test_parts_have_locks_of_their_own(world):
    x = world.shared("parts", (5, 4), "i4", rows=2)
    assert (x.parts, [x.part(i).shape for i in range(3)]) == (3, [(2, 4), (2, 4), (1, 4)])
    assert [x.part(i).origin for i in range(3)] == [(0, 0), (2, 0), (4, 0)]
    with x.part(0).write() as a, x.part(2).write() as b:
        a[:], b[:] = 1, 3
    with x.part(1).read() as a:
        assert not a.any()
    y = world.shared("tiles", (4, 6), "i4", tiles=(2, 3))
    assert y.parts == 4 and y.part(3).origin == (2, 3)
    with pytest.raises(hikyaku.Error, match="part"):
        x.part(3)
    with pytest.raises(ValueError, match="out of range"):
        x.part(-1)
    with pytest.raises(ValueError, match="not both"):
        world.shared("both", (4, 4), rows=2, tiles=(2, 2))


def test_variables_that_cannot_be(world):
    x = world.shared("here", 1)
    with pytest.raises(hikyaku.Error, match="there is a shared variable `here` already"):
        world.shared("here", 1)
    with pytest.raises((MemoryError, hikyaku.Error)):
        world.shared("huge", 1 << 50)
    with pytest.raises(hikyaku.Error, match="sync variables"):
        world.shared("many", 100_000, rows=1)
    with pytest.raises(hikyaku.Error):
        world.shared("no rows", 4, rows=0)
    with pytest.raises(ValueError, match="`tcp` is no protocol of shared variables"):
        world.shared("by nothing", 4, protocol="tcp")
    with x.write() as a:
        a[0] = 1


def test_a_variable_lives_as_long_as_what_shows_it(world):
    x = world.shared("kept", 100, "i8")
    with x.write() as a:
        a[:] = 7
        view = a[::3]
    del x, a
    gc.collect()
    assert (view == 7).all()
    with pytest.raises(hikyaku.Error, match="`kept` already"):
        world.shared("kept", 1)
    del view
    gc.collect()
    y = world.shared("kept", 1)
    with y.read() as a:
        assert a[0] == 0


def test_another_thread_may_drop_it_but_not_have_it(world):
    held = [world.shared("thread", 1)]
    raised = []

    def use():
        try:
            with held[0].write():
                pass
        except hikyaku.Error as error:
            raised.append(str(error))
        held.clear()

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert len(raised) == 1 and "not the thread" in raised[0]
    world.barrier()
    world.shared("thread", 1)


def test_an_array_may_outlive_the_world(job):
    ended = job(
        2,
        """
        import atexit, hikyaku
        array = None
        def late():
            print(int(array.sum()))
        atexit.register(late)
        x = hikyaku.world().shared("x", 10, "i8")
        with x.write() as array:
            array[:] = 5
        """,
    )
    assert (ended.stderr, ended.returncode) == ("", 0)
    assert ended.stdout.splitlines() == ["50", "50"]


def count(world, turns):
    """Additions that only a lock makes count, and a second variable that must agree."""
    x = world.shared("count", 512, "i8")
    for _ in range(turns):
        with x.write() as a:
            a += 1
        with x.read() as a:
            assert (a == a[0]).all()
    world.barrier()
    with x.read() as a:
        assert (a == turns * world.size).all()
    world.barrier()
    return x.moved[0] > 0


def alternate(world):
    """Strict alternation: each looks again until it is at turn."""
    x = world.shared("turns", 8, "i8")
    mine = 0
    while mine < 200:
        with x.write() as a:
            if a[0] % world.size == world.rank:
                a[0] += 1
                mine += 1
    world.barrier()
    with x.read() as a:
        return int(a[0])


def rows(world):
    """Everybody writes its own part, then reads all: nothing is waited for."""
    x = world.shared("rows", (world.size, 1000), "f8", rows=1)
    with x.part(world.rank).write() as a:
        a[:] = world.rank
    world.barrier()
    found = []
    for number in range(world.size):
        with x.part(number).read() as a:
            found.append(float(a[0, 0]))
    world.barrier()
    return found


def by_protocol(world, protocol):
    """Parts that change hands, by a protocol of the caller's choice, and a recoverable variable."""
    options = {"protocol": protocol, "recoverable": True}
    x = world.shared("tiles", (4, 6), "i4", tiles=(2, 3), **options)
    # They go round the ranks.
    homes = [x.part(number).home for number in range(x.parts)]
    assert homes == [(x.home + number) % world.size for number in range(x.parts)]
    for turn in range(8):
        if turn % world.size == world.rank:
            for number in range(x.parts):
                with x.part(number).write() as a:
                    assert (a == turn).all()
                    a += 1
        world.barrier()
    with x.part(3).read() as a:
        found = int(a.sum())
    with x.write() as a:
        assert x.mark is None
    world.barrier()
    return found, x.moved[1] > 0


def wait_in_vain(world):
    x = world.shared("busy", 1)
    if world.rank == 0:
        with x.write():
            world.barrier()
            world.barrier()
        return "had it"
    world.barrier()
    try:
        for access in [x.write(timeout=0.05), x.read(timeout=0)]:
            with pytest.raises(TimeoutError, match="`busy` was not free within"):
                with access:
                    raise AssertionError("two have it")
    finally:
        world.barrier()
    with x.write() as a:
        a[0] = 1
    return "had it later"


def disagree(world):
    with pytest.raises(hikyaku.Error, match="every rank makes the same"):
        world.shared("shape", 3 + world.rank)
    with pytest.raises(hikyaku.Error, match="every rank makes the same"):
        world.shared("dtype", 3, ["i4", "f4"][world.rank % 2])
    with pytest.raises(hikyaku.Error, match="with the name `"):
        world.shared(f"name {world.rank}", 3)
    with pytest.raises(hikyaku.Error, match="8193 sync variables"):
        world.shared("many", 8193, rows=1)
    with pytest.raises(hikyaku.Error, match="no shared variable `elsewhere`"):
        world.shared_named("elsewhere")
    x = world.shared("agreed", 3)
    with x.write() as a:
        a += 1
    world.barrier()
    with x.read() as a:
        return a[0] == world.size


@pytest.mark.parametrize("ranks_per_node", [1, 3])
def test_ranks_share(ranks_per_node):
    run = functools.partial(spawn, ranks_per_node=ranks_per_node)
    between_nodes = ranks_per_node == 1
    assert any(run(3, count, 100)) == between_nodes
    assert run(2, alternate) == [400, 400]
    assert run(3, rows) == [[0.0, 1.0, 2.0]] * 3
    assert run(2, wait_in_vain) == ["had it", "had it later"]
    assert run(2, disagree) == [True, True]


@pytest.mark.parametrize("protocol", ["direct", "fagus", "udp"])
def test_the_protocol_is_the_callers(protocol):
    told = spawn(2, by_protocol, protocol, ranks_per_node=1)
    assert told == [(48, True)] * 2


def test_other_threads_run_while_one_is_waited_for(job):
    ended = job(
        2,
        """
        import hikyaku, threading, time
        world = hikyaku.world()
        x = world.shared("x", 1)
        if world.rank == 1:
            with x.write():
                world.barrier()
                world.recv_object(0)
        else:
            world.barrier()
            ran = []
            def other():
                for _ in range(50):
                    ran.append(time.sleep(0.001))
            thread = threading.Thread(target=other)
            thread.start()
            try:
                with x.write(timeout=2):
                    print("had it")
            except TimeoutError:
                print("waited", len(ran))
            thread.join()
            world.send_object("go on", 1)
            with x.write() as a:
                a[0] = 1
        """,
    )
    assert (ended.stderr, ended.returncode) == ("", 0)
    assert ended.stdout.splitlines() == ["waited 50"]


def test_ctrl_c_ends_the_wait_for_a_variable(job):
    ended = job(
        2,
        """
        import hikyaku, os, signal, threading
        world = hikyaku.world()
        x = world.shared("x", 1)
        if world.rank == 1:
            with x.write():
                world.barrier()
                world.recv_object(0)
        else:
            world.barrier()
            interrupt = lambda: os.kill(os.getpid(), signal.SIGINT)
            thread = threading.Thread(target=interrupt)
            try:
                thread.start()
                with x.write():
                    print("had it")
            except KeyboardInterrupt:
                print("interrupted")
            thread.join()
            world.send_object("go on", 1)
            with x.write() as a:
                a[0] = 1
            print("had it after all")
        """,
    )
    assert (ended.stderr, ended.returncode) == ("", 0)
    assert ended.stdout.splitlines() == ["interrupted", "had it after all"]


@pytest.mark.parametrize("recoverable", [False, True])
def test_a_holder_that_is_killed_is_told_of(job, recoverable):
    ended = job(
        2,
        f"""
        import hikyaku, os, signal
        world = hikyaku.world()
        x = world.shared("doomed", 1, "i8", recoverable={recoverable})
        world.barrier()
        if world.rank == 0:
            with x.write() as a:
                a[0] = 17
                world.send_object("mine", 1)
                os.kill(os.getpid(), signal.SIGKILL)
        world.recv_object(0)
        try:
            with x.write() as a:
                print("mark", x.mark, a[0])
        except hikyaku.PeerError as error:
            print(error)
        """,
    )
    assert ended.returncode == 128 + signal.SIGKILL
    if recoverable:
        assert ended.stdout == "mark (0, False) 17\n"
    else:
        assert "doomed" in ended.stdout and "rank 0" in ended.stdout
