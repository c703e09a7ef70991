#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tests/tree/settings_test.py — docs/settings.md has every variable that is read and every field of Options, with its
# default.
import argparse
import re
import sys
import unittest
from pathlib import Path

ROOT = None
ROW = re.compile(r"^\| (?:`(MKERNEL_\w+)`|none) \| (.*) \|$", re.MULTILINE)
# A name in quotes that is a whole string: messages have more in them.
READ = re.compile(r'"(MKERNEL_[A-Z_]+)"')
FIELD = re.compile(r"^  [\w:]+ (\w+)(?: = ([^;]+)|\{\});$", re.MULTILINE)


def text(*path):
    return ROOT.joinpath(*path).read_text(encoding="utf-8")


def fields():
    """Defaults of Options by field."""
    body = text("include", "mkernel", "options.h").split("struct Options {")[1]
    return {name: default.replace("'", "").strip('"') for name, default in FIELD.findall(body)}


def rows():
    """The variable of each row, or "", and its other cells."""
    return [(name, rest.split(" | ")) for name, rest in ROW.findall(text("docs", "settings.md"))]


class Settings(unittest.TestCase):
    def test_every_variable_that_is_read_has_a_row_and_no_other(self):
        read = {name for file in (ROOT / "src").rglob("*") if file.suffix in {".h", ".cc"}
                for name in READ.findall(file.read_text(encoding="utf-8"))}
        self.assertGreater(len(read), 10)
        told = [name for name, _ in rows() if name]
        self.assertEqual(sorted(told), sorted(read))

    def test_every_field_has_a_row_with_its_default(self):
        told = {cells[0].strip("`"): cells[-1] for _, cells in rows() if len(cells) == 3}
        own = fields()
        self.assertEqual(sorted(told), sorted(own))
        for field, default in own.items():
            as_told = {"true": "1"}.get(default, default)
            if default:
                self.assertIn(told[field], (f"`{as_told}`", f"`{default}`"), field)
            else:
                self.assertIn("none", told[field], field)

    def test_a_variable_sets_the_field_of_its_row(self):
        code = text("src", "runtime", "options.cc")
        for name, cells in rows():
            if name and len(cells) == 3:
                line = next(line for line in code.splitlines() if f'"{name}"' in line)
                self.assertIn(f"base.{cells[0].strip('`')}", line)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True)
    options, rest = parser.parse_known_args()
    ROOT = Path(options.root)
    unittest.main(argv=[sys.argv[0], *rest])
