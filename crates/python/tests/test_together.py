"""Messages and collectives among ranks, each against what numpy computes from all ranks' data."""

import functools
import os
import signal
import threading

import numpy
import pytest

import hikyaku

# A job that takes this long hangs.
spawn = functools.partial(hikyaku.spawn, timeout=120)

SIZES = [2, 3, 4]


def data_of(rank, shape, dtype):
    """What a rank contributes: known to all, so that each can check."""
    seeded = numpy.random.default_rng([rank, 7])
    return seeded.integers(0, 50, shape).astype(dtype)


def reductions(world):
    size, rank = world.size, world.rank
    functions = {
        "sum": numpy.add,
        "prod": numpy.multiply,
        "min": numpy.minimum,
        "max": numpy.maximum,
        "and": numpy.bitwise_and,
        "or": numpy.bitwise_or,
        "xor": numpy.bitwise_xor,
    }
    for op, function in functions.items():
        for dtype in ["i1", "u2", "i4", "u8", "?", "f4", "f8", "c16"]:
            all_data = [data_of(r, (size, 5), dtype) for r in range(size)]
            array = all_data[rank].copy()
            try:
                world.allreduce(array, op)
            except TypeError:
                continue
            expected = all_data[0].copy()
            before = [expected.copy()]
            for other in all_data[1:]:
                expected = function(expected, other)
                before.append(expected.copy())
            if dtype in ["f4", "f8", "c16"] and op in ["sum", "prod"]:
                numpy.testing.assert_allclose(array, expected, rtol=1e-5)
            else:
                numpy.testing.assert_array_equal(array, expected)
            for root in range(size):
                array = all_data[rank].copy()
                world.reduce(array, op, root)
                wanted = expected if rank == root else all_data[rank]
                numpy.testing.assert_allclose(array, wanted, rtol=1e-5)
            scanned = all_data[rank].copy()
            world.scan(scanned, op)
            numpy.testing.assert_allclose(scanned, before[rank], rtol=1e-5)
            scanned = all_data[rank].copy()
            world.exscan(scanned, op)
            wanted = before[rank - 1] if rank else all_data[0]
            numpy.testing.assert_allclose(scanned, wanted, rtol=1e-5)
            mine = world.reduce_scatter(all_data[rank], op)
            numpy.testing.assert_allclose(mine, expected[rank], rtol=1e-5)
    return "checked"


def moves(world):
    size, rank = world.size, world.rank
    for shape, dtype in [((), "f8"), ((3,), "i4"), ((4, 700), "c16"), ((0, 2), "u1")]:
        all_data = [data_of(r, shape, dtype) for r in range(size)]
        stacked = numpy.stack(all_data)
        for root in range(size):
            array = data_of(rank, shape, dtype)
            world.bcast(array, root)
            numpy.testing.assert_array_equal(array, all_data[root])
            gathered = world.gather(all_data[rank], root)
            assert (gathered is None) == (rank != root)
            if rank == root:
                numpy.testing.assert_array_equal(gathered, stacked)
            mine = numpy.empty(shape, dtype)
            world.scatter(stacked if rank == root else None, mine, root)
            numpy.testing.assert_array_equal(mine, all_data[rank])
        numpy.testing.assert_array_equal(world.allgather(all_data[rank]), stacked)
        table = [[data_of(10 * s + r, shape, dtype) for r in range(size)] for s in range(size)]
        got = world.alltoall(numpy.stack(table[rank]))
        numpy.testing.assert_array_equal(got, numpy.stack([table[s][rank] for s in range(size)]))
    # The columns of a matrix of which each rank has two rows become the rows of its transpose.
    matrix = numpy.arange(4.0 * size * size).reshape(2 * size, 2 * size)
    mine, transposed = matrix[2 * rank : 2 * rank + 2], numpy.empty((2, 2 * size))
    parts = [mine[:, 2 * r : 2 * r + 2].T for r in range(size)]
    world.alltoallw(parts, [transposed[:, 2 * r : 2 * r + 2] for r in range(size)])
    numpy.testing.assert_array_equal(transposed, matrix.T[2 * rank : 2 * rank + 2])
    # Lengths and types of their own.
    def zeros(source, target):
        return numpy.zeros(source + target, ["u1", "i4", "f8"][source * target % 3])

    parts = [zeros(rank, r) + numpy.uint8(rank + 1) for r in range(size)]
    places = [zeros(r, rank) for r in range(size)]
    assert world.alltoallw(parts, places) is places
    for source, place in enumerate(places):
        assert (place == source + 1).all() and len(place) == source + rank
    return "checked"


def objects(world):
    value = {"rank": world.rank, "text": "x" * 10_000}
    everyone = [{"rank": r, "text": "x" * 10_000} for r in range(world.size)]
    assert world.allgather_object(value) == everyone
    for root in range(world.size):
        assert world.bcast_object(value, root) == everyone[root]
        assert world.gather_object(value, root) == (everyone if world.rank == root else None)
    if world.rank == 0:
        with pytest.raises(TypeError):
            world.bcast_object(lambda: 0)
    else:
        with pytest.raises(hikyaku.PeerError, match="rank 0 abandoned it"):
            world.bcast_object()
    return world.bcast_object("still together")


def exchanges(world):
    """Long messages both ways at once: nobody gets on unless both requests do while one waits."""
    peer = world.rank ^ 1
    for elements in [1, 500, 40_000, 1_000_000]:
        sent = numpy.full(elements, float(world.rank))
        received = numpy.empty_like(sent)
        request = world.isend(sent, peer)
        world.recv(received, peer)
        request.wait()
        assert (received == peer).all()
        requests = [world.irecv(received, peer), world.isend(sent + 10, peer)]
        assert requests[0].wait().nbytes == sent.nbytes
        requests[1].wait()
        assert (received == peer + 10).all()
        world.sendrecv(sent, peer, received, peer, tag=4)
        assert (received == peer).all()
    return "checked"


def many_requests(world):
    """More messages under way than a receiver takes unasked for."""
    count = 2000
    if world.rank == 0:
        requests = [world.isend(numpy.array([n]), 1, n % 7) for n in range(count)]
        for request in requests:
            request.wait()
        return count
    arrays = [numpy.empty(1, "i8") for _ in range(count)]
    requests = [world.irecv(a, 0, n % 7) for n, a in enumerate(arrays)]
    for request in reversed(requests):
        request.wait()
    assert [a[0] for a in arrays] == list(range(count))
    return count


def disagreements(world):
    with pytest.raises(hikyaku.Error):
        world.allreduce(numpy.zeros(3 + world.rank))
    return "told"


def rows(world):
    size = world.size
    whole = numpy.arange((size + 1) * 3.0).reshape(size + 1, 3)
    wrong = [
        lambda: world.alltoall(whole),
        lambda: world.alltoall(whole, numpy.empty((size + 1, 3))),
        lambda: world.scatter(whole, numpy.empty((size + 1)), world.rank),
        lambda: world.gather(numpy.empty(size + 1), world.rank, numpy.empty((size + 1, size))),
        lambda: world.allgather(numpy.empty(size + 1), numpy.empty((size + 1, size))),
        lambda: world.reduce_scatter(whole, into=numpy.empty(size + 1)),
    ]
    for call in wrong:
        with pytest.raises(ValueError, match=f"{size + 1} rows cannot go to {size} ranks"):
            call()
    world.barrier()
    twice = numpy.arange(size * 6.0).reshape(size * 2, 3)
    got = numpy.empty((2, 3))
    world.scatter(twice, got, 0)
    assert (got == twice[2 * world.rank : 2 * world.rank + 2]).all()
    return "whole"


@pytest.mark.parametrize("size", [2, 3])
def test_no_row_is_cut(size):
    assert spawn(size, rows) == ["whole"] * size


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("function", [reductions, moves, objects])
def test_collectives(size, function):
    expected = "still together" if function is objects else "checked"
    assert spawn(size, function) == [expected] * size


def test_collectives_over_several_nodes():
    for function in [reductions, moves]:
        assert spawn(4, function, ranks_per_node=2) == ["checked"] * 4


@pytest.mark.parametrize("nodes", [1, 2])
def test_exchanges(nodes):
    assert spawn(2, exchanges, ranks_per_node=2 // nodes) == ["checked"] * 2


def test_many_requests():
    assert spawn(2, many_requests) == [2000, 2000]


def test_ranks_that_differ_are_told():
    assert spawn(2, disagreements) == ["told"] * 2


def halves(world):
    """Everything of a World among some of its ranks, which are numbered backwards."""
    color = world.rank % 2
    half = world.split(color, -world.rank)
    mates = [rank for rank in reversed(range(world.size)) if rank % 2 == color]
    assert (half.size, mates[half.rank]) == (len(mates), world.rank)
    reductions(half)
    everyone = half.allgather(numpy.array([world.rank]))
    assert everyone.ravel().tolist() == mates
    following, previous = (half.rank + 1) % half.size, (half.rank - 1) % half.size
    # Of this communicator only, by number, from any.
    world.isend(numpy.array([-1.0]), world.rank, 3)
    sent = half.isend(numpy.array([float(world.rank)]), following, 3)
    heard = numpy.empty(1)
    received = half.recv(heard)
    assert (received.source, received.tag) == (previous, 3)
    assert heard[0] == mates[previous]
    sent.wait()
    world.recv(heard, world.rank, 3)
    half.send_object({"from": world.rank}, following)
    assert half.recv_object(previous) == {"from": mates[previous]}
    window = half.window(1, numpy.int64)
    window.put(following, numpy.array([world.rank]))
    half.barrier()
    assert window.local()[0] == mates[previous]
    half.barrier()
    with pytest.raises(hikyaku.Error, match="cannot be of some ranks only"):
        half.shared("none", 1)
    with pytest.raises(ValueError, match="there are ranks 0 to"):
        half.send(heard, half.size)
    again = half.duplicate()
    again.barrier()
    again.free()
    with pytest.raises(hikyaku.Error, match="has been freed"):
        again.barrier()
    half.free()
    assert (world.split(0 if world.rank == 0 else None) is None) == (world.rank != 0)
    if world.rank < 2:
        pair = world.create_group([1, 0])
        assert pair.rank == 1 - world.rank
        first = numpy.array([world.rank])
        pair.bcast(first, 0)
        assert first[0] == 1
        pair.free()
    with pytest.raises(ValueError, match="exactly once"):
        world.create_group([world.rank, world.rank])
    with pytest.raises(hikyaku.Error, match="is not freed"):
        world.free()
    world.barrier()


@pytest.mark.parametrize("size", [2, 4, 5])
def test_communicators_of_some_ranks(size):
    spawn(size, halves)


def wrong_at_one(world):
    """Each call is wrong at rank 1 alone: it raises there what is wrong, and at the others that it
    failed. Then all go on."""
    size, rank = world.size, world.rank
    wrong = rank == 1
    read_only = numpy.zeros(3)
    read_only.flags.writeable = False

    class Refuses:
        def __reduce__(self):
            raise LookupError("not this one")

    cannot_be_pickled = Refuses()
    calls = [
        lambda: world.allreduce(read_only if wrong else numpy.zeros(3)),
        lambda: world.allreduce(numpy.zeros(3), "sums" if wrong else "sum"),
        lambda: world.bcast(numpy.zeros(6)[::2] if wrong else numpy.zeros(3), 0),
        lambda: world.gather(numpy.zeros(3), 0 if not wrong else size),
        lambda: world.gather(numpy.zeros(3), 1, numpy.zeros(2) if wrong else None),
        lambda: world.allgather(numpy.zeros(3), numpy.zeros(size * 3 + wrong)),
        lambda: world.scatter(None, numpy.zeros(3), 1),
        lambda: world.alltoall(numpy.zeros(size), numpy.zeros(size + wrong)),
        lambda: world.alltoallw([b""] * (size + wrong), [numpy.zeros(0)] * size),
        lambda: world.alltoallw([b""] * size, [read_only[::2] if wrong else numpy.zeros(0)] * size),
        lambda: world.reduce_scatter(numpy.zeros(size + wrong)),
        lambda: world.bcast_object(cannot_be_pickled, 1),
        lambda: world.gather_object(cannot_be_pickled if wrong else 1, 0),
        lambda: world.gather_object(1, size if wrong else 0),
        lambda: world.allgather_object(cannot_be_pickled if wrong else 1),
        lambda: world.allgather_object(cannot_be_pickled if wrong else bytes(1 << 20)),
        lambda: world.split(-1 if wrong else 0),
        lambda: world.window(3, "O" if wrong else "f8"),
        lambda: world.window(1 << 64 if wrong else 3),
        lambda: world.shared("wrong", -3 if wrong else 3),
        lambda: world.shared("wrong", 3, rows="one" if wrong else 1),
        lambda: world.exchange([(0, [])] if wrong else [], []),
    ]
    for number, call in enumerate(calls):
        try:
            call()
        except (TypeError, ValueError, LookupError):
            assert wrong, number
        except hikyaku.PeerError as error:
            assert not wrong and "rank 1 abandoned it" in str(error), (number, error)
        else:
            # Who only sends may be through before.
            assert not wrong and number in [2, 3, 4], number
        array = numpy.full(3, rank)
        world.allreduce(array)
        assert list(array) == [size * (size - 1) // 2] * 3, number
        assert world.allgather_object(rank) == list(range(size)), number
    return rank


@pytest.mark.parametrize("size", SIZES)
def test_a_call_that_is_wrong_at_one_rank_fails_at_all(size):
    assert spawn(size, wrong_at_one) == list(range(size))


class CannotBeUnpickled:
    def __reduce__(self):
        return int, ("no number",)


def objects_that_fail_at_the_end(world):
    """An object that cannot be unpickled is an error of the ranks that unpickle it. All objects of
    the call have arrived, so none is taken for one of the next call."""
    raised = 0
    for call in [world.gather_object, world.allgather_object]:
        try:
            call(CannotBeUnpickled() if world.rank == 1 else "old")
        except ValueError:
            raised += 1
        world.gather_object("new", 2)
        everyone = world.gather_object("new")
        assert everyone in [None, ["new"] * world.size]
    assert raised == [2, 0, 1][world.rank]


def interrupted(world):
    """Rank 0 is interrupted in a collective of objects, for which rank 2 is late. All go on."""
    apart = world.duplicate()
    for call in [lambda: world.bcast_object(0, 2), lambda: world.allgather_object(0)]:
        if world.rank == 2:
            apart.recv_object(0)
        done = threading.Event()

        def interrupt(number, frame):
            # In a native call: the wait.
            if frame.f_code.co_name == "make" and not done.is_set():
                done.set()
                raise KeyboardInterrupt

        def insist():
            while not done.wait(0.001):
                os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=insist)
        try:
            if world.rank == 0:
                signal.signal(signal.SIGINT, interrupt)
                thread.start()
            call()
        except KeyboardInterrupt:
            thread.join()
            apart.send_object("go on", 2)
        except hikyaku.PeerError:
            pass
        assert world.bcast_object(world.rank, 1) == 1
        assert world.allgather_object(world.rank) == [0, 1, 2]


def fail_in_objects(world):
    objects_that_fail_at_the_end(world)
    interrupted(world)
    return "together"


def test_who_fails_in_a_collective_of_objects_stays_in_step():
    assert spawn(3, fail_in_objects) == ["together"] * 3
