"""The examples run, and say that their results are right."""

import importlib.util
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
        ("ring.py", "rank 0 of"),
        ("shared_array.py", "00 votes"),
        ("halo.py", "equal to the whole grid"),
        ("work_queue.py", "400 pieces, longest 143 steps"),
    ],
)
def test_an_example_runs(program, words, ranks):
    ended = job(program, ranks)
    assert (ended.stderr, ended.returncode) == ("", 0)
    assert words in ended.stdout


def test_digits_are_learnt_if_there_are_any():
    ended = job("digits.py", 2)
    if importlib.util.find_spec("sklearn") is None:
        assert ended.returncode == 1
        assert "digits: scikit-learn is missing; pip install scikit-learn\n" in ended.stderr
        return
    assert (ended.stderr, ended.returncode) == ("", 0)
    assert "of 360 digits right" in ended.stdout


def test_the_benchmark_measures():
    ended = run("bench.py", "1", "50")
    assert (ended.stderr, ended.returncode) == ("", 0)
    for name in ["hikyaku", "Pipe", "Semaphore", "Condition", "Lock"]:
        assert name in ended.stdout
