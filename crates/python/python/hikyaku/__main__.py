"""``python -m hikyaku run ...``: runs the program ``hikyaku`` installed with this package."""

import os
import sys
from importlib.metadata import files

found = [file for file in files("hikyaku-mpi") or [] if file.match("bin/hikyaku")]
if not found:
    sys.exit("hikyaku: this installation has no program hikyaku; install it: pip install hikyaku-mpi")
os.execv(found[0].locate(), ["hikyaku", *sys.argv[1:]])
