"""The class World: extends the native class with functions that are simpler in Python.

Objects are sent as pickles, on separate communicators, so that an object is never received as an
array. Unpickling runs code that the sender chose: the ranks of a job belong to one user and trust
each other.
"""

from __future__ import annotations

import ast
import atexit
import functools
import itertools
import math
import os
import pickle
import sys
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy

from hikyaku import _native
from hikyaku._native import Shared
from hikyaku._exchange import Exchange
from hikyaku._window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import DTypeLike, NDArray

    from hikyaku._native import Data

    Array = NDArray[Any]
    ShapeLike = int | Sequence[int]

Given = ParamSpec("Given")
Result = TypeVar("Result")

OBJECT_BYTES_MOST = 64 << 20
"""The largest pickle of an object, in bytes. Send larger data as arrays."""


class World(_native.World):
    """A communicator of all or some ranks of a job: rank numbers, messages, collectives, memory."""

    _objects_world: World | None = None

    def duplicate(self) -> World:
        """Another communicator of the same ranks. Messages of the two never match each other.

        Every rank calls it, in the same order as other duplications.
        """
        return type(self)(self._duplicate())

    def split(self, color: int | None, key: int = 0) -> World | None:
        """A communicator of the ranks of one color, ordered by key, then by rank.

        Every rank calls it; a rank without a color (None) gets None. The result numbers its ranks
        from 0.
        """
        try:
            number = self._split(color, key)
        except (TypeError, ValueError):
            # A split is two calls, of which only the first has failed for its arguments.
            self._fail_collective()
            raise
        return None if number is None else type(self)(number)

    def create_group(self, ranks: Sequence[int]) -> World:
        """A communicator of the listed ranks, in that order. Only they call it, with one list."""
        return type(self)(self._create_group(list(ranks)))

    # Collectives that return a new array.

    def gather(
        self, mine: Data, root: int = 0, into: Array | None = None
    ) -> Array | None:
        """Gather arrays of equal size at root, in rank order. Returns an array with one more
        dimension at root, None elsewhere."""
        if into is None and self.rank == root:
            into = self._one_a_rank(mine)
        self._gather(mine, into, root)
        return into if self.rank == root else None

    def allgather(self, mine: Data, into: Array | None = None) -> Array:
        """Gather arrays of equal size at every rank, in rank order. Returns an array with one more
        dimension."""
        if into is None:
            into = self._one_a_rank(mine)
        self._allgather(mine, into)
        return into

    def scatter(self, data: Data | None, into: Array, root: int = 0) -> Array:
        """Give each rank its part of root's data, in rank order, in an array of the part's size.
        data is ignored except at root."""
        self._scatter(data, into, root)
        return into

    def alltoall(self, data: Data, into: Array | None = None) -> Array:
        """Give part r of the data to rank r, and get one part from each rank, in rank order. All
        parts have equal size: data[0], data[1], ... if the first dimension is the number of
        ranks."""
        if into is None:
            into = numpy.empty_like(data)
        self._alltoall(data, into)
        return into

    def alltoallw(self, parts: Sequence[Data], into: Sequence[Array]) -> Sequence[Array]:
        """Give parts[r] to rank r, and get the part of rank r for this rank in into[r]. Arrays may
        differ in length and dtype and need not be contiguous: columns of a matrix are packed and
        unpacked here. The part of rank r for rank s must have as many bytes as into[r] at s. The
        arrays of into must not overlap."""
        places = []
        for place in into:
            if not isinstance(place, numpy.ndarray) or place.flags.c_contiguous:
                places.append(place)
            elif place.flags.writeable:
                places.append(numpy.empty(place.shape, place.dtype))
            else:
                self._fail_collective()
                raise ValueError("into: an array is read-only, and something is to be stored in it")
        packed = [
            numpy.ascontiguousarray(part) if isinstance(part, numpy.ndarray) else part
            for part in parts
        ]
        self._alltoallw(packed, places)
        for place, came in zip(into, places):
            if came is not place:
                place[...] = came
        return into

    def reduce_scatter(
        self, data: Data, op: str = "sum", into: Array | None = None
    ) -> Array:
        """Combine the ranks' data element by element, and give part r of the result to rank r."""
        if into is None:
            data = numpy.asarray(data)
            if data.ndim == 0 or data.shape[0] != self.size:
                self._fail_collective()
                raise ValueError(
                    f"data has the shape {data.shape}: its first dimension must be the {self.size} "
                    "ranks, or give into"
                )
            into = numpy.empty(data.shape[1:], data.dtype)
        self._reduce_scatter(data, into, op)
        return into

    def _one_a_rank(self, mine: Data) -> Array:
        mine = numpy.asarray(mine)
        return numpy.empty((self.size, *mine.shape), mine.dtype)

    def exchange(
        self,
        outs: Sequence[tuple[int, Data]],
        ins: Sequence[tuple[int, Array]],
        scheme: str | None = None,
    ) -> Exchange:
        """An exchange with neighbours that is set up once and then used repeatedly. Each (rank,
        array) of outs sends the array to the rank; each (rank, array) of ins fills the array from
        the rank. Every rank calls it; a rank without neighbours passes empty lists.

        Several arrays from one rank to another match in order: the first one sent fills the first
        one of the receiver's ins from that rank. Sizes in bytes must agree. Arrays need not be
        contiguous: a column of a matrix is packed and unpacked.

        scheme is the use of command queues for the neighbours: fast, mrc or combined; or messages,
        to use none. By default hikyaku chooses, or hikyaku run --coll exchange=... does.
        """
        with _Calls(self, 1) as calls:
            return Exchange(functools.partial(calls.make, self._exchange), outs, ins, scheme)

    def overlap(
        self, work: Callable[Given, Result], /, *given: Given.args, **named: Given.kwargs
    ) -> Result:
        """Call work(*given, **named) on another thread and return its result. Meanwhile this thread
        makes progress on all operations in flight and serves other ranks, as in a wait: messages
        advance while the program computes.

        work cannot use the world. It should leave the interpreter to others, as functions of numpy
        do.
        """
        end = self._work_end()
        if end is None:
            return work(*given, **named)
        outcome: Future[Result] = Future()

        def run() -> None:
            try:
                outcome.set_result(work(*given, **named))
            except BaseException as error:
                outcome.set_exception(error)
            finally:
                end.note()

        thread = threading.Thread(target=run, name="hikyaku-work")
        thread.start()
        try:
            self._await_work(end)
        finally:
            thread.join()
        return outcome.result()

    # Memory.

    def alloc(self, shape: ShapeLike, dtype: DTypeLike = "f8") -> Array:
        """An array of zeros in memory that the other ranks of the node can copy from directly:
        messages from and into it are faster. It is an ordinary array and may outlive the world."""
        dtype, shape = _plain(dtype), _shape(shape)
        memory = self._alloc(_count(shape) * dtype.itemsize)
        return numpy.ndarray(shape, dtype, buffer=memoryview(memory))

    def window(self, shape: ShapeLike, dtype: DTypeLike = "f8") -> Window:
        """A window: an array of zeros at every rank that all ranks can put to, get from and update
        atomically, without the owner's help. Every rank calls it with the same shape and dtype."""
        with _Calls(self, 1) as calls:
            dtype, shape = _plain(dtype), _shape(shape)
            native = calls.make(self._window, _count(shape), numpy.empty(0, dtype))
        return Window(native, shape, dtype, self.rank)

    def shared(
        self,
        name: str,
        shape: ShapeLike,
        dtype: DTypeLike = "f8",
        *,
        rows: int | None = None,
        tiles: tuple[int, int] | None = None,
        recoverable: bool = False,
        protocol: str | None = None,
    ) -> Shared:
        """An array of zeros that is bound to a lock. Acquiring the lock gives the newest contents.
        Every rank calls it with the same arguments.

        rows or tiles divide the array into parts, each with its own lock: a number of rows, or the
        rows and columns of a tile. If a rank dies while it holds the variable, or its only new
        copy, the variable is lost, and acquiring it is an error. A recoverable variable continues
        with the newest remaining copy, and Shared.mark reports it.

        protocol is how the contents reach the holders: direct (the default), fagus or udp.
        """
        with _Calls(self, 1) as calls:
            dtype, shape = _plain(dtype), _shape(shape)
            element = dtype.str if dtype.names is None else repr(dtype.descr), dtype.itemsize
            arguments = name, shape, element, dtype, rows, tiles, recoverable, protocol
            made: Shared = calls.make(self._shared, arguments)
        return made

    def shared_named(self, name: str) -> Shared:
        """The shared variable with this name. This rank must have made it and not freed it."""
        return self._shared_named(name, _dtype_of)

    # Objects.

    def _objects(self) -> World:
        if self._objects_world is None:
            self._objects_world = World(self._beside)
        return self._objects_world

    def send_object(self, value: Any, to: int, tag: int = 0) -> None:
        """Send any object that can be pickled, up to OBJECT_BYTES_MOST."""
        self._objects().send(_pickled(value), to, tag)

    def recv_object(self, source: int | None = None, tag: int | None = None) -> Any:
        """Receive an object from send_object."""
        objects = self._objects()
        found = objects.probe(source, tag)
        pickled = numpy.empty(found.nbytes, "u1")
        objects.recv(pickled, found.source, found.tag)
        return pickle.loads(pickled.data)

    def bcast_object(self, value: Any = None, root: int = 0) -> Any:
        """Give every rank the object of root. value is ignored except at root."""
        with _Calls(self._objects(), 2) as calls:
            pickled: bytes | bytearray = _pickled(value) if self.rank == root else b""
            length = numpy.array([len(pickled)])
            calls.make(calls.objects.bcast, length, root)
            if self.rank != root:
                pickled = bytearray(int(length[0]))
            calls.make(calls.objects.bcast, pickled, root)
        return value if self.rank == root else pickle.loads(pickled)

    def gather_object(self, value: Any, root: int = 0) -> list[Any] | None:
        """Gather one object of each rank at root. Returns a list in rank order at root, None
        elsewhere."""
        with _Calls(self._objects(), 2) as calls:
            if root not in range(self.size):
                raise ValueError(f"there is no rank {root} in a world of {self.size}")
            pickled = b"" if self.rank == root else _pickled(value)
            _, pieces = self._gather_pickles(calls, pickled, root, self.rank == root)
        return self._loaded(pieces, value) if self.rank == root else None

    def allgather_object(self, value: Any) -> list[Any]:
        """Gather one object of each rank at every rank. Returns a list in rank order."""
        with _Calls(self._objects(), 3) as calls:
            everyone, pieces = self._gather_pickles(calls, _pickled(value), 0, True)
            calls.make(calls.objects.bcast, everyone)
        return self._loaded(pieces, value)

    def _gather_pickles(
        self, calls: _Calls, pickled: bytes, root: int, makes_room: bool
    ) -> tuple[memoryview, list[memoryview]]:
        """Room for the pickles of all ranks, if wanted, and its pieces. Root has the pickles."""
        lengths = numpy.empty(self.size, "i8")
        # Every rank must have pickled its object first: if one fails, root must not wait for it.
        calls.make(calls.objects._allgather, numpy.array([len(pickled)]), lengths)
        ends = [0, *itertools.accumulate(lengths.tolist() if makes_room else [])]
        room = memoryview(bytearray(ends[-1]))
        pieces = [room[start:end] for start, end in zip(ends, ends[1:])]
        calls.make(calls.objects._gatherv, pickled, pieces, root)
        return room, pieces

    def _loaded(self, pieces: list[memoryview], value: Any) -> list[Any]:
        """The objects of all ranks. One that cannot be unpickled is an error at this rank alone:
        all have arrived."""
        return [
            value if rank == self.rank else pickle.loads(piece)
            for rank, piece in enumerate(pieces)
        ]


class _Calls:
    """The native collectives that one collective makes. Every rank makes as many: if this rank
    fails before one, the rest count as made and fail at all ranks. A rank that skipped them would
    be out of step with the others from then on."""

    def __init__(self, objects: World, number: int) -> None:
        self.objects = objects
        self._left = number

    def make(self, call: Callable[..., Any], *arguments: Any) -> Any:
        self._left -= 1
        return call(*arguments)

    def __enter__(self) -> _Calls:
        return self

    def __exit__(self, *raised: object) -> None:
        for _ in range(self._left):
            self.objects._fail_collective()


def world() -> World:
    """The world of this process. The first call joins the job in which ``hikyaku run`` started this
    program. A program that was started without it is a world of one rank.

    Only the thread of the first call may use it. The rank leaves its job when the program ends.
    """
    global _the_world
    if _the_world is None:
        joined = World()
        atexit.register(_leave)
        os.register_at_fork(after_in_child=_native._forked)
        _the_world = joined
    return _the_world


_the_world: World | None = None


def _plain(dtype: DTypeLike) -> numpy.dtype[Any]:
    dtype = numpy.dtype(dtype)
    if dtype.hasobject:
        raise TypeError("elements that are Python objects mean nothing to another process")
    return dtype


def _dtype_of(element: str) -> numpy.dtype[Any]:
    """The dtype of a name that World.shared has given."""
    if not element.startswith("["):
        return numpy.dtype(element)
    # Padding has a field of its own in a description.
    return numpy.lib.format.descr_to_dtype(ast.literal_eval(element))


def _shape(shape: ShapeLike) -> tuple[int, ...]:
    shape = (shape,) if isinstance(shape, (int, numpy.integer)) else tuple(shape)
    if any(length < 0 for length in shape):
        raise ValueError(f"the shape {shape} has a negative length")
    return tuple(int(length) for length in shape)


def _count(shape: tuple[int, ...]) -> int:
    return math.prod(shape)


def _leave() -> None:
    # A program that ends with an exception does not complete its operations: its peers are notified
    # that this rank has died, not that it has finished.
    _native._leave(getattr(sys, "last_value", None) is None)


def _pickled(value: Any) -> bytes:
    try:
        pickled = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TypeError(f"the {type(value).__name__} cannot be pickled: {error}") from error
    if len(pickled) > OBJECT_BYTES_MOST:
        raise ValueError(
            f"the object is {len(pickled)} bytes as a pickle and objects have {OBJECT_BYTES_MOST} "
            "at most: send its arrays with send"
        )
    return pickled
