"""The processes of ``hikyaku.spawn``: the launcher and the ranks of its job. See _spawn.py."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
import traceback

import hikyaku
from hikyaku import _native
from hikyaku._spawn import content


def _launcher(job_file: int) -> None:
    """Runs in the launcher's process."""
    _native._die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    job = pickle.loads(content(job_file))
    words = [sys.executable, "-m", "hikyaku._job", str(job_file), "rank"]
    try:
        _, reason, details = _native._launch(
            job["ranks"],
            words,
            job["ranks_per_node"],
            job["timeout"],
        )
    except (ValueError, OverflowError, _native.Error) as error:
        reason, details = str(error), []
    lines = [reason or "", *details]
    os.write(job["answers"][job["ranks"]], "\n".join(lines).strip().encode())


def _rank(job_file: int) -> int:
    """Runs in a rank's process. Returns its exit code."""
    job = pickle.loads(content(job_file))
    number = int(os.environ["HIKYAKU_RANK"])
    try:
        world = hikyaku.world()
        function, args = pickle.loads(content(job["call"]))
        answer: dict[str, object] = {"result": _pickled_result(function(world, *args))}
        code = 0
    except BaseException as error:
        at = time.monotonic_ns()
        # So the rank leaves the job as one that failed, see _world._leave.
        sys.last_value = error
        text = "".join(traceback.format_exception_only(error)).strip()
        answer = {
            "error": text,
            "at": at,
            "is_secondary": isinstance(error, hikyaku.PeerError),
            "traceback": _traceback(error),
            "exception": _pickled_exception(error),
        }
        code = 1
    with open(job["answers"][number], "wb", closefd=False) as stream:
        stream.write(pickle.dumps(answer))
    return code


def _pickled_result(result: object) -> bytes:
    try:
        import cloudpickle
    except ImportError:
        return pickle.dumps(result)
    pickled: bytes = cloudpickle.dumps(result)
    return pickled


def _traceback(error: BaseException) -> str:
    """The traceback from the user's function on, without the frames of this module."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace))


def _pickled_exception(error: BaseException) -> bytes | None:
    """The pickled exception, or None if it cannot be unpickled; some can only be pickled."""
    try:
        pickled = _pickled_result(error)
        pickle.loads(pickled)
        return pickled
    except Exception:
        return None


if __name__ == "__main__":
    if sys.argv[2:] == ["rank"]:
        sys.exit(_rank(int(sys.argv[1])))
    _launcher(int(sys.argv[1]))
