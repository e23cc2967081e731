"""Persistent exchanges: repeated sends to and receives from the same neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from hikyaku import _native
    from hikyaku._native import Data

    Array = NDArray[Any]


class Exchange:
    """An exchange with neighbours that is set up once. World.exchange makes it.

    start sends the present contents of the outgoing arrays, which may be changed when it returns.
    The data moves while the ranks compute. wait fills the incoming arrays; the program may use them
    until then. The exchange keeps the arrays until it is closed, by close or at the end of a
    with-block. If it is closed in flight, or a neighbour dies, every rank whose data cannot arrive
    gets PeerError, and the exchange cannot be used any more.
    """

    def __init__(
        self,
        make: Callable[..., _native.Exchange],
        outs: Sequence[tuple[int, Data]],
        ins: Sequence[tuple[int, Array]],
        scheme: str | None,
    ) -> None:
        outgoing = [(rank, array, _in_one_piece(array)) for rank, array in outs]
        incoming = [(rank, array, _in_one_piece(array)) for rank, array in ins]
        for _, array, place in incoming:
            if place is not array and not array.flags.writeable:
                raise ValueError("ins: an array is read-only, and something is to be stored in it")
        self._native = make(
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
        """Start a round with what the outgoing arrays hold now. Then they may be changed."""
        for array, place in self._packed:
            place[...] = array
        self._native.start()

    def wait(self) -> None:
        """Wait for the round. Then the incoming arrays hold the received data. If a signal handler
        raises an exception, the round stays in flight and can be waited for again."""
        self._native.wait()
        self._unpack()

    def test(self) -> bool:
        """Test without blocking if the round is complete. If true, the arrays are as after wait."""
        is_complete = self._native.test()
        if is_complete:
            self._unpack()
        return is_complete

    @property
    def by_messages(self) -> bool:
        """Whether rounds use messages, at every rank: because a rank lacks queues or memory, or
        because they were chosen. Messages only move while their ranks are in calls of the world."""
        return self._native.by_messages

    def close(self) -> None:
        """Release it and its arrays. Later calls on it are errors."""
        self._native.close()

    def _unpack(self) -> None:
        for array, place in self._unpacked:
            array[...] = place


def _in_one_piece(array: Data) -> Data:
    """The array itself if it is contiguous, else an array of its shape to pack it into."""
    if not isinstance(array, numpy.ndarray) or array.flags.c_contiguous:
        return array
    return numpy.empty(array.shape, array.dtype)
