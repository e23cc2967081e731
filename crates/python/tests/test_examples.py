"""The examples run, and say that their results are right."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples" / "python"


def run(*words):
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=300, cwd=EXAMPLES
    )


def job(program, ranks):
    launcher = ["-m", "hikyaku", "run", "-n", str(ranks), "--"]
    return run(*launcher, sys.executable, program)


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("halo.py", "equal to the whole grid"),
        ("work_queue.py", "400 pieces, longest 143 steps"),
    ],
)
def test_an_example_runs(program, words, ranks):
    ended = job(program, ranks)
    assert (ended.stderr, ended.returncode) == ("", 0)
    assert words in ended.stdout
