#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tests/support/sum_up_test.py — GoogleTest cases in groups are all counted, whatever they do to their process.
import subprocess
import tempfile
import unittest
from pathlib import Path

import sum_up

ROOT = Path(__file__).resolve().parents[2]
# Plays a GoogleTest binary with the suite `Its`.  The name of a case is what it does.
BINARY = r"""#!/bin/sh
if [ "$1" = --gtest_list_tests ]; then
  echo "Running main() from gtest_main.cc"
  echo "Its."
  printf "  %s  # GetParam() = [1; 2]\n" CASES
  exit
fi
status=0 passed=0 skipped= failed=
for name in $(echo "${1#*=}" | tr : " "); do
  echo "[ RUN      ] $name"
  echo "said by $name"
  case $name in
    *fails) echo "[  FAILED  ] $name, where GetParam() = 1 (5 ms)"; status=1 failed="[  FAILED  ] $name\n"; continue ;;
    *skips) echo "[  SKIPPED ] $name (0 ms)"; skipped="$skipped[  SKIPPED ] $name\n"; continue ;;
    *crashes) kill -SEGV $$ ;;
    *hangs) exec sleep 60 ;;
    *leaves) exit 0 ;;
    *leaks) status=1 ;;
  esac
  passed=$((passed + 1))
  printf "no end of line[       OK ] $name (3 ms)\n"
done
printf "[  PASSED  ] $passed tests.\n$skipped$failed"
exit $status
"""


def run(size, *cases):
    """The sum, and the ctest tests that did not pass, for groups of so many cases."""
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder, "binary")
        binary.write_text(BINARY.replace("CASES", " ".join(cases)))
        binary.chmod(0o755)
        given = {"NAME": "fake", "BINARY": binary, "FILTER": "*", "SIZE": size, "OUT": f"{folder}/CTestTestfile.cmake"}
        subprocess.run(["cmake", *(f"-D{name}={value}" for name, value in given.items()), "-P",
                        ROOT / "cmake" / "test_groups.cmake"], check=True)
        printed = subprocess.run(["ctest", "-j3", "--timeout", "2"], cwd=folder, capture_output=True, text=True).stdout
        result = sum_up.sum_up(printed, Path(folder, "Testing/Temporary/LastTest.log").read_text())
    return result, dict(sum_up.NOT_PASSED.findall(printed))


class SumUp(unittest.TestCase):
    def check(self, result, passed, failed, skipped):
        self.assertEqual((result.passed, result.failed, result.skipped), (passed, failed, skipped), result.report)

    def test_every_case_is_counted_whatever_the_size_of_groups(self):
        for size in (1, 2, 3, 12):
            result, not_passed = run(size, *(f"passes/{n}" for n in range(5)))
            self.check(result, 5, 0, 0)
            self.assertEqual((not_passed, result.report), ({}, []))

    def test_a_case_that_fails_is_shown_and_its_neighbours_are_not(self):
        result, not_passed = run(12, "passes", "fails", "also_passes")
        self.check(result, 2, 1, 0)
        self.assertEqual(not_passed, {"fake:Its.1-3": "Failed"})
        self.assertEqual(result.report, ["*** Its.fails, of fake:Its.1-3: Failed", "[ RUN      ] Its.fails",
                                         "said by Its.fails", "[  FAILED  ] Its.fails, where GetParam() = 1 (5 ms)"])

    def test_a_skipped_case_hides_no_other(self):
        result, not_passed = run(12, "skips", "fails")
        self.check(result, 0, 1, 1)
        self.assertEqual(not_passed, {"fake:Its.1-2": "Failed"})
        result, not_passed = run(12, "skips", "passes")
        self.check(result, 1, 0, 1)
        self.assertEqual(not_passed, {})
        result, not_passed = run(12, "skips", "also_skips")
        self.check(result, 0, 0, 2)
        self.assertEqual(not_passed, {"fake:Its.1-2": "Skipped"})

    def test_cases_behind_one_that_does_not_end_have_failed(self):
        for case, status in (("crashes", "SEGFAULT"), ("hangs", "Timeout"), ("leaves", "Passed")):
            result, _ = run(4, "passes", case, "is_not_begun", "neither", "is_in_another_group")
            self.check(result, 2, 3, 0)
            self.assertEqual(result.report, [
                f"*** Its.{case}, of fake:Its.1-4: {status} before it ended", f"[ RUN      ] Its.{case}",
                f"said by Its.{case}", "*** fake:Its.1-4 did not come to:", "Its.is_not_begun", "Its.neither"])

    def test_a_process_that_fails_although_no_case_did_is_a_failure(self):
        result, _ = run(12, "passes", "leaks")
        self.check(result, 2, 1, 0)
        self.assertIn("said by Its.leaks", result.report)

    def test_that_no_test_ran_is_a_failure(self):
        self.check(sum_up.sum_up("No tests were found!!!\n", ""), 0, 1, 0)


if __name__ == "__main__":
    unittest.main()
