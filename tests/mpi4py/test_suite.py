"""mpi4py's own tests, of the version that is installed, but for those that exclusions.txt names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

import pytest

HERE = Path(__file__).parent
EXCLUSIONS = HERE / "exclusions.txt"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parents[1] / "target"))
HIKYAKU = TARGET / "debug" / "hikyaku"

# Two ranks at each change, the others with the long tests.
RANKS = [1, 2, 3, 4] if os.environ.get("HIKYAKU_LONG") == "1" else [2]

# Seconds. A job that takes longer hangs, and the launcher says where.
PATIENCE = 900


def entries() -> list[str]:
    """The tests that are not run."""
    lines = EXCLUSIONS.read_text().splitlines()
    return [line.split()[0] for line in lines if line and not line.startswith("#")]


def run(n: int, *words) -> subprocess.CompletedProcess:
    command = [HIKYAKU, "run", "-n", str(n), "--timeout", str(PATIENCE), "--", sys.executable]
    return subprocess.run([*command, *words], capture_output=True, text=True)


@pytest.fixture(scope="module")
def suite() -> Path:
    """The folder of the tests. They come with mpi4py's source only, from PyPI, once."""
    name = f"mpi4py-{version('mpi4py')}"
    folder = TARGET / "mpi4py"
    if not (folder / name).is_dir():
        get = [sys.executable, "-m", "pip", "download", "--quiet", "--no-binary", ":all:"]
        get += ["--no-deps", "--dest", folder, name.replace("-", "==")]
        subprocess.run(get, check=True)
        with tarfile.open(folder / f"{name}.tar.gz") as source:
            source.extractall(folder, filter="data")
    return folder / name / "test"


@pytest.mark.parametrize("n", RANKS)
def test_what_is_not_excluded_passes(suite, tmp_path, n):
    modules = [entry for entry in entries() if "." not in entry]
    names = tmp_path / "names"
    names.write_text("\n".join(entry for entry in entries() if "." in entry))
    words = ["--no-builddir", "--xfile", names, "-e", f"^({'|'.join(modules)})\\.py$"]
    done = run(n, suite / "main.py", *words)
    # Who has failed stands at the end, behind what each has printed.
    assert done.returncode == 0, done.stderr[-20_000:]
    ran = [int(count) for count in re.findall(r"^Ran (\d+) tests", done.stderr, re.MULTILINE)]
    assert len(ran) == n and min(ran) > 1_500, "most of the suite is not there"


def test_what_is_excluded_fails(suite):
    # At several ranks a test that fails may leave others waiting.
    done = run(1, HERE / "stale.py", suite, EXCLUSIONS)
    assert done.stdout.split() == [], f"take these lines out of {EXCLUSIONS.name}"
    assert done.returncode == 0, done.stderr[-5_000:]
