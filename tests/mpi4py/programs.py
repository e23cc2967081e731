"""How tests start programs written for mpi4py."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
HIKYAKU = TARGET / "debug" / "hikyaku"

# Nothing here takes seconds; a job that takes this long hangs.
PATIENCE = 120

HEAD = """
import sys
import numpy
from mpi4py import MPI
world = MPI.COMM_WORLD
rank, size = world.rank, world.size

def fails(expected, call, *arguments):
    try:
        call(*arguments)
    except MPI.Exception as error:
        assert error.Get_error_class() == expected, error
    else:
        raise AssertionError(f"{call} succeeded")
"""


def start(tmp_path, words, source):
    program = tmp_path / "program.py"
    program.write_text(HEAD + textwrap.dedent(source))
    command = [HIKYAKU, *words, "--", sys.executable, program]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
