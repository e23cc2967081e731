"""The command ``hikyaku`` of the Python package: ``hikyaku run -n 4 -- python program.py``.

It has ``run`` alone, with the options of the whole command line (crates/cli), which also measures,
simulates and reproduces.
"""

from __future__ import annotations

import argparse
import signal
import sys

from hikyaku import _native

_RUN = """Start ranks of a program on this machine, and see them to their end. A program that uses
hikyaku finds the others; any other program simply runs N times."""

_ENDS = """The job ends with its last rank, or with the first that fails: one line says which and
how, and its exit code is the job's. 124: the time of --timeout was up. 2: the command line makes
no sense. SIGINT (Ctrl-C) and SIGTERM are passed to all ranks. Nothing is left of a job."""


def main(words: list[str] | None = None) -> int:
    """Run the command; its exit code."""
    arguments = _parser().parse_args(words)
    program = arguments.program
    if program[:1] == ["--"]:
        program = program[1:]
    # The launch catches these itself, and to Python they must not become exceptions afterwards.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        code, reason, details = _native._launch(
            arguments.ranks,
            program,
            bind=arguments.bind,
            ranks_per_node=arguments.ranks_per_node,
            label=arguments.label,
            timeout=arguments.timeout,
            choices=arguments.choices,
        )
    except (ValueError, OverflowError, _native.Error) as error:
        _say(str(error))
        return 1 if isinstance(error, _native.Error) else 2
    if reason is not None:
        _say(reason)
    for line in details:
        _say(f"  {line}")
    return code


def _say(line: str) -> None:
    print(f"hikyaku: {line}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hikyaku",
        description="Message passing between processes. This is the command of the Python "
        "package; benchmarks and simulations are in the whole one, crates/cli.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser(
        "run",
        help="start ranks of a program",
        description=_RUN,
        epilog=_ENDS,
        usage="hikyaku run -n N [OPTIONS] [--] PROGRAM [ARGUMENTS]...",
    )
    run.add_argument("-n", dest="ranks", type=int, required=True, metavar="N", help="how many")
    run.add_argument("--bind", choices=["core", "none"], help="how to tie ranks to CPUs")
    run.add_argument("--ranks-per-node", type=int, metavar="K", help="virtual nodes of K ranks")
    run.add_argument("--label", action="store_true", help='start each line with "[rank] "')
    run.add_argument("--timeout", type=float, metavar="SECONDS", help="end the job after that")
    run.add_argument(
        "--coll",
        dest="choices",
        action="append",
        default=[],
        metavar="OPERATION=ALGORITHM",
        help="do a collective operation by this algorithm",
    )
    run.add_argument("program", nargs=argparse.REMAINDER, metavar="PROGRAM")
    return parser
