#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tests/support/sum_up.py — counts the tests that a run of ctest has run, and shows what those that failed said.
#
# A ctest test that is a group of GoogleTest cases (cmake/test_groups.cmake) counts as its cases, any other as one.  A
# case that did not come to its end, or was not begun because an earlier one crashed or hung, has failed.  A group that
# fails although none of its cases did, e.g. because memory leaked, counts as one failure more.
#
#   sum_up.py <what ctest printed> <LastTest.log>
#
# The first line it prints is the number of tests that passed, failed and were skipped; what failed follows.
import re
import sys
from pathlib import Path

MOST_LINES = 60  # of what a test or a case said
SUMMARY = re.compile(r"^\d+% tests passed, \d+ tests failed out of (\d+)$", re.MULTILINE)
NOT_PASSED = re.compile(r"^\t *\d+ - (\S+) \((.+)\)$", re.MULTILINE)  # at the end of what ctest printed
RECORD = re.compile(r"^\d+/\d+ Test: (\S+)\nCommand: (.*?)\nDirectory: .*?^Output:\n-+\n(.*?)<end of output>$",
                    re.MULTILINE | re.DOTALL)
FILTER = re.compile(r'"--gtest_filter=([^"]*)"')
BEGUN = "[ RUN      ] "
ENDED = re.compile(r"\[ +(OK|FAILED|SKIPPED) +\] ([^\s,]+).* \(\d+ ms\)$")


class Case:
    def __init__(self):
        self.end = None  # OK, FAILED or SKIPPED
        self.said = []


def cases_of(names, output):
    """Cases by name, and what was said outside of them."""
    cases = {name: Case() for name in names}
    case, outside = None, []
    for line in output.splitlines():
        if line.startswith(BEGUN):
            case = cases.get(line.removeprefix(BEGUN))
        (case.said if case else outside).append(line)
        ended = ENDED.search(line)
        if ended and ended[2] in cases:
            cases[ended[2]].end = ended[1]
            case = None
    return cases, outside


class Sum:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.report = []

    def add_failure(self, title, said):
        self.failed += 1
        left_out = len(said) - MOST_LINES
        self.report += [f"*** {title}", *said[:MOST_LINES], *([f"… and {left_out} more lines"] if left_out > 0 else [])]

    def add_test(self, name, status, output):
        if status == "Passed":
            self.passed += 1
        elif status == "Skipped":
            self.skipped += 1
        else:
            self.add_failure(f"{name}: {status}", output.splitlines())

    def add_group(self, name, status, names, output):
        cases, outside = cases_of(names, output)
        is_explained = status in ("Passed", "Skipped")
        not_begun = []
        for case_name, case in cases.items():
            if case.end == "OK":
                self.passed += 1
            elif case.end == "SKIPPED":
                self.skipped += 1
            elif case.said:
                reason = "Failed" if case.end else f"{status} before it ended"
                self.add_failure(f"{case_name}, of {name}: {reason}", case.said)
                is_explained = True
            else:
                not_begun.append(case_name)
        if not is_explained:
            talkative = [line for case in cases.values() if len(case.said) > 2 for line in case.said]
            self.add_failure(f"{name}: {status}, but none of its cases", talkative + outside)
        if not_begun:
            self.failed += len(not_begun)
            self.report += [f"*** {name} did not come to:", *not_begun]


def sum_up(printed, log):
    total = Sum()
    not_passed = dict(NOT_PASSED.findall(printed))
    records = RECORD.findall(log)
    for name, command, output in records:
        status = not_passed.get(name, "Passed")
        filtered = FILTER.search(command)
        if filtered:
            total.add_group(name, status, filtered[1].split(":"), output)
        else:
            total.add_test(name, status, output)
    asked = SUMMARY.search(printed)
    if not asked or int(asked[1]) != len(records) or not records:
        total.add_failure("ctest did not run all tests", printed.splitlines()[-10:])
    return total


if __name__ == "__main__":
    texts = [Path(file).read_text(errors="replace") if Path(file).exists() else "" for file in sys.argv[1:3]]
    result = sum_up(*texts)
    print(result.passed, result.failed, result.skipped)
    print("\n".join(result.report))
