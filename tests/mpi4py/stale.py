"""Runs the tests that a list excludes, and prints the lines whose tests all pass.

Arguments: the folder of the tests, and the list.
"""

import io
import sys
import unittest
from pathlib import Path

folder, listed = sys.argv[1:]
sys.path.insert(0, folder)

for line in Path(listed).read_text().splitlines():
    words = line.split(maxsplit=1)
    if not words or line.startswith("#"):
        continue
    tests = unittest.TestLoader().loadTestsFromName(words[0])
    result = unittest.TextTestRunner(stream=io.StringIO()).run(tests)
    if result.wasSuccessful() and result.testsRun > len(result.skipped):
        print(words[0])
