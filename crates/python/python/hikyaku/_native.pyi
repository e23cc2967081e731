"""The native half of the package. What is meant for programs is in hikyaku itself."""

from collections.abc import Callable
from typing import Any, final

import numpy
from numpy.typing import NDArray
from typing_extensions import Buffer, TypeAlias

# numpy's arrays say that they are buffers from Python 3.12 on.
Data: TypeAlias = Buffer | NDArray[Any] | numpy.generic
Into: TypeAlias = Buffer | NDArray[Any]

class Error(RuntimeError):
    """What hikyaku could not do, in one line: what, where and what to do."""

class PeerError(Error):
    """Another rank has died, has left the job or has abandoned what was being done together."""

@final
class Received:
    """What a receive or a probe found."""

    @property
    def source(self) -> int:
        """Who sent the message."""
    @property
    def tag(self) -> int:
        """Its tag."""
    @property
    def nbytes(self) -> int:
        """Its length in bytes."""

@final
class Request:
    """An operation in flight: what isend and irecv give.

    Its array is kept until it is done; do not change what is being sent, or look at what is being
    received, before. Wait for each request: one that is dropped goes on all the same, but nobody
    hears of its errors.
    """

    def wait(self) -> Received | None:
        """Wait until it is done. For a receive, what was received; for a send None."""
    def test(self) -> bool:
        """Whether it is done; never waits. If it has failed, wait says how."""
    def cancel(self) -> None:
        """Give it up: a receive takes no message any more, a send that has not begun is not sent.
        Without effect once it is done."""

class World:
    def __new__(cls, number: int = 0) -> World: ...
    @property
    def rank(self) -> int:
        """This rank, 0 to size - 1."""
    @property
    def size(self) -> int:
        """How many ranks there are."""
    @property
    def node(self) -> int:
        """The (virtual) node this rank lives on."""
    @property
    def nodes(self) -> int:
        """How many (virtual) nodes there are."""
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
        """Send an array and receive into another one at the same time: ranks that do this never
        wait for each other's order."""
    def isend(self, data: Data, to: int, tag: int = 0) -> Request:
        """Start to send an array; the request says when it may be changed again."""
    def irecv(self, into: Into, source: int | None = None, tag: int | None = None) -> Request:
        """Start to receive into an array; the request says when the message is there."""
    def probe(self, source: int | None = None, tag: int | None = None) -> Received:
        """Wait for a message and say what it is, without receiving it."""
    def iprobe(self, source: int | None = None, tag: int | None = None) -> Received | None:
        """Say what message is there to be received, or None."""
    def barrier(self) -> None:
        """Wait until every rank has come here."""
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
    def free(self) -> None:
        """Give this communicator back: every later use of it is an error."""
    def _alloc(self, bytes: int) -> Memory: ...
    def _window(self, count: int, sample: Data) -> Window: ...
    def _exchange(
        self, outs: list[tuple[int, Data]], ins: list[tuple[int, Into]], scheme: str | None
    ) -> Exchange: ...
    def _fail_collective(self) -> None: ...
    def _reduce_scatter(self, data: Data, into: Into, op: str) -> None: ...
    def _gather(self, mine: Data, into: Into | None, root: int) -> None: ...
    def _allgather(self, mine: Data, into: Into) -> None: ...
    def _scatter(self, data: Data | None, into: Into, root: int = 0) -> None: ...
    def _shared(
        self,
        name: str,
        shape: tuple[int, ...],
        element: tuple[str, int],
        dtype: numpy.dtype[Any],
        rows: int | None = None,
        tiles: tuple[int, int] | None = None,
        recoverable: bool = False,
        protocol: str | None = None,
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
    """An array bound to a lock: what World.shared gives. Or a part of one, with a lock of its own.

    ``with x.write() as a:`` gives a numpy array that may be written, ``with x.read() as a:`` one
    that may be read, beside other readers. Its contents are the newest when the block begins.
    After the block, writing through ``a`` raises ValueError; what was derived from it inside the
    block (slices, reshapes, other views) cannot be switched off, so do not keep it. What is read
    outside a block is whatever is there.
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
        """Where this part begins in the whole array."""
    @property
    def parts(self) -> int:
        """How many parts the whole array has, each with a lock of its own."""
    @property
    def home(self) -> int:
        """The rank in whose memory its queue is, or that owns it at first."""
    @property
    def owner(self) -> int:
        """The node that owns it, as far as this one was told. Asks nobody."""
    @property
    def state(self) -> str:
        """What this node may do with its copy: "wlock", "rlock", "clean" or "dirty". Asks nobody."""
    @property
    def moved(self) -> tuple[int, int]:
        """Bytes that this rank has fetched from other nodes for it, and how often."""
    @property
    def mark(self) -> tuple[int, bool] | None:
        """Within a block of a recoverable variable: None, or the rank that died with it, and
        whether what was its newest copy died too. The contents may then be in the middle of an
        update."""
    def part(self, number: int) -> Shared:
        """One of the parts. The whole variable is its part 0."""
    def write(self, timeout: float | None = None) -> Access:
        """The array, to be written, in a with-block: nobody else has it meanwhile. With a timeout
        in seconds, TimeoutError if its turn does not come within that."""
    def read(self, timeout: float | None = None) -> Access:
        """The array, to be read, in a with-block: others may read it meanwhile, nobody writes."""

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
