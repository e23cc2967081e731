"""A fresh environment with the wheel and mpi4py, and nothing else: programs run, and are compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version

import pytest
from programs import PATIENCE, ROOT


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder `bin` of an environment into which pip has put both."""
    top = tmp_path_factory.mktemp("wheel")
    bin = os.path.dirname(sys.executable)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps"]
    environment = os.environ | {
        "PATH": f"{bin}:{os.environ['PATH']}",
        "MATURIN_PEP517_ARGS": "--profile dev",
    }
    subprocess.run([*build, "--wheel-dir", top, ROOT], env=environment, check=True)
    [wheel] = top.glob("hikyaku_mpi-*.whl")
    subprocess.run([sys.executable, "-m", "venv", top / "fresh"], check=True)
    pip = [top / "fresh/bin/pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, wheel, f"mpi4py=={version('mpi4py')}"], check=True)
    return top / "fresh/bin"


def run(installed, *words, **options):
    """A command as somebody calls it who has activated the environment."""
    others = {"LD_LIBRARY_PATH", "MPI4PY_LIBMPI", "MPI_LIB_NRN_PATH", "PYTHONPATH"}
    environment = {name: value for name, value in os.environ.items() if name not in others}
    environment["PATH"] = f"{installed}:{os.environ['PATH']}"
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=PATIENCE, env=environment, **options
    )
    assert (done.stderr, done.returncode) == ("", 0)
    return done.stdout


@pytest.mark.parametrize("launcher", ["hikyaku run", "mpiexec", "mpirun", "python -m hikyaku run"])
def test_a_program_for_mpi4py_runs(installed, tmp_path, launcher):
    program = tmp_path / "program.py"
    program.write_text(
        "from mpi4py import MPI\n"
        "comm = MPI.COMM_WORLD\n"
        "total = comm.allreduce(comm.rank)\n"
        "if comm.rank == 0:\n"
        "    print(comm.size, total, MPI.Get_library_version().split()[0])\n"
    )
    separator = ["--"] if launcher.endswith("run") and "mpi" not in launcher else []
    words = [*launcher.split(), "-n", "4", *separator, "python", program]
    assert run(installed, *words) == "4 6 hikyaku\n"


def test_the_module_and_mpi4py_are_one_rank(installed):
    example = ROOT / "examples/mpi/shared.py"
    said = run(installed, "hikyaku", "run", "-n", "4", "--", "python", example)
    assert said == "40000 numbers of 4 ranks, as counted by one\n"


@pytest.mark.parametrize("compiler", ["mpicc", "mpicxx", "mpic++"])
def test_a_program_is_compiled_and_runs(installed, tmp_path, compiler):
    source = tmp_path / ("hello.c" if compiler == "mpicc" else "hello.cc")
    source.write_text(
        """
        #include <mpi.h>
        #include <stdio.h>
        int main(void) {
            int rank, sum;
            MPI_Init(NULL, NULL);
            MPI_Comm_rank(MPI_COMM_WORLD, &rank);
            MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            if (rank == 0) printf("%d\\n", sum);
            return MPI_Finalize();
        }
        """
    )
    assert run(installed, compiler, "-o", tmp_path / "hello", source) == ""
    assert run(installed, "mpiexec", "-n", "3", tmp_path / "hello") == "3\n"
    flags = run(installed, compiler, "-show").split()
    assert f"-L{installed.parent}/lib/hikyaku" in flags
