"""The class World: what the native one has, and what is easier said in Python.

Objects travel as pickles, over communicators of their own, so that an object is never taken for
an array. Unpickling runs code that the sender chose: ranks of a job are one user's programs and
trust each other.
"""

from __future__ import annotations

import ast
import atexit
import math
import os
import pickle
import sys
from typing import TYPE_CHECKING, Any

import numpy

from hikyaku import _native
from hikyaku._native import Shared
from hikyaku._exchange import Exchange
from hikyaku._window import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike, NDArray

    from hikyaku._native import Data

    Array = NDArray[Any]
    ShapeLike = int | Sequence[int]

OBJECT_BYTES_MOST = 64 << 20
"""Largest pickle that is sent as an object, bytes. What is larger should be an array."""


_GATHER_TAG = 2**31 - 1
"""Tag of objects that are gathered; a program that uses it for its own objects mixes them up."""


class World(_native.World):
    """All ranks of a job, or some of them: who am I, messages, collectives, memory."""

    _objects_world: World | None = None

    def duplicate(self) -> World:
        """Another communicator of the same ranks, whose messages match none of this one's.

        Every rank calls it, in the same order as other duplications.
        """
        return type(self)(self._duplicate())

    def split(self, color: int | None, key: int = 0) -> World | None:
        """The ranks of one color, numbered by key, and by rank where keys are equal.

        Every rank calls it; one that gives no color (None) gets None. Ranks of the result are its
        own numbers, from 0.
        """
        number = self._split(color, key)
        return None if number is None else type(self)(number)

    def create_group(self, ranks: Sequence[int]) -> World:
        """The ranks of a list, in its order. They alone call it, all with the same list."""
        return type(self)(self._create_group(list(ranks)))

    # Collectives whose result is an array of its own.

    def gather(
        self, mine: Data, root: int = 0, into: Array | None = None
    ) -> Array | None:
        """Bring equal arrays of all ranks to root, in rank order: an array with one more dimension
        there, None elsewhere."""
        if into is None and self.rank == root:
            into = self._one_a_rank(mine)
        self._gather(mine, into, root)
        return into if self.rank == root else None

    def allgather(self, mine: Data, into: Array | None = None) -> Array:
        """Bring equal arrays of all ranks to all, in rank order: an array with one more
        dimension."""
        if into is None:
            into = self._one_a_rank(mine)
        self._allgather(mine, into)
        return into

    def scatter(self, data: Data | None, into: Array, root: int = 0) -> Array:
        """Give each rank its part of the data of root, in rank order, into an array of the part's
        size. Elsewhere than at root data is not looked at."""
        self._scatter(data, into, root)
        return into

    def alltoall(self, data: Data, into: Array | None = None) -> Array:
        """Give part r of the data to rank r, and get one part of each rank, in rank order. The
        parts are equal: data[0], data[1], ... if its first dimension is the number of ranks."""
        if into is None:
            into = numpy.empty_like(data)
        self._alltoall(data, into)
        return into

    def alltoallw(self, parts: Sequence[Data], into: Sequence[Array]) -> Sequence[Array]:
        """Give parts[r] to rank r, and get what each rank has for this one in into[r]. Every array
        may have a length and a dtype of its own, and need not lie in one piece: columns of a matrix
        are packed and unpacked here. What rank r has for rank s has as many bytes as the place that
        s has for it; places do not overlap."""
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
        """Combine the ranks' data element by element, and give part r of that to rank r."""
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
        """An exchange with neighbours that is set up once, and started and waited for again and
        again: the array of each (rank, array) of outs goes to that rank, and the array of each of
        ins is filled by that rank. Every rank calls it, one without neighbours with empty lists.

        Of several arrays from one rank to another, the first that is sent fills the first of the
        other's ins that are from there; sizes in bytes must agree. Arrays need not lie in one
        piece: a column of a matrix is packed and unpacked.

        scheme is how command queues serve the neighbours: fast, mrc or combined; or messages, for
        none. Without it, whatever is best, or hikyaku run --coll exchange=... says.
        """
        return Exchange(self, outs, ins, scheme)

    # Memory.

    def alloc(self, shape: ShapeLike, dtype: DTypeLike = "f8") -> Array:
        """An array of zeros in memory that the other ranks of the node reach by one copy: messages
        from and into it are faster. It is an array like any other, and may outlive the world."""
        dtype, shape = _plain(dtype), _shape(shape)
        memory = self._alloc(_count(shape) * dtype.itemsize)
        return numpy.ndarray(shape, dtype, buffer=memoryview(memory))

    def window(self, shape: ShapeLike, dtype: DTypeLike = "f8") -> Window:
        """Memory of zeros at every rank that all ranks put into, get from and change atomically,
        without the owner's help. Every rank calls it with the same shape and dtype."""
        dtype, shape = _plain(dtype), _shape(shape)
        native = self._window(_count(shape), numpy.empty(0, dtype))
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
        """An array of zeros that is bound to a lock: having it brings the newest contents. Every
        rank calls it with the same arguments.

        rows or tiles divide it into parts, each with a lock of its own: so many rows, or tiles of
        so many rows and columns. If a rank dies that has a variable, or the only new copy, it is
        lost and having it is an error; if it is recoverable, the newest copy there is goes on,
        and Shared.mark says so.

        protocol is how it gets to those who have it: direct (the default), fagus or udp.
        """
        dtype, shape = _plain(dtype), _shape(shape)
        element = dtype.str if dtype.names is None else repr(dtype.descr), dtype.itemsize
        return self._shared(name, shape, element, dtype, rows, tiles, recoverable, protocol)

    def shared_named(self, name: str) -> Shared:
        """The shared variable of a name, which this rank has made and still has."""
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
        """Receive an object that send_object sent."""
        objects = self._objects()
        found = objects.probe(source, tag)
        pickled = numpy.empty(found.nbytes, "u1")
        objects.recv(pickled, found.source, found.tag)
        return pickle.loads(pickled.data)

    def bcast_object(self, value: Any = None, root: int = 0) -> Any:
        """Give every rank the object of root. Elsewhere the value is not looked at."""
        objects = self._objects()
        pickled: bytes | bytearray = self._pickled(value) if self.rank == root else b""
        length = numpy.array([len(pickled)])
        objects.bcast(length, root)
        if self.rank != root:
            pickled = bytearray(int(length[0]))
        objects.bcast(pickled, root)
        return value if self.rank == root else pickle.loads(pickled)

    def gather_object(self, value: Any, root: int = 0) -> list[Any] | None:
        """Bring one object of each rank to root: a list in rank order there, None elsewhere."""
        objects = self._objects()
        ranks = range(self.size)
        if root not in ranks:
            objects._fail_collective()
            raise ValueError(f"there is no rank {root} in a world of {self.size}")
        pickled = b"" if self.rank == root else self._pickled(value)
        # No rank sends before all have an object to send: otherwise root would wait for the others.
        objects.barrier()
        if self.rank != root:
            objects.send(pickled, root, _GATHER_TAG)
            return None
        return [value if r == root else self.recv_object(r, _GATHER_TAG) for r in ranks]

    def allgather_object(self, value: Any) -> list[Any]:
        """Bring one object of each rank to all: a list in rank order."""
        everyone: list[Any] = self.bcast_object(self.gather_object(value))
        return everyone

    def _pickled(self, value: Any) -> bytes:
        """What this rank gives to a collective of objects, which fails at all ranks if that cannot
        be pickled."""
        try:
            return _pickled(value)
        except BaseException:
            self._objects()._fail_collective()
            raise


def world() -> World:
    """The world of this process. The first call joins the job that ``hikyaku run`` started this
    program in; a program that was started by itself is a world of one.

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
    """The dtype that World.shared has named."""
    return numpy.dtype(ast.literal_eval(element) if element.startswith("[") else element)


def _shape(shape: ShapeLike) -> tuple[int, ...]:
    shape = (shape,) if isinstance(shape, (int, numpy.integer)) else tuple(shape)
    if any(length < 0 for length in shape):
        raise ValueError(f"the shape {shape} has a negative length")
    return tuple(int(length) for length in shape)


def _count(shape: tuple[int, ...]) -> int:
    return math.prod(shape)


def _leave() -> None:
    # A program that ends by an exception does not complete its operations: its peers are notified
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
