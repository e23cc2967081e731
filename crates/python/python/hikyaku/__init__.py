"""hikyaku: message passing and shared variables between processes, with numpy arrays.

    import hikyaku, numpy

    world = hikyaku.world()
    mine = numpy.full(3, world.rank)
    world.allreduce(mine, "sum")
    if world.rank == 0:
        print(world.size, "ranks, sums", mine)

``hikyaku run -n 4 -- python program.py`` prints ``4 ranks, sums [6 6 6]``. Without ``hikyaku run``,
the program is a world of one rank. The manual is docs/python.md.
"""

from hikyaku._native import Error, PeerError, Received, Request, Shared
from hikyaku._exchange import Exchange
from hikyaku._spawn import SpawnError, spawn
from hikyaku._window import Window
from hikyaku._world import OBJECT_BYTES_MOST, World, world

__all__ = [
    "OBJECT_BYTES_MOST",
    "Error",
    "Exchange",
    "PeerError",
    "Received",
    "Request",
    "Shared",
    "SpawnError",
    "Window",
    "World",
    "spawn",
    "world",
]
