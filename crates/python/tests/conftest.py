"""Whole jobs from within pytest: programs under ``hikyaku run``.

What needs several ranks and nothing else uses hikyaku.spawn, with functions of the test's module.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable

import pytest

# Nothing here takes seconds; a job that takes this long hangs.
PATIENCE = 120


@pytest.fixture
def job(tmp_path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """job(n, source, *options): runs a program on n ranks under ``hikyaku run``."""

    def run(n: int, source: str, *options: str) -> subprocess.CompletedProcess[str]:
        program = tmp_path / "program.py"
        program.write_text(textwrap.dedent(source))
        launcher = [sys.executable, "-m", "hikyaku", "run", "-n", str(n), *options, "--"]
        return subprocess.run(
            [*launcher, sys.executable, str(program)],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    return run
