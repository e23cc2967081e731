"""A rank with a progress thread (`hikyaku run --progress-thread`) goes on while its program computes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest
from programs import HEAD, HIKYAKU, PATIENCE, TARGET

# What makes hosts that are network namespaces with a wire between them, and reaches them.
REACH = TARGET / "debug" / "reach"
WIRE = "10.77.0.1:1,10.77.0.2:1"
AGENT = "sh -c 'exec sh -c \"$1\"'"

# Rank 0 begins to receive and to send 8 MiB, and then calls nothing of MPI until it is told by a file that the
# other rank has had and sent all of it.
SOURCE = """
import os, time
told, LENGTH = sys.argv[1], 8 << 20
mine = numpy.full(LENGTH, rank + 1, dtype="u1")
theirs = numpy.zeros(LENGTH, dtype="u1")
world.Barrier()
requests = [world.Irecv(theirs, 1 - rank), world.Isend(mine, 1 - rank)]
if rank == 0:
    start, limit = time.monotonic(), float(sys.argv[2])
    while not os.path.exists(told) and time.monotonic() - start < limit:
        sum(range(1000))
    print("in time" if os.path.exists(told) else "late")
    MPI.Request.Waitall(requests)
else:
    MPI.Request.Waitall(requests)
    open(told, "w").close()
assert (theirs == 2 - rank).all()
"""


def before(where: str) -> list:
    """The words that start two ranks."""
    if where == "here":
        return [HIKYAKU, "run", "-n", "2"]
    if subprocess.run([HIKYAKU, "fabric", "list"], capture_output=True).returncode != 0:
        pytest.skip("hosts need libfabric")
    if where == "hosts":
        return [HIKYAKU, "run", "--hosts", "a:1,b:1", "--launcher-exec", AGENT]
    if os.geteuid() != 0:
        pytest.skip("hosts are network namespaces, which only root can make")
    if not REACH.exists():
        pytest.skip("`cargo build -p hikyaku-jobs` builds what makes hosts")
    return [REACH, "hosts", "2", HIKYAKU, "run", "--hosts", WIRE, "--launcher-exec", REACH]


@pytest.mark.parametrize("where", ["here", "hosts", "wire"])
@pytest.mark.parametrize(("has_thread", "limit", "said"), [(True, 60, "in time"), (False, 0.7, "late")])
def test_long_messages_go_on_while_a_rank_computes(tmp_path, where, has_thread, limit, said):
    program = tmp_path / "program.py"
    program.write_text(HEAD + textwrap.dedent(SOURCE))
    words = [*before(where), *(["--progress-thread"] if has_thread else []), "--"]
    words += [sys.executable, program, tmp_path / "told", str(limit)]
    # A provider that moves in calls only: others might finish without the thread.
    environment = os.environ | {"HIKYAKU_FABRIC": "tcp;ofi_rxm"}
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, env=environment)
    assert (done.stdout, done.stderr, done.returncode) == (f"{said}\n", "", 0)
