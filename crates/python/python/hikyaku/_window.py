"""Windows: arrays of which each rank has a part that all ranks use without its help."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from hikyaku import _native

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[Any]
    Index = int | tuple[int, ...]


class Window:
    """Memory of every rank that all ranks put into, get from and change atomically.

    Made by World.window. A part is named by its rank; within it an index is that of an element,
    an int in the flat array or a tuple. A call has had its effect when it returns. Copies that
    meet in one place at the same time leave any mixture of their bytes; what changes one element
    at once (add, fetch_add, swap, compare_swap and so on) does not mix with its like, and is there
    for integers and floats of 4 and 8 bytes.

    Nobody gets a view of the memory: it may change at any time. get copies.
    """

    def __init__(
        self,
        native: _native.Window,
        shape: tuple[int, ...],
        dtype: numpy.dtype[Any],
        rank: int,
    ) -> None:
        self._native = native
        self.shape = shape
        self.dtype = dtype
        self._rank = rank

    def __repr__(self) -> str:
        return f"<hikyaku.Window: {self.shape} of {self.dtype} at each rank>"

    def __enter__(self) -> Window:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Give this rank's part back: from here on the others' calls on it are errors. Not a
        collective: call a barrier before it, where others may still want the part."""
        self._native.close()

    def size_of(self, rank: int) -> int:
        """How many elements the part of a rank has."""
        return self._native._size_of(rank)

    def put(self, rank: int, data: ArrayLike, index: Index = 0) -> None:
        """Copy data into the part of a rank from an index on, as far as data goes."""
        self._native._put(rank, self._elements(data), self._flat(index))

    def get(
        self, rank: int, into: Array | None = None, index: Index = 0, count: int | None = None
    ) -> Array:
        """Copy out of the part of a rank, from an index on: into an array that is given, or into a
        new one: of count elements, or of the window's shape if neither is said."""
        if into is None:
            into = numpy.empty(self.shape if count is None else count, self.dtype)
        elif not isinstance(into, numpy.ndarray):
            text = f"into: an array is needed, not {into!r}; give count or index by name"
            raise TypeError(text)
        elif into.dtype != self.dtype:
            raise TypeError(f"into: its elements are {into.dtype}, the window's {self.dtype}")
        self._native._get(rank, into, self._flat(index))
        return into

    def local(self) -> Array:
        """A copy of this rank's own part, as it is now."""
        return self.get(self._rank)

    def add(self, rank: int, data: ArrayLike, index: Index = 0) -> None:
        """Add data to as many elements of the part of a rank, from an index on; each element at
        once, so that additions of several ranks all count."""
        self._native._add(rank, self._elements(data), self._flat(index))

    def load(self, rank: int, index: Index) -> Any:
        """An element as one, never half of a change."""
        return self._native._fetch("load", rank, self._flat(index), 0)

    def fetch_add(self, rank: int, index: Index, value: Any) -> Any:
        """Add to an element; what was there before. Integers go around at their end."""
        return self._native._fetch("add", rank, self._flat(index), value)

    def swap(self, rank: int, index: Index, value: Any) -> Any:
        """Store a value; what was there before."""
        return self._native._fetch("swap", rank, self._flat(index), value)

    def compare_swap(self, rank: int, index: Index, expected: Any, value: Any) -> Any:
        """Store a value if expected is there (bit for bit, for floats); what was there before."""
        return self._native._fetch("compare_swap", rank, self._flat(index), value, expected)

    def fetch_and(self, rank: int, index: Index, value: int) -> int:
        """Take the bitwise and of an integer; what was there before."""
        return int(self._native._fetch("and", rank, self._flat(index), value))

    def fetch_or(self, rank: int, index: Index, value: int) -> int:
        """Take the bitwise or of an integer; what was there before."""
        return int(self._native._fetch("or", rank, self._flat(index), value))

    def fetch_xor(self, rank: int, index: Index, value: int) -> int:
        """Take the bitwise exclusive or of an integer; what was there before."""
        return int(self._native._fetch("xor", rank, self._flat(index), value))

    def _flat(self, index: Index) -> int:
        if isinstance(index, tuple):
            if len(index) != len(self.shape):
                raise IndexError(f"the index {index} is not one of the shape {self.shape}")
            try:
                return int(numpy.ravel_multi_index(index, self.shape)) if index else 0
            except ValueError as error:
                text = f"the index {index} is outside the shape {self.shape}"
                raise IndexError(text) from error
        if index < 0:
            raise IndexError(f"the index {index} is negative")
        return index

    def _elements(self, data: ArrayLike) -> Array:
        array = numpy.ascontiguousarray(data)
        if array.dtype == self.dtype:
            return array
        if not isinstance(data, numpy.ndarray) and array.dtype.kind + self.dtype.kind == "iu":
            # Python's integers have no sign of their own; numpy refuses those out of range.
            return numpy.asarray(data, self.dtype)
        return array.astype(self.dtype, casting="same_kind")
