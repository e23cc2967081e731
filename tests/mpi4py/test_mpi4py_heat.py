"""The examples of `examples/mpi` in Python, for real and in virtual time."""

from __future__ import annotations

import subprocess
import sys

import pytest
from programs import HIKYAKU, PATIENCE, ROOT

HEAT = ROOT / "examples" / "mpi" / "heat.py"


def heat(*words):
    command = [HIKYAKU, *words, "--", sys.executable, HEAT, "50"]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


@pytest.mark.parametrize("ranks", [1, 3, 4])
def test_heat_is_the_serial_answer_bit_by_bit(ranks):
    done = heat("run", "-n", str(ranks))
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("in the middle after 50 steps, the serial answer bit by bit\n")


def test_heat_is_the_same_in_virtual_time():
    done = heat("simulate", "-m", "cenju4", "--ranks", "4")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == heat("run", "-n", "2").stdout.splitlines()[0]
