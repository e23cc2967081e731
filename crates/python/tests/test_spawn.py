"""spawn: results and failures of functions on ranks, and what is left of them."""

import functools
import os
import signal
import subprocess
import sys
import textwrap
import threading

import numpy
import pytest

import hikyaku
from hikyaku import SpawnError

# A job that takes this long hangs.
spawn = functools.partial(hikyaku.spawn, timeout=120)


def who(world, *words):
    return world.rank, world.size, words


def fail(world, failing):
    if world.rank == failing:
        raise ZeroDivisionError(f"on {failing}")
    world.barrier()


def die(world):
    if world.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    world.barrier()


def leave(world):
    if world.rank == 0:
        os._exit(0)


class Unpicklable(Exception):
    def __init__(self, first, second):
        super().__init__(first)


def fail_oddly(world):
    raise Unpicklable("one", "two")


def result_that_stays(world):
    return lambda: 0


def talk(world):
    print(f"to output {world.rank}")
    print(f"to errors {world.rank}", file=sys.stderr)


def big(world):
    return numpy.full(1_000_000, world.rank)


def wait_for_ever(world):
    world.recv(bytearray(1), 1 - world.rank)


def nested(world):
    return spawn(2, who, world.rank)


def test_results_come_in_rank_order():
    expected = [(rank, 3, ("a", 1)) for rank in range(3)]
    assert spawn(3, who, "a", 1) == expected
    assert spawn(1, who) == [(0, 1, ())]
    assert [(part[0], len(part)) for part in spawn(2, big)] == [(0, 10**6), (1, 10**6)]


def test_an_exception_has_its_rank_and_traceback():
    for failing in range(2):
        with pytest.raises(SpawnError, match=f"rank {failing}: ZeroDivisionError: on") as caught:
            spawn(2, fail, failing)
        error = caught.value
        assert error.rank == failing
        assert 'raise ZeroDivisionError(f"on {failing}")' in error.traceback
        assert "_job.py" not in error.traceback
        assert isinstance(error.__cause__, ZeroDivisionError)
        assert isinstance(error, hikyaku.Error)


def test_an_exception_that_cannot_come_back_is_told_all_the_same():
    with pytest.raises(SpawnError, match="rank 0: .*Unpicklable: one") as caught:
        spawn(1, fail_oddly)
    assert caught.value.__cause__ is None
    assert "Unpicklable" in caught.value.traceback


def test_a_rank_that_dies_is_told():
    with pytest.raises(SpawnError, match=r"rank 1 .*SIGKILL") as caught:
        spawn(2, die)
    assert (caught.value.rank, caught.value.traceback) == (1, None)
    with pytest.raises(SpawnError, match="rank 0 ended without a result"):
        spawn(2, leave)


def test_time_runs_out():
    with pytest.raises(SpawnError, match="(?s)did not end within 1 s.*rank 0.*rank 1"):
        spawn(2, wait_for_ever, timeout=1)


def test_what_cannot_be_sent_is_refused():
    with pytest.raises(ValueError, match="at least one rank"):
        spawn(0, who)
    with pytest.raises(SpawnError, match="5000 ranks are too many"):
        spawn(5000, who)
    with pytest.raises(TypeError, match="who cannot be sent to ranks: .*lock"):
        spawn(1, who, threading.Lock())


def test_output_comes_out_here(capsys):
    spawn(2, talk)
    out, err = capsys.readouterr()
    assert sorted(out.splitlines()) == ["to output 0", "to output 1"]
    assert sorted(err.splitlines()) == ["to errors 0", "to errors 1"]


def test_a_rank_may_spawn():
    inner = [[(r, 2, (outer,)) for r in range(2)] for outer in range(2)]
    assert spawn(2, nested) == inner


def program(source, with_cloudpickle, tmp_path):
    """Runs a program with or without cloudpickle, which may or may not be installed here."""
    (tmp_path / "program.py").write_text(textwrap.dedent(source))
    (tmp_path / "cloudpickle.py").write_text(CLOUDPICKLE if with_cloudpickle else ABSENT)
    words = [sys.executable, str(tmp_path / "program.py")]
    return subprocess.run(words, capture_output=True, text=True, timeout=120)


ABSENT = "raise ImportError('not installed')"

# What spawn needs of it, for functions that use nothing from around them.
CLOUDPICKLE = """
import marshal, pickle, types, io

def build(code):
    return types.FunctionType(marshal.loads(code), {"__builtins__": __builtins__})

class Pickler(pickle.Pickler):
    def reducer_override(self, value):
        if isinstance(value, types.FunctionType) and value.__module__ == "__main__":
            return build, (marshal.dumps(value.__code__),)
        return NotImplemented

def dumps(value):
    out = io.BytesIO()
    Pickler(out).dump(value)
    return out.getvalue()
"""

IN_MAIN = """
    import hikyaku

    def double(world, number):
        return number * 2 + world.rank

    if __name__ == "__main__":
        try:
            print(hikyaku.spawn(2, double, 20))
        except TypeError as error:
            print(error)
"""


def test_functions_of_main_need_cloudpickle(tmp_path):
    ended = program(IN_MAIN, True, tmp_path)
    assert (ended.stdout, ended.stderr) == ("[40, 41]\n", "")
    ended = program(IN_MAIN, False, tmp_path)
    assert ended.stdout == (
        "double cannot be sent to ranks: ranks cannot import what __main__ defines; install "
        "cloudpickle, or put it into a module\n"
    )


def test_ctrl_c_ends_all_ranks(tmp_path):
    (tmp_path / "waiting.py").write_text(
        textwrap.dedent(
            """
            import hikyaku, os

            def wait(world):
                print("rank", os.getpid(), flush=True)
                world.recv(bytearray(1), 1 - world.rank)
            """
        )
    )
    source = "import waiting, hikyaku; hikyaku.spawn(2, waiting.wait)"
    with subprocess.Popen(
        [sys.executable, "-c", source],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        # What runs in the background of a script has it ignored, and would pass that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as run:
        pids = [int(run.stdout.readline().split()[1]) for _ in range(2)]
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
