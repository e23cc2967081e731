"""Memory of a job: arrays that live in it, and windows."""

import functools
import gc
import threading

import numpy
import pytest

import hikyaku

# A job that takes this long hangs.
spawn = functools.partial(hikyaku.spawn, timeout=120)


@pytest.fixture(scope="module")
def world():
    return hikyaku.world()


def test_an_allocated_array_is_an_array(world):
    for shape, dtype in [((3, 4), "f8"), (5, "i2"), ((), "c16"), ((0, 7), "f4"), (2, "i4,f8")]:
        array = world.alloc(shape, dtype)
        expected = numpy.zeros(shape, dtype)
        assert (array.shape, array.dtype) == (expected.shape, expected.dtype)
        assert array.tobytes() == expected.tobytes()
        assert array.flags.writeable and array.flags.c_contiguous and not array.flags.owndata
    array = world.alloc(1000, "f8")
    array[:] = numpy.arange(1000)
    assert (numpy.sort(array[::-1]) == array).all()


def test_its_memory_lives_as_long_as_any_view_of_it(world):
    views = []
    for number in range(200):
        array = world.alloc(10_000, "i4")
        assert not array.any()
        array[:] = number
        views.append(array[::7])
        del array
        gc.collect(0)
    for number, view in enumerate(views):
        assert (view == number).all()


def test_memory_is_given_back(world):
    # Ten times the region, were it not.
    for _ in range(40):
        world.alloc(1 << 25, "u1")[::4096] = 1


def test_a_view_may_go_on_another_thread(world):
    held = [world.alloc(1 << 20)]
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert not world.alloc(1 << 20).any()


def test_more_memory_than_there_is_is_an_error(world):
    with pytest.raises(MemoryError, match="no room|no memory"):
        world.alloc(1 << 50, "u1")
    with pytest.raises(ValueError, match="out of range"):
        world.alloc((1 << 40, 1 << 40))
    with pytest.raises(ValueError, match="negative"):
        world.alloc(-1)
    with pytest.raises(TypeError, match="Python objects"):
        world.alloc(3, "O")


def test_an_array_outlives_its_world(job):
    ended = job(
        1,
        """
        import atexit, hikyaku
        array = None
        def late():
            array[:] = 5
            print(array.sum())
        atexit.register(late)
        array = hikyaku.world().alloc(10, "i8")
        """,
    )
    assert (ended.stdout, ended.stderr, ended.returncode) == ("50\n", "", 0)


@pytest.mark.parametrize("dtype", ["i4", "u4", "f4", "i8", "u8", "f8"])
def test_elements_change_at_once(world, dtype):
    with world.window((2, 3), dtype) as window:
        assert window.shape == (2, 3) and window.size_of(0) == 6
        assert window.swap(0, 4, 7) == 0
        assert window.fetch_add(0, (1, 1), 5) == 7
        assert window.load(0, 4) == 12
        assert window.compare_swap(0, 4, 11, 1) == 12
        assert window.compare_swap(0, 4, 12, 3) == 12
        window.add(0, [1, 2, 3], index=3)
        numpy.testing.assert_array_equal(window.local(), [[0, 0, 0], [1, 5, 3]])
        if dtype[0] != "f":
            assert window.fetch_or(0, 4, 8) == 5
            assert window.fetch_and(0, 4, 12) == 13
            assert window.fetch_xor(0, 4, 5) == 12
            assert window.load(0, 4) == 9
        assert type(window.load(0, 4)) is (float if dtype[0] == "f" else int)


def test_signed_elements_keep_their_sign(world):
    for dtype in ["i4", "i8", "f4", "f8"]:
        with world.window(1, dtype) as window:
            window.put(0, [-5])
            assert window.fetch_add(0, 0, -1) == -5
            assert window.load(0, 0) == -6
            assert window.compare_swap(0, 0, -6, -7) == -6
            assert window.local() == [-7]


@pytest.mark.parametrize("dtype", ["i1", "f4", "c16", "i4,f8", "S5", "M8[s]"])
def test_anything_plain_can_be_put_and_got(world, dtype):
    if dtype == "M8[s]":
        with pytest.raises(TypeError, match="does not give its memory"):
            world.window(4, dtype)
        return
    with world.window(4, dtype) as window:
        data = numpy.zeros(2, dtype)
        data.view("u1")[:] = 1
        window.put(0, data, index=1)
        got = window.get(0)
        assert got[1:3].tobytes() == data.tobytes()
        assert got[:1].tobytes() == got[3:].tobytes() == bytes(data.itemsize)
        assert (window.get(0, index=2, count=1) == data[:1]).all()
        into = numpy.zeros(2, dtype)
        assert window.get(0, into, 1) is into and (into == data).all()


def test_windows_refuse_what_is_outside_or_of_another_kind(world):
    with world.window((2, 2), "i4") as window:
        outside = [
            lambda: window.put(0, [1, 2], 3),
            lambda: window.get(0, index=4, count=1),
            lambda: window.get(0, index=2**63),
            lambda: window.add(0, [1, 2, 3], 2),
            lambda: window.load(0, 4),
            lambda: window.load(0, -1),
            lambda: window.load(0, (2, 0)),
            lambda: window.load(0, (0,)),
        ]
        for call in outside:
            with pytest.raises((IndexError, OverflowError)):
                call()
        assert not window.local().any()
        with pytest.raises(TypeError, match="same_kind"):
            window.put(0, [1.5])
        with pytest.raises(TypeError, match="same_kind"):
            window.put(0, numpy.ones(1))
        with pytest.raises(TypeError, match="elements are float64"):
            window.get(0, numpy.zeros(4))
        with pytest.raises(ValueError, match="out of range"):
            window.swap(0, 0, 2**31)
        with pytest.raises(TypeError):
            window.swap(0, 0, "one")
        with pytest.raises(ValueError, match="rank 1 does not exist"):
            window.load(1, 0)
        with pytest.raises(ValueError, match="read-only"):
            window.get(0, numpy.broadcast_to(numpy.int32(0), (1,)))
    with pytest.raises(hikyaku.Error, match="has been closed"):
        window.load(0, 0)
    with world.window(2, "i2") as window:
        with pytest.raises(TypeError, match="integers and floats of 4 and 8 bytes"):
            window.fetch_add(0, 0, 1)
    with world.window(2, "f4") as window:
        with pytest.raises(TypeError, match="not defined for floats"):
            window.fetch_or(0, 0, 1)


def test_windows_run_out_and_come_back(world):
    windows = []
    with pytest.raises(hikyaku.Error):
        while True:
            windows.append(world.window(1))
    windows.clear()
    gc.collect()
    world.window(1).close()


def counters(world):
    with world.window(4, "f8") as floats, world.window(1, "i8") as integers:
        for _ in range(300):
            for rank in range(world.size):
                floats.add(rank, [1, 2, 3, 4])
                integers.fetch_add(rank, 0, 1)
        world.barrier()
        total = 300 * world.size
        assert integers.local()[0] == total
        numpy.testing.assert_array_equal(floats.local(), total * numpy.arange(1, 5))
        world.barrier()
    return "counted"


def closed_elsewhere(world):
    window = world.window(1, "i4")
    if world.rank == 0:
        window.close()
    world.barrier()
    if world.rank == 1:
        with pytest.raises(hikyaku.Error):
            window.load(0, 0)
        assert window.load(1, 0) == 0
    world.barrier()
    return "told"


def without_a_copy(world):
    """Messages between arrays of the job's own memory."""
    peer = world.rank ^ 1
    for elements in [10, 3000, 1_000_000]:
        sent, received = world.alloc(elements), world.alloc(elements)
        sent[:] = world.rank + 1
        world.sendrecv(sent, peer, received, peer)
        assert (received == peer + 1).all()
    return "exchanged"


@pytest.mark.parametrize("ranks_per_node", [1, 2])
@pytest.mark.parametrize("function", [counters, closed_elsewhere, without_a_copy])
def test_ranks_share_memory(function, ranks_per_node):
    expected = {counters: "counted", closed_elsewhere: "told", without_a_copy: "exchanged"}
    assert spawn(2, function, ranks_per_node=ranks_per_node) == [expected[function]] * 2
