"""Runs the tests that a list excludes, and prints the lines whose tests all pass.

Arguments: the folder of the tests, the list, and the word with which the reasons of the lines to try
begin, or "" for lines that begin with none of these words.
"""

import io
import sys
import unittest
from pathlib import Path

from mpi4py import MPI

WORDS = ("several ranks", "waits")

folder, listed, wanted = sys.argv[1:]
sys.path.insert(0, folder)

for line in Path(listed).read_text().splitlines():
    words = line.split(maxsplit=1)
    if not words or line.startswith("#"):
        continue
    word = next((word for word in WORDS if words[1].startswith(f"{word}: ")), "")
    if word != wanted:
        continue
    try:
        tests = unittest.TestLoader().loadTestsFromName(words[0])
    except MPI.Exception:  # The module needs what is missing when it is imported.
        continue
    result = unittest.TextTestRunner(stream=io.StringIO()).run(tests)
    if result.wasSuccessful() and result.testsRun > len(result.skipped):
        print(words[0])
