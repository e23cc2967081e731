"""A world of one, in the test's own process: arrays that are and are not taken, and every call
that needs no other rank."""

import array
import gc
import threading

import numpy
import pytest

import hikyaku


@pytest.fixture(scope="module")
def world():
    return hikyaku.world()


def test_a_plain_program_is_a_world_of_one(world):
    assert (world.rank, world.size, world.node, world.nodes) == (0, 1, 0, 1)
    assert hikyaku.world() is world
    assert repr(world) == "<hikyaku.World: rank 0 of 1>"
    world.barrier()


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "u8", "f4", "f8", "c16", "?", "S3", "i4,f8"])
def test_arrays_of_any_plain_type_arrive(world, dtype):
    sent = numpy.zeros((2, 3), dtype)
    sent.view("u1").reshape(-1)[:] = numpy.arange(sent.nbytes) % 2
    received = numpy.empty_like(sent)
    request = world.irecv(received, 0, 5)
    world.send(sent, 0, 5)
    assert request.wait() == request.wait()
    assert request.wait().nbytes == sent.nbytes
    assert sent.tobytes() == received.tobytes()


def test_anything_with_a_buffer_is_an_array(world):
    into = bytearray(4)
    for sent in [b"abcd", bytearray(b"abcd"), memoryview(b"abcd"), array.array("B", b"abcd")]:
        request = world.irecv(into)
        world.send(sent, 0)
        request.wait()
        assert into == b"abcd"


def test_arrays_without_dimensions_are_taken_and_scalars_only_read(world):
    total = numpy.array(3.0)
    world.allreduce(total)
    request = world.irecv(total)
    world.send(numpy.float64(5), 0)
    request.wait()
    assert total == 5
    with pytest.raises(ValueError, match="read-only"):
        world.recv(numpy.float64(5))
    with pytest.raises(TypeError, match="use send_object"):
        world.send(numpy.array(None), 0)


def test_empty_arrays_are_messages_too(world):
    request = world.irecv(numpy.empty(0), 0, 1)
    world.send(numpy.empty((3, 0)), 0, 1)
    received = request.wait()
    assert (received.source, received.tag, received.nbytes) == (0, 1, 0)


@pytest.mark.parametrize(
    ("bad", "kind", "words"),
    [
        ([1, 2], TypeError, "list is not an array: give numpy.asarray"),
        (None, TypeError, "NoneType is not an array"),
        (numpy.zeros((4, 4))[::2], ValueError, "not contiguous"),
        (numpy.zeros((4, 4))[:, 1:], ValueError, "numpy.ascontiguousarray"),
        (numpy.zeros((3, 2), order="F"), ValueError, "in Fortran order"),
        (numpy.zeros((3, 2)).T, ValueError, "in Fortran order"),
        (numpy.array([{}, None]), TypeError, "use send_object"),
        (numpy.zeros(2, "O,i4"), TypeError, "use send_object"),
        (numpy.zeros(2, "M8[s]"), TypeError, "such as it.view"),
    ],
)
def test_what_is_no_array_in_one_piece_is_refused(world, bad, kind, words):
    calls = [
        lambda: world.send(bad, 0),
        lambda: world.recv(bad, 0),
        lambda: world.isend(bad, 0),
        lambda: world.irecv(bad, 0),
        lambda: world.bcast(bad),
        lambda: world.allreduce(bad),
    ]
    for call in calls:
        with pytest.raises(kind, match=words):
            call()


def test_a_field_whose_name_has_an_o_holds_no_references(world):
    sent = numpy.ones(2, [("Offset", "i4"), ("O", "f8")])
    received = numpy.empty_like(sent)
    request = world.irecv(received)
    world.send(sent, 0)
    request.wait()
    assert (sent == received).all()


def test_nothing_is_received_into_what_is_read_only(world):
    read_only = numpy.zeros(3)
    read_only.flags.writeable = False
    for into in [read_only, b"abc", numpy.broadcast_to(numpy.float64(0), (1,))]:
        for call in [world.recv, world.irecv, world.allreduce, world.scan]:
            with pytest.raises(ValueError, match="read-only"):
                call(into)
    request = world.irecv(numpy.zeros(3))
    world.send(read_only, 0)
    request.wait()
    world.bcast(read_only)


def test_ranks_and_tags_that_do_not_exist_are_refused(world):
    data = numpy.zeros(1)
    for rank in [1, -1, 2**40]:
        with pytest.raises(ValueError, match=f"rank {rank} does not exist.*ranks 0 to 0"):
            world.send(data, rank)
        with pytest.raises(ValueError, match=f"rank {rank} does not exist"):
            world.recv(data, rank)
        with pytest.raises(ValueError, match=f"rank {rank} does not exist"):
            world.bcast(data, rank)
    with pytest.raises(ValueError, match="tag -3 is not valid"):
        world.send(data, 0, -3)
    for tag in [2**31, 2**40, -(2**70)]:
        with pytest.raises(ValueError, match=f"tag {tag} is out of range: tags are 0 to 2147483647"):
            world.send(data, 0, tag)
    with pytest.raises(ValueError, match=f"rank {2**70} is out of range"):
        world.recv(data, 2**70)
    for color in [-1, -32766, 2**32]:
        with pytest.raises(ValueError, match=f"color {color} is out of range: colors are 0"):
            world.split(color)
    with pytest.raises(ValueError, match=f"key {2**31} is out of range"):
        world.split(0, 2**31)


def test_numbers_of_a_window_that_do_not_fit_are_refused(world):
    with world.window(4, "i4") as window:
        with pytest.raises(TypeError, match="into: an array is needed, not 100"):
            window.get(0, 100)
        with pytest.raises(ValueError, match=f"index {2**70} is out of range"):
            window.get(0, index=2**70)
        with pytest.raises(ValueError, match=f"rank {2**70} is out of range"):
            window.put(2**70, [1])
        with pytest.raises(ValueError, match=f"value {2**31} is out of range: elements are i4"):
            window.fetch_add(0, 0, 2**31)


def test_a_message_that_does_not_fit_is_an_error_that_says_so(world):
    request = world.irecv(numpy.zeros(3, "i4"))
    world.send(numpy.zeros(5), 0)
    with pytest.raises(hikyaku.Error, match="40 bytes.*does not fit the buffer of 12 bytes"):
        request.wait()


def test_a_message_of_half_an_element_is_an_error(world):
    request = world.irecv(numpy.zeros(3, "f8"))
    world.send(numpy.zeros(3, "f4"), 0)
    with pytest.raises(hikyaku.Error, match="12 bytes.*not a whole number of elements of 8"):
        request.wait()


def test_what_nobody_else_could_end_does_not_hang(world):
    with pytest.raises(hikyaku.Error, match="waits for a message to itself"):
        world.recv(numpy.zeros(1))
    with pytest.raises(hikyaku.Error, match="waits for a message to itself"):
        world.probe(0, 7)
    with pytest.raises(hikyaku.Error, match="waits for a message to itself"):
        world.send(numpy.zeros(1 << 20), 0)
    # The receiver of an abandoned message gets an error.
    with pytest.raises(hikyaku.PeerError, match="rank 0 abandoned its message"):
        world.recv(numpy.zeros(1))
    request = world.irecv(numpy.zeros(1))
    with pytest.raises(hikyaku.Error, match="waits for a message to itself"):
        request.wait()
    request.cancel()
    assert request.test()
    with pytest.raises(hikyaku.Error, match="cancelled"):
        request.wait()


def test_probe_says_what_is_there(world):
    assert world.iprobe() is None
    world.send(numpy.zeros(3), 0, 9)
    found = world.probe()
    assert (found.source, found.tag, found.nbytes) == (0, 9, 24)
    assert world.iprobe(0, 9) == found
    assert world.recv(numpy.zeros(3)) == found
    assert repr(found) == "Received(source=0, tag=9, nbytes=24)"


def test_a_long_message_to_oneself_goes_through_requests(world):
    sent = numpy.arange(1 << 17, dtype="f8")
    received = numpy.zeros_like(sent)
    requests = [world.irecv(received, 0), world.isend(sent, 0)]
    assert requests[1].wait() is None
    assert requests[0].wait().nbytes == sent.nbytes
    assert (sent == received).all()
    received[:] = 0
    world.sendrecv(sent, 0, received, 0)
    assert (sent == received).all()


def test_a_request_keeps_its_array(world):
    received = numpy.zeros(4)
    request = world.irecv(received, 0, 3)
    with pytest.raises((ValueError, BufferError)):
        received.resize(1 << 20)
    view = received[:]
    del received
    gc.collect()
    world.send(numpy.arange(4.0), 0, 3)
    request.wait()
    assert (view == numpy.arange(4.0)).all()


def test_a_request_that_is_dropped_goes_on(world):
    received = numpy.zeros(1)
    world.irecv(received, 0, 4)
    gc.collect()
    world.send(numpy.ones(1), 0, 4)
    world.iprobe()
    assert received[0] == 1


def test_objects_come_as_they_went(world):
    for value in [None, 17, "text", {"a": [1, (2, 3)]}, numpy.arange(3).tolist(), b"x" * 50_000]:
        world.send_object(value, 0, tag=2)
        assert world.recv_object(0, 2) == value
    assert world.bcast_object([1]) == [1]
    assert world.gather_object("x") == ["x"]
    assert world.allgather_object("x") == ["x"]


def test_objects_and_arrays_do_not_meet(world):
    world.send_object("object", 0, tag=1)
    world.send(b"array", 0, tag=1)
    into = bytearray(5)
    world.recv(into)
    assert (bytes(into), world.recv_object()) == (b"array", "object")


def test_objects_that_cannot_travel_are_refused(world):
    with pytest.raises(TypeError, match="function cannot be pickled"):
        world.send_object(lambda: 0, 0)
    with pytest.raises(TypeError, match="lock cannot be pickled"):
        world.bcast_object(threading.Lock())
    with pytest.raises(ValueError, match="send its arrays with send"):
        world.send_object(bytes(hikyaku.OBJECT_BYTES_MOST), 0)
    assert world.bcast_object(1) == 1


def test_duplicates_are_apart(world):
    first, second = world.duplicate(), world.duplicate()
    first.send(b"1", 0)
    second.send(b"2", 0)
    first.send_object("one", 0)
    second.send_object("two", 0)
    into = bytearray(1)
    second.recv(into)
    assert into == b"2" and second.recv_object() == "two"
    first.recv(into)
    assert into == b"1" and first.recv_object() == "one"
    assert world.iprobe() is None


def test_another_thread_is_told_who_may_speak(world):
    raised = []

    def call():
        for attempt in [hikyaku.world().barrier, lambda: world.rank, lambda: hikyaku.World()]:
            try:
                attempt()
            except hikyaku.Error as error:
                raised.append(str(error))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert len(raised) == 3
    assert all("not the thread that called hikyaku.world() first" in text for text in raised)


def test_what_another_thread_collects_is_let_go_of(world):
    request = [world.irecv(numpy.zeros(1), 0, 6)]
    thread = threading.Thread(target=request.clear)
    thread.start()
    thread.join()
    world.send(numpy.ones(1), 0, 6)
    assert world.iprobe(0, 6) is None


@pytest.mark.parametrize("op", ["sum", "prod", "min", "max", "and", "or", "xor"])
@pytest.mark.parametrize("dtype", ["?", *"bBhHiIqQfd", "F", "D"])
def test_reductions_are_defined_as_they_should(world, op, dtype):
    array = numpy.ones(3, dtype)
    kind = numpy.dtype(dtype).kind
    refused = {"b": ["sum", "prod"], "f": ["and", "or", "xor"], "c": ["prod", "min", "max"]}
    if op in refused.get(kind, []) or (kind == "c" and op != "sum"):
        with pytest.raises(TypeError, match=f"op: '{op}' is not defined for"):
            world.allreduce(array, op)
        return
    for call in [world.allreduce, world.reduce, world.scan, world.exscan]:
        call(array, op)
    assert (array == 1).all()


def test_reductions_of_nonsense_are_refused(world):
    with pytest.raises(ValueError, match="'mean' is none of sum, prod"):
        world.allreduce(numpy.zeros(1), "mean")
    for dtype in [">f8", "f2", "S4", "i4,f8"]:
        with pytest.raises(TypeError, match="cannot be computed with"):
            world.allreduce(numpy.zeros(2, dtype))
    unaligned = numpy.zeros(17, "u1")[1:].view("f8")
    with pytest.raises(ValueError, match="not aligned"):
        world.allreduce(unaligned)


def test_results_have_one_more_dimension(world):
    mine = numpy.arange(6).reshape(2, 3)
    assert (world.gather(mine) == mine[None]).all()
    assert (world.allgather(mine) == mine[None]).all()
    assert (world.alltoall(mine[None]) == mine[None]).all()
    into = numpy.zeros((2, 6), mine.dtype)
    world.alltoallw([mine[:, ::-1]], [into[:, ::2]])
    assert (into[:, ::2] == mine[:, ::-1]).all() and not into[:, 1::2].any()
    assert (world.reduce_scatter(mine[None]) == mine).all()
    assert (world.scatter(mine[None], numpy.empty_like(mine)) == mine).all()


def test_results_of_the_wrong_size_are_refused(world):
    mine, wrong = numpy.zeros(3), numpy.zeros(4)
    for call in [world.gather, world.allgather]:
        with pytest.raises(ValueError, match="32 bytes where 24 are needed"):
            call(mine, into=wrong)
    with pytest.raises(ValueError, match="24 bytes where 32 are needed"):
        world.scatter(mine, wrong)
    with pytest.raises(ValueError, match="must be equal"):
        world.alltoall(mine, wrong)
    with pytest.raises(ValueError, match="parts: 2 arrays were given for 1 ranks"):
        world.alltoallw([mine, mine], [wrong])
    with pytest.raises(ValueError, match="into: 0 arrays were given for 1 ranks"):
        world.alltoallw([mine], [])
    with pytest.raises(ValueError, match="part for itself, in bytes, has 32 where 24"):
        world.alltoallw([mine], [wrong])
    constant = numpy.zeros((2, 6))[:, ::2]
    constant.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        world.alltoallw([numpy.zeros(6)], [constant])
    with pytest.raises(ValueError, match="24 bytes where 32 are needed"):
        world.reduce_scatter(mine, into=wrong)
    with pytest.raises(TypeError, match="not those of data"):
        world.reduce_scatter(mine, into=numpy.zeros(3, "i8"))
    with pytest.raises(ValueError, match="first dimension must be the 1 ranks"):
        world.reduce_scatter(mine)
    with pytest.raises(TypeError, match="root needs an array to scatter"):
        world.scatter(None, wrong)
