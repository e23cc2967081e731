"""MPICH's own tests of MPI, on hikyaku: `make mpich-suite SOURCE=/path/to/mpich-4.0.2`.

The source is not part of this tree; `apt-get source mpich` brings Debian's. Its folder test/mpi is copied
below the target folder, configured and compiled there once for each binary interface. Each test runs as its
`testlist` says, and has passed if it says what that file asks for. expected.txt names those that do not pass,
with a reason each, and can only shrink: a line whose tests all pass has failed. Tests that MPICH's own list
expects to fail (`xfail`) may pass or fail here.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
EXPECTED = HERE / "expected.txt"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parents[1] / "target")).absolute()
BUILD = TARGET / os.environ.get("HIKYAKU_PROFILE", "release")

# Those of what is built; `--disable-fortran` and the like leave out the others.
CHAPTERS = "attr coll comm datatype errhan errors/attr errors/coll errors/comm errors/datatype errors/group"
CHAPTERS += " errors/pt2pt errors/topo group info init pt2pt threads/coll threads/comm threads/init"
CHAPTERS += " threads/pt2pt topo"

# Seconds, unless a test has a limit of its own.
PATIENCE = 180


@dataclass
class Run:
    """A line of a testlist: a program, how many ranks it has, and what else it asks for."""

    chapter: str
    program: str
    ranks: str
    arguments: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    judge: str = ""
    patience: int = PATIENCE
    fails_on_mpich: bool = False

    @property
    def name(self) -> str:
        return f"{self.chapter}/{self.program}"

    def __str__(self) -> str:
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        return " ".join([self.name, self.ranks, *self.arguments, *variables])


def runs_of(folder: Path, chapter: str) -> Iterator[Run]:
    """What the list of a chapter asks for. Lines with one word name folders."""
    for line in (folder / chapter / "testlist").read_text().splitlines():
        words = shlex.split(line, comments=True)
        if len(words) < 2:
            continue
        run = Run(chapter, words[0], words[1])
        for key, _, value in (word.partition("=") for word in words[2:]):
            match key:
                case "arg":
                    run.arguments.append(value)
                case "env":
                    name, _, given = value.partition("=")
                    run.environment[name] = given
                case "resultTest":
                    run.judge = value
                case "xfail":
                    run.fails_on_mpich = True
                case "timeLimit":
                    run.patience = int(value)
        # Variables of MPICH's choose among its own ways: the same run again, for others.
        if not any(name.startswith("MPIR_CVAR") for name in run.environment):
            yield run


def passed(run: Run, code: int, said: str) -> bool:
    """Whether a run has ended as its list asks for, as MPICH's `runtests` judges."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    no_errors = [line for line in lines if line.lower() in ("no errors", "test passed")]
    match run.judge:
        case "TestStatus" | "TestErrFatal":
            return code != 0
        case "TestStatusNoErrors":
            return code != 0 and bool(no_errors)
        case _:
            return code == 0 and bool(no_errors) and lines == no_errors


def compiler(interface: str, folder: Path) -> Path:
    """Compiles for one interface: by our own mpicc, or with MPICH's header and our library."""
    if interface == "abi":
        return BUILD / "mpi/bin/mpicc"
    header, library = TARGET / "mpich/include", BUILD / "mpi"
    if not (header / "mpi.h").exists():
        sys.exit(f"mpich-suite: no {header}/mpi.h: `scripts/mpich.sh {TARGET}/mpich` installs it")
    script = folder.with_suffix(".cc")
    options = f"-I{header} -Wl,--no-as-needed -L{library} -Wl,-rpath,{library} -l:libmpi.so.12"
    script.write_text(f'#!/bin/sh\nexec cc "$@" {options}\n')
    script.chmod(0o755)
    return script


def said_by(words: list[object], log: Path, folder: Path) -> int:
    """Runs a command of the build, which writes a file; its code."""
    with log.open("a") as into:
        return subprocess.run(words, cwd=folder, stdout=into, stderr=into).returncode


def configured(source: Path, interface: str) -> Path:
    """The suite in a folder of its own, where its tests can be made."""
    folder = TARGET / "mpich-suite" / interface
    done = folder / "configured"
    if done.exists():
        return folder
    if not (source / "test/mpi/configure").exists():
        sys.exit(f"mpich-suite: {source} has no test/mpi/configure: give the folder of MPICH's source")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source / "test/mpi", folder, symlinks=True)
    cc, log = compiler(interface, folder), folder / "build.log"
    words = ["./configure", f"MPICC={cc}", f"CC={cc}", "CFLAGS=-O0 -w", "--disable-cxx"]
    words += ["--disable-fortran", f"--with-mpi={BUILD}/mpi"]
    for words in (words, ["make", "-C", "util"], ["make", "-C", "dtpools"]):
        if said_by(words, log, folder):
            sys.exit(f"mpich-suite: `{shlex.join(map(str, words))}` has failed: {log} says why")
    done.touch()
    return folder


def failure_of(run: Run, folder: Path, log: Path) -> str | None:
    """Why a run has not passed; None: it has."""
    program = folder / run.chapter / run.program
    if not program.exists() and said_by(["make", run.program], log, program.parent):
        return f"does not compile: {log} says why"
    words = [BUILD / "hikyaku", "run", "-n", run.ranks, "--timeout", str(run.patience), "--"]
    environment = os.environ | run.environment
    done = subprocess.run(
        [*words, program, *run.arguments],
        cwd=program.parent,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if passed(run, done.returncode, done.stdout):
        return None
    return f"code {done.returncode}: {' | '.join(done.stdout.split(chr(10))[:3])[:300]}"


def expectations(interface: str) -> dict[str, str]:
    """Tests that do not pass, and why: `chapter/program [INTERFACE]  reason`."""
    expected = {}
    for line in EXPECTED.read_text().splitlines():
        if line and not line.startswith("#"):
            name, reason = re.split(r"\s{2,}", line, maxsplit=1)
            name, _, only = name.partition(" ")
            if only in ("", interface):
                expected[name] = reason
    return expected


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path, help="the folder of MPICH's source")
    parser.add_argument("chapters", nargs="*", help=f"of {CHAPTERS}")
    parser.add_argument("--interface", choices=["abi", "mpich"], default="abi")
    given = parser.parse_intermixed_args()
    folder = configured(given.source.absolute(), given.interface)
    expected = expectations(given.interface)
    ran: dict[str, list[str]] = {}
    count, unexpected = 0, []
    for chapter in given.chapters or CHAPTERS.split():
        for run in runs_of(folder, chapter):
            failures = ran.setdefault(run.name, [])
            if expected.get(run.name, "").startswith("not run: "):
                failures.append("not run")
                continue
            count += 1
            if failure := failure_of(run, folder, folder / chapter / "make.log"):
                failures.append(failure)
                if run.name not in expected and not run.fails_on_mpich:
                    unexpected.append(f"{run}: {failure}")
                    print(unexpected[-1], flush=True)
    for name in expected:
        if name in ran and not ran[name]:
            unexpected.append(f"{name}: passes: take its line out of {EXPECTED}")
            print(unexpected[-1], flush=True)
    print(f"{count} runs of {len(ran)} tests; {len(unexpected)} are not as {EXPECTED.name} says")
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
