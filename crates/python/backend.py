"""Builds the wheel (PEP 517): maturin builds the module; the wheel also contains these files:

    bin/hikyaku                    the program, the crate hikyaku-cli
    bin/mpicc ... mpiexec          compilers and launchers for MPI programs
    lib/hikyaku/                   libmpi_abi.so.1, libmpi.so.12, libhikyaku_heap.so, include, pkgconfig

So a program for mpi4py needs only ``pip install hikyaku-mpi mpi4py``: the launcher finds the
libraries there. scripts/mpi.sh builds these files. Wheels have no symbolic links, so the links of
its folder are files here.

The program is not linked into the module. They are 8.2 and 4.2 MB (stripped, profile dev), so every
rank would import up to three times as much, for code that only launchers need. And `hikyaku bench`,
which starts itself, would start interpreters as ranks.
"""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import maturin
from maturin import *  # noqa: F403  maturin's other hooks

ROOT = Path(__file__).parents[2]

# The folder that pyproject.toml names as data. maturin fails if it does not exist.
DATA = ROOT / "target/wheel"
DATA.mkdir(parents=True, exist_ok=True)

LAUNCHER = """\
#!/bin/sh
exec "$(dirname -- "$(readlink -f -- "$0")")/hikyaku" mpiexec "$@"
"""

# A script for the linker, which looks for libmpi_abi.so; programs load libmpi_abi.so.1.
LINK = "INPUT(libmpi_abi.so.1)\n"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    _add_program()
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    _add_program()
    return maturin.build_editable(wheel_directory, config_settings, metadata_directory)


def _add_program():
    """Builds the program with the module's profile and copies it to the data folder."""
    is_release = "MATURIN_PEP517_ARGS" not in os.environ or "--release" in shlex.split(
        os.environ["MATURIN_PEP517_ARGS"]
    )
    words = ["--release"] if is_release else []
    subprocess.run([ROOT / "scripts/mpi.sh", *words], check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    built = target / ("release" if is_release else "debug")
    shutil.rmtree(DATA)
    scripts, folder = DATA / "scripts", DATA / "data/lib/hikyaku"
    scripts.mkdir(parents=True)
    folder.mkdir(parents=True)
    program = shutil.copy(built / "hikyaku", scripts)
    names = ["libmpi_abi.so.1", "libmpi.so.12", "libhikyaku_heap.so"]
    libraries = [shutil.copy(built / "mpi" / name, folder) for name in names]
    subprocess.run(["strip", program, *libraries], check=False)
    (folder / "libmpi_abi.so").write_text(LINK)
    for name in ["include", "pkgconfig"]:
        shutil.copytree(built / "mpi" / name, folder / name)
    for name in ["mpicc", "mpicxx", "mpic++"]:
        shutil.copy(ROOT / "scripts/mpicc", scripts / name)
    for name in ["mpiexec", "mpirun"]:
        (scripts / name).write_text(LAUNCHER)
        (scripts / name).chmod(0o755)
