"""What the tests here run on."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session", autouse=True)
def libraries():
    """The launcher, and beside it the libraries that it gives to programs."""
    subprocess.run(["cargo", "build", "-q", "--locked", "-p", "hikyaku-cli"], cwd=ROOT, check=True)
    subprocess.run([ROOT / "scripts" / "mpi.sh"], cwd=ROOT, check=True)
