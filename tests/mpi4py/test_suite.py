"""mpi4py's own tests, of the version that is installed, but for those that exclusions.txt names.

By both binary interfaces: the wheel from PyPI looks for libmpi.so.12, and what is built here from source,
by our mpicc, for libmpi_abi.so.1.
"""

from __future__ import annotations

import os
import re
import shutil
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

# Two ranks of the wheel at each change, the others with the long tests: how many ranks of which build,
# or on which hosts.
IS_LONG = os.environ.get("HIKYAKU_LONG") == "1"
JOBS = [("wheel", 2)]
JOBS += [("wheel", 1), ("source", 1), ("wheel", 4), ("source", 3)] if IS_LONG else []

# Types of MPI that each rank makes and uses alone, at length by one rank: they would take a third of the
# processor's time of each job. The source at one rank runs these alone.
ALONE = ["test_datatype", "test_pack"]

# NUMPYS, numpy's types made types of MPI, is of the same kind. Structures of each two and three of 31
# types take more than all other modules do; one of mpi4py's variables, FEWER, makes that six types. With
# the others they are left out, and run in the source's job.
NUMPYS = "test_util_dtlib"
STRUCTURES = [f"{NUMPYS}.TestUtilDTLib.testStruct{number}" for number in (1, 2)]
FEWER = {"COVERAGE_RUN": "true"}

# Two hosts, as root network namespaces, which `reach` makes and reaches, else both this machine; some
# modules in a minute.
IS_ROOT = os.geteuid() == 0
APART = "10.77.0.1:2,10.77.0.2:2" if IS_ROOT else "a:2,b:2"
JOBS += [("wheel", APART)] if IS_LONG else []
REACH = TARGET / "debug" / "reach"
AGENT = REACH if IS_ROOT else "sh -c 'exec sh -c \"$1\"'"
SOME = r"^test_(comm|comm_inter|op|request|status|p2p_buf|p2p_buf_matched|p2p_obj|cco_vec)\.py$"

# What each build finds.
INTERFACES = {"wheel": "MPICH", "source": "MPI 5.0 ABI"}

# Seconds. A job that takes longer hangs, and the launcher says where.
PATIENCE = 1800

STALE = f"take these lines out of {EXCLUSIONS.name}"


def entries() -> list[str]:
    """The tests that are not run."""
    lines = EXCLUSIONS.read_text().splitlines()
    return [line.split()[0] for line in lines if line and not line.startswith("#")]


def run(
    where: int | str, *words, path: Path | None = None, patience: int = PATIENCE, **variables: str
) -> subprocess.CompletedProcess:
    before = [REACH, "hosts", "2"] if where == APART and IS_ROOT else []
    hosts = ["--hosts", where, "--launcher-exec", AGENT, "--host-timeout", "60"]
    places = hosts if isinstance(where, str) else ["-n", str(where)]
    command = [*before, HIKYAKU, "run", *places, "--timeout", str(patience), "--", sys.executable]
    environment = os.environ | variables | ({"PYTHONPATH": str(path)} if path else {})
    return subprocess.run([*command, *words], capture_output=True, text=True, env=environment)


@pytest.fixture(scope="module")
def suite() -> Path:
    """The folder of the tests. They come with mpi4py's source only, from PyPI, once."""
    name = f"mpi4py-{version('mpi4py')}"
    folder = TARGET / "mpi4py"
    if not (folder / name).is_dir():
        get = [sys.executable, "-m", "pip", "download", "--quiet", "--no-binary", "mpi4py"]
        get += ["--no-deps", "--dest", folder, name.replace("-", "==")]
        subprocess.run(get, check=True)
        with tarfile.open(folder / f"{name}.tar.gz") as source:
            source.extractall(folder, filter="data")
    return folder / name / "test"


@pytest.fixture(scope="module")
def builds(suite) -> dict[str, Path | None]:
    """Where Python finds each build; None: where it is installed."""
    if not IS_LONG:
        return {"wheel": None}
    folder = TARGET / "mpi4py" / f"{suite.parent.name}-abi"
    if not folder.is_dir():
        unfinished = folder.with_suffix(".new")
        shutil.rmtree(unfinished, ignore_errors=True)
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-cache-dir"]
        environment = os.environ | {
            "MPI4PY_BUILD_MPIABI": "1",
            "MPI4PY_BUILD_MPICC": str(TARGET / "debug" / "mpi" / "bin" / "mpicc"),
            # A file of 300,000 lines.
            "CFLAGS": "-O0 -g0 -w",
        }
        words = [*install, "--target", unfinished, suite.parent]
        subprocess.run(words, env=environment, check=True)
        unfinished.rename(folder)
    return {"wheel": None, "source": folder}


@pytest.mark.parametrize(("build", "where"), JOBS)
def test_what_is_not_excluded_passes(suite, builds, tmp_path, build, where):
    if isinstance(where, str) and subprocess.run([HIKYAKU, "fabric", "list"]).returncode != 0:
        pytest.skip("hosts need libfabric")
    show = "from mpi4py import MPI; print(MPI.Get_library_version())"
    found = run(1, "-c", show, path=builds[build])
    assert INTERFACES[build] in found.stdout, found.stdout + found.stderr
    excluded, fewer, some, least = [*entries(), *STRUCTURES], {}, "", 1_500
    if (build, where) == ("source", 1):
        excluded, fewer = entries(), FEWER
        some, least = f"^({'|'.join([*ALONE, NUMPYS])})\\.py$", 70
    elif isinstance(where, str):
        some, least = SOME, 300
    modules = [entry for entry in excluded if "." not in entry]
    modules += ALONE if IS_LONG and where != 1 else []
    modules += [NUMPYS] if where != 1 else []
    names = tmp_path / "names"
    names.write_text("\n".join(entry for entry in excluded if "." in entry))
    words = ["--no-builddir", "--xfile", names, "-e", f"^({'|'.join(modules)})\\.py$"]
    words += ["-i", some] if some else []
    done = run(where, suite / "main.py", *words, path=builds[build], **fewer)
    # Who has failed stands at the end, behind what each has printed.
    assert done.returncode == 0, done.stderr[-20_000:]
    ran = [int(count) for count in re.findall(r"^Ran (\d+) tests", done.stderr, re.MULTILINE)]
    ranks = 4 if isinstance(where, str) else where
    assert len(ran) == ranks and min(ran) > least, "most of the suite is not there"


def test_what_is_excluded_fails(suite):
    # At several ranks a test that fails may leave others waiting.
    done = run(1, HERE / "stale.py", suite, EXCLUSIONS, "")
    assert done.stdout.split() == [], STALE
    assert done.returncode == 0, done.stderr[-5_000:]


# What fails may also wait. How many ranks and which lines.
@pytest.mark.parametrize(("ranks", "lines"), [(2, "several ranks"), (1, "waits")])
def test_what_is_excluded_fails_or_waits(suite, ranks, lines):
    if lines == "waits" and not IS_LONG:
        pytest.skip("it waits for the end of its job")
    done = run(ranks, HERE / "stale.py", suite, EXCLUSIONS, lines, patience=30)
    passed = done.stdout.split()
    assert [name for name in passed if passed.count(name) == ranks] == [], STALE


def test_subclasses_without_files_pass(suite):
    done = run(2, HERE / "subclass.py", suite)
    assert done.returncode == 0, done.stderr[-5_000:]
    assert len(re.findall(r"^Ran 39 tests", done.stderr, re.MULTILINE)) == 2, done.stderr
    assert done.stderr.count("OK (skipped=4)") == 2, "it skips windows and files alone"
