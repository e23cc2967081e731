"""Fixtures of tests of programs written for mpi4py."""

from __future__ import annotations

import subprocess

import pytest
from programs import ROOT, start


@pytest.fixture
def job(tmp_path):
    """job(n, source): runs a program on n ranks; gives what it prints, if all went well."""

    def run(n: int, source: str) -> str:
        done = start(tmp_path, ["run", "-n", str(n)], source)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return done.stdout

    return run


@pytest.fixture(scope="session", autouse=True)
def libraries():
    """The launcher, and beside it the libraries that it gives to programs."""
    subprocess.run([ROOT / "scripts" / "mpi.sh"], cwd=ROOT, check=True)
