"""Persistent exchanges: what goes to neighbours and comes from them, again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hikyaku._native import Data, World

    Array = NDArray[Any]


class Exchange:
    """An exchange with neighbours that is set up once: what World.exchange gives.

    start sends what the outgoing arrays hold then; from there on they are the program's again. The
    data moves while the ranks compute. wait fills the incoming arrays, which are the program's
    until then. The arrays are kept until the exchange is closed, by close or at the end of a
    with-block. If it is closed in flight, or a neighbour dies, every rank that misses something
    gets PeerError, and the exchange is over.
    """

    def __init__(
        self,
        world: World,
        outs: Sequence[tuple[int, Data]],
        ins: Sequence[tuple[int, Array]],
        scheme: str | None,
    ) -> None:
        outgoing = [(rank, array, _in_one_piece(array)) for rank, array in outs]
        incoming = [(rank, array, _in_one_piece(array)) for rank, array in ins]
        for _, array, place in incoming:
            if place is not array and not array.flags.writeable:
                raise ValueError("ins: an array is read-only, and something is to be stored in it")
        self._native = world._exchange(
            [(rank, place) for rank, _, place in outgoing],
            [(rank, place) for rank, _, place in incoming],
            scheme,
        )
        self._packed = [(array, place) for _, array, place in outgoing if place is not array]
        self._unpacked = [(array, place) for _, array, place in incoming if place is not array]

    def __enter__(self) -> Exchange:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def start(self) -> None:
        """Start a round with what the outgoing arrays hold now; they may be changed at once."""
        for array, place in self._packed:
            place[...] = array
        self._native.start()

    def wait(self) -> None:
        """Wait for the round: the incoming arrays then hold what has come. After an exception of a
        signal's handler the round is still in flight, and can be waited for again."""
        self._native.wait()
        self._unpack()

    def test(self) -> bool:
        """Whether the round is complete, and if so as after wait; never waits."""
        is_complete = self._native.test()
        if is_complete:
            self._unpack()
        return is_complete

    @property
    def by_messages(self) -> bool:
        """Whether rounds go by messages, at every rank: a rank lacks queues or memory, or it was
        chosen. Messages move while their ranks are in calls of the world."""
        return self._native.by_messages

    def close(self) -> None:
        """Give it back, and its arrays; calls on it are errors from here on."""
        self._native.close()

    def _unpack(self) -> None:
        for array, place in self._unpacked:
            array[...] = place


def _in_one_piece(array: Data) -> Data:
    """The array itself, or one beside it if it does not lie in one piece."""
    if not isinstance(array, numpy.ndarray) or array.flags.c_contiguous:
        return array
    return numpy.empty(array.shape, array.dtype)
