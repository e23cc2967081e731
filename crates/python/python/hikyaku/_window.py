"""Windows: each rank owns a part of the array, and all ranks access it without the owner's help."""

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

    Made by World.window. A part is named by its rank. An index names an element of the part: an
    int in the flat array, or a tuple. A call has taken effect when it returns. Concurrent copies
    that overlap leave unspecified bytes. Atomic operations (add, fetch_add, swap, compare_swap and
    so on) on one element do not interfere with each other; they exist for integers and floats of 4
    and 8 bytes.

    There are no views, because the memory may change at any time; get returns a copy.
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
        """Release this rank's part: from now on the others' calls on it are errors. Not a
        collective: use a barrier first if others may still use the part."""
        self._native.close()

    def size_of(self, rank: int) -> int:
        """The number of elements of a rank's part."""
        return self._native._size_of(rank)

    def put(self, rank: int, data: ArrayLike, index: Index = 0) -> None:
        """Copy all of data into the part of a rank, starting at an index."""
        self._native._put(rank, self._elements(data), self._flat(index))

    def get(
        self, rank: int, into: Array | None = None, index: Index = 0, count: int | None = None
    ) -> Array:
        """Copy from the part of a rank, starting at an index: into the array `into`, or into a new
        one of count elements, or by default of the window's shape."""
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
        """A copy of this rank's own part."""
        return self.get(self._rank)

    def add(self, rank: int, data: ArrayLike, index: Index = 0) -> None:
        """Add data to the elements of a rank's part, starting at an index. Each element is added
        atomically, so no addition of another rank is lost."""
        self._native._add(rank, self._elements(data), self._flat(index))

    def load(self, rank: int, index: Index) -> Any:
        """Read an element atomically."""
        return self._native._fetch("load", rank, self._flat(index), 0)

    def fetch_add(self, rank: int, index: Index, value: Any) -> Any:
        """Add to an element and return its old value. Integers wrap around."""
        return self._native._fetch("add", rank, self._flat(index), value)

    def swap(self, rank: int, index: Index, value: Any) -> Any:
        """Store a value and return the old one."""
        return self._native._fetch("swap", rank, self._flat(index), value)

    def compare_swap(self, rank: int, index: Index, expected: Any, value: Any) -> Any:
        """Store a value if the element has the bits of expected. Return the old value."""
        return self._native._fetch("compare_swap", rank, self._flat(index), value, expected)

    def fetch_and(self, rank: int, index: Index, value: int) -> int:
        """Apply a bitwise and to an integer and return its old value."""
        return int(self._native._fetch("and", rank, self._flat(index), value))

    def fetch_or(self, rank: int, index: Index, value: int) -> int:
        """Apply a bitwise or to an integer and return its old value."""
        return int(self._native._fetch("or", rank, self._flat(index), value))

    def fetch_xor(self, rank: int, index: Index, value: int) -> int:
        """Apply a bitwise exclusive or to an integer and return its old value."""
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
            # Python integers convert to unsigned too; numpy refuses those out of range.
            return numpy.asarray(data, self.dtype)
        return array.astype(self.dtype, casting="same_kind")
