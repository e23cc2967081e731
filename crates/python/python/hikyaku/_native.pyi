"""The native module of the package. Programs use the package hikyaku instead."""

from collections.abc import Callable
from typing import Any, final

import numpy
from numpy.typing import NDArray
from typing_extensions import Buffer, TypeAlias

# numpy's stubs declare arrays as buffers only from Python 3.12 on.
Data: TypeAlias = Buffer | NDArray[Any] | numpy.generic
Into: TypeAlias = Buffer | NDArray[Any]

class Error(RuntimeError):
    """An operation failed. The text is one line: what failed, where, and the remedy."""

class PeerError(Error):
    """Another rank has died, has left the job or has abandoned the common operation."""

@final
class Received:
    """The message that a receive or a probe found."""

    @property
    def source(self) -> int:
        """The sender."""
    @property
    def tag(self) -> int:
        """Its tag."""
    @property
    def nbytes(self) -> int:
        """Its length in bytes."""

@final
class Request:
    """An operation in flight: the result of isend and irecv.

    It keeps its array until it is complete. Until then, do not change an array that is being sent,
    and do not read one that is being received into. Wait for each request: a dropped request still
    completes, but its errors are lost.
    """

    def wait(self) -> Received | None:
        """Wait until it is complete. Returns what was received for a receive, None for a send."""
    def test(self) -> bool:
        """Test without blocking whether it is complete. If it has failed, wait raises the error."""
    def cancel(self) -> None:
        """Cancel it. A cancelled receive matches no message; a send that has not started is not
        sent. Has no effect on a complete request."""

@final
class WorkEnd:
    def note(self) -> None: ...

class World:
    def __new__(cls, number: int = 0) -> World: ...
    @property
    def rank(self) -> int:
        """This rank, 0 to size - 1."""
    @property
    def size(self) -> int:
        """The number of ranks."""
    @property
    def node(self) -> int:
        """The (virtual) node of this rank."""
    @property
    def nodes(self) -> int:
        """The number of (virtual) nodes."""
    def send(self, data: Data, to: int, tag: int = 0) -> None:
        """Send an array; returns when it may be changed again."""
    def recv(self, into: Into, source: int | None = None, tag: int | None = None) -> Received:
        """Receive a message into the front of an array. Without a source or a tag, from any rank
        and of any tag."""
    def sendrecv(
        self,
        data: Data,
        to: int,
        into: Into,
        source: int | None,
        tag: int = 0,
        recv_tag: int | None = None,
    ) -> Received:
        """Send an array and receive into another one at the same time: ranks that call this do not
        deadlock in any order."""
    def isend(self, data: Data, to: int, tag: int = 0) -> Request:
        """Start to send an array; the request says when it may be changed again."""
    def irecv(self, into: Into, source: int | None = None, tag: int | None = None) -> Request:
        """Start to receive into an array; the request says when the message is there."""
    def probe(self, source: int | None = None, tag: int | None = None) -> Received:
        """Wait for a message and describe it, without receiving it."""
    def iprobe(self, source: int | None = None, tag: int | None = None) -> Received | None:
        """Describe the message that could be received now, or None."""
    def barrier(self) -> None:
        """Wait until every rank has called it."""
    def bcast(self, array: Data, root: int = 0) -> None:
        """Give every rank the array of root, in place. Equal sizes everywhere."""
    def reduce(self, array: Into, op: str = "sum", root: int = 0) -> None:
        """Combine the ranks' arrays element by element, in place at root; the others' stay."""
    def allreduce(self, array: Into, op: str = "sum") -> None:
        """Combine the ranks' arrays element by element, in place at every rank."""
    def scan(self, array: Into, op: str = "sum") -> None:
        """Combine the arrays of rank 0 to this one, in place."""
    def exscan(self, array: Into, op: str = "sum") -> None:
        """Combine the arrays of rank 0 to the one before this, in place; at rank 0 it stays."""
    @property
    def _beside(self) -> int: ...
    def _duplicate(self) -> int: ...
    def _split(self, color: int | None, key: int) -> int | None: ...
    def _create_group(self, ranks: list[int]) -> int: ...
    def _work_end(self) -> WorkEnd | None: ...
    def _await_work(self, end: WorkEnd) -> None: ...
    def free(self) -> None:
        """Free this communicator. Every later use of it is an error."""
    def _alloc(self, bytes: int) -> Memory: ...
    def _window(self, count: int, sample: Data) -> Window: ...
    def _exchange(
        self, outs: list[tuple[int, Data]], ins: list[tuple[int, Into]], scheme: str | None
    ) -> Exchange: ...
    def _fail_collective(self) -> None: ...
    def _reduce_scatter(self, data: Data, into: Into, op: str) -> None: ...
    def _gather(self, mine: Data, into: Into | None, root: int) -> None: ...
    def _gatherv(self, mine: Data, into: list[Into], root: int) -> None: ...
    def _allgather(self, mine: Data, into: Into) -> None: ...
    def _scatter(self, data: Data | None, into: Into, root: int = 0) -> None: ...
    def _shared(
        self,
        arguments: tuple[
            str,
            tuple[int, ...],
            tuple[str, int],
            numpy.dtype[Any],
            int | None,
            tuple[int, int] | None,
            bool,
            str | None,
        ],
    ) -> Shared: ...
    def _shared_named(
        self, name: str, dtype_of: Callable[[str], numpy.dtype[Any]]
    ) -> Shared: ...
    def _alltoall(self, data: Data, into: Into) -> None: ...
    def _alltoallw(self, parts: list[Data], into: list[Into]) -> None: ...

@final
class Memory:
    def __buffer__(self, flags: int, /) -> memoryview: ...

class Exchange:
    def start(self) -> None: ...
    def wait(self) -> None: ...
    def test(self) -> bool: ...
    @property
    def by_messages(self) -> bool: ...
    def close(self) -> None: ...

class Window:
    def close(self) -> None: ...
    def _size_of(self, rank: int) -> int: ...
    def _put(self, rank: int, data: Data, index: int) -> None: ...
    def _get(self, rank: int, into: Into, index: int) -> None: ...
    def _add(self, rank: int, data: Data, index: int) -> None: ...
    def _fetch(
        self, name: str, rank: int, index: int, value: Any, expected: Any | None = None
    ) -> Any: ...

@final
class Shared:
    """An array bound to a lock, made by World.shared. Or a part of one, with its own lock.

    ``with x.write() as a:`` gives a numpy array that may be written, ``with x.read() as a:`` one
    that may be read, beside other readers. Its contents are the newest when the block begins. After
    the block, writing through ``a`` raises ValueError. Arrays derived from it inside the block
    (slices, reshapes, other views) stay writable, so do not keep them. The contents read outside a
    block are unspecified.
    """

    @property
    def name(self) -> str:
        """Its name."""
    @property
    def dtype(self) -> numpy.dtype[Any]:
        """The type of its elements."""
    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array in a block: of this part."""
    @property
    def origin(self) -> tuple[int, ...]:
        """The first index of this part in the whole array."""
    @property
    def parts(self) -> int:
        """The number of parts of the whole array, each with its own lock."""
    @property
    def home(self) -> int:
        """The rank that holds its queue in memory, or that owns it at first."""
    @property
    def owner(self) -> int:
        """The last known owner node. Sends no message."""
    @property
    def state(self) -> str:
        """The state of this node's copy: "wlock", "rlock", "clean" or "dirty". Sends no message."""
    @property
    def moved(self) -> tuple[int, int]:
        """The bytes that this rank has fetched for it from other nodes, and how often."""
    @property
    def mark(self) -> tuple[int, bool] | None:
        """Within a block of a recoverable variable: None, or the rank whose death damaged it, and
        whether its newest copy was lost too. The contents may then be in the middle of an
        update."""
    def part(self, number: int) -> Shared:
        """One of the parts. The whole variable is its part 0."""
    def write(self, timeout: float | None = None) -> Access:
        """The array for writing, in a with-block: no other rank holds it meanwhile. Raises
        TimeoutError if it cannot be acquired within timeout seconds."""
    def read(self, timeout: float | None = None) -> Access:
        """The array for reading, in a with-block: others may read it meanwhile, none writes."""

@final
class Access:
    def __enter__(self) -> NDArray[Any]: ...
    def __exit__(
        self, kind: object = None, raised: object = None, traceback: object = None, /
    ) -> bool | None: ...

def _leave(in_order: bool) -> None: ...
def _forked() -> None: ...
def _die_with_parent() -> None: ...
def _launch(
    ranks: int,
    words: list[str],
    ranks_per_node: int | None,
    timeout: float | None,
) -> tuple[int, str | None, list[str]]: ...
