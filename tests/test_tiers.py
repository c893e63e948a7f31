"""The tiers of the tests: `smoke` is a little of everything, in seconds."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parent


def test_the_smoke_tier_has_a_few_tests_of_every_room():
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "smoke", "-p", "no:cacheprovider", TESTS]
    listed = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, check=True).stdout
    tests = [line for line in listed.splitlines() if "::" in line]
    rooms = Counter(test.split("/")[1].partition("::")[0] for test in tests)
    folders = {path.name for path in TESTS.iterdir() if list(path.glob("test_*.py"))}
    assert 30 <= len(tests) <= 60 and folders <= set(rooms), listed
