"""spawn: runs a function on several ranks, as processes, from a program or a notebook.

    notebook or program
        | the function, pickled, in anonymous memory
    python -m hikyaku._job        the launcher: a process of its own, so that signals, adopted
        |                         processes and limits of the job do not affect the program
    python -m hikyaku._job ...    the ranks: run the function and write its outcome to anonymous
                                  memory, one file per rank

No file has a name in a file system, so no file remains, even if processes are killed.
"""

from __future__ import annotations

import os
import pickle
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

from hikyaku import _native


class SpawnError(_native.Error):
    """A rank of a spawned function failed.

    rank: the failed rank, or None if the job could not be run or was ended. traceback: the rank's
    traceback as text, or None if its process died. The rank's exception is this one's cause, if it
    could be pickled.
    """

    def __init__(self, text: str, rank: int | None = None, traceback: str | None = None) -> None:
        super().__init__(text)
        self.rank = rank
        self.traceback = traceback


def spawn(
    n: int,
    function: Callable[..., Any],
    *args: Any,
    timeout: float | None = None,
    ranks_per_node: int | None = None,
) -> list[Any]:
    """Run function(world, *args) on n ranks, each in its own process. Returns the results in rank
    order.

    The function and its arguments are pickled. With cloudpickle installed they may be defined
    anywhere, also in a notebook. Without it they must be importable from a module other than
    ``__main__``. The ranks' output goes to sys.stdout and sys.stderr line by line.

    Raises SpawnError for the rank that failed first, with its traceback; the others are ended.
    Ctrl-C ends all ranks.
    """
    if n < 1:
        raise ValueError(f"n is {n}: a job needs at least one rank")
    call = _anonymous("hikyaku-call", _pickled_call(function, args))
    answers: list[int] = []
    try:
        answers.extend(_anonymous(f"hikyaku-answer-{rank}") for rank in range(n + 1))
        job = {
            "ranks": n,
            "timeout": timeout,
            "ranks_per_node": ranks_per_node,
            "call": call,
            "answers": answers,
        }
        job_file = _anonymous("hikyaku-job", pickle.dumps(job))
        answers.append(job_file)
        _run(job_file, [call, *answers])
        return _results(n, answers)
    finally:
        for file in [call, *answers]:
            os.close(file)


def _pickled_call(function: Callable[..., Any], args: tuple[Any, ...]) -> bytes:
    try:
        import cloudpickle
    except ImportError:
        cloudpickle = None
    name = getattr(function, "__qualname__", repr(function))
    try:
        if cloudpickle is not None:
            pickled: bytes = cloudpickle.dumps((function, args))
            return pickled
        if getattr(function, "__module__", None) == "__main__":
            raise pickle.PicklingError("ranks cannot import what __main__ defines")
        return pickle.dumps((function, args))
    except Exception as error:
        advice = (
            "give it what can be pickled"
            if cloudpickle is not None
            else "install cloudpickle, or put it into a module"
        )
        raise TypeError(f"{name} cannot be sent to ranks: {error}; {advice}") from error


def _anonymous(name: str, content: bytes = b"") -> int:
    """Returns a descriptor of memory that processes can share and that no file system names."""
    file = os.memfd_create(name)
    with open(file, "wb", closefd=False) as stream:
        stream.write(content)
    return file


def content(file: int) -> bytes:
    size = os.fstat(file).st_size
    parts = []
    at = 0
    while at < size:
        part = os.pread(file, size - at, at)
        parts.append(part)
        at += len(part)
    return b"".join(parts)


def _run(job_file: int, files: list[int]) -> None:
    """Run the launcher, and forward the job's output."""
    words = [sys.executable, "-m", "hikyaku._job", str(job_file)]
    launcher = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=files,
        env=_environment(),
        process_group=0,
    )
    pumps = [
        threading.Thread(target=_pump, args=streams, daemon=True)
        for streams in [(launcher.stdout, sys.stdout), (launcher.stderr, sys.stderr)]
    ]
    for pump in pumps:
        pump.start()
    try:
        launcher.wait()
    except BaseException:
        launcher.send_signal(signal.SIGTERM)
        launcher.wait()
        raise
    finally:
        for pump in pumps:
            pump.join()
        for stream in [launcher.stdout, launcher.stderr]:
            if stream is not None:
                stream.close()


def _environment() -> dict[str, str]:
    """This process's environment, without the variables of its own job if it is a rank of one."""
    own = ("HIKYAKU_JOB", "HIKYAKU_RANK", "HIKYAKU_SIZE")
    environment = {name: value for name, value in os.environ.items() if name not in own}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    return environment


def _pump(source: Any, sink: Any) -> None:
    for line in source:
        sink.write(line.decode(errors="replace"))
        sink.flush()


def _results(n: int, answers: list[int]) -> list[Any]:
    outcomes = [content(file) for file in answers[:n]]
    answered = {rank: pickle.loads(outcome) for rank, outcome in enumerate(outcomes) if outcome}
    reason = content(answers[n]).decode(errors="replace")
    failed = [
        (answer["is_secondary"], answer["at"], rank)
        for rank, answer in answered.items()
        if "error" in answer
    ]
    # Skips secondary failures (of ranks that saw a peer die) if the primary cause is known.
    if failed and not (reason and min(failed)[0] and len(answered) < n):
        rank = min(failed)[-1]
        answer = answered[rank]
        error = SpawnError(f"rank {rank}: {answer['error']}", rank, answer["traceback"])
        error.add_note(f"on rank {rank}:\n{answer['traceback']}")
        cause = answer["exception"]
        raise error from (pickle.loads(cause) if cause else None)
    missing = [rank for rank in range(n) if rank not in answered]
    if missing or reason:
        named = re.match(r"rank (\d+) ", reason)
        culprit = int(named[1]) if named else missing[0] if missing and not reason else None
        raise SpawnError(reason or f"rank {culprit} ended without a result", culprit)
    return [pickle.loads(answered[rank]["result"]) for rank in range(n)]
