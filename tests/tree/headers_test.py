#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tests/tree/headers_test.py — each header compiles alone; what the GPU shares compiles with nvcc too.
#
# Headers are not compiled one by one, which takes twice as long.  The compiler reads before a header only what the
# header includes anyway, directly or not: system headers that are precompiled, and headers that are checked by the same
# source.  So a name that a header uses and does not include is still not found.
import argparse
import functools
import re
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from source_tree import SourceTree, is_stand_in, layer_of

OPTIONS = None
TREE = None
WARNINGS = ["-Wall", "-Wextra", "-Werror"]
# System headers that are worth parsing once.  A header gets the first of these sets that it includes as a whole.  Who
# knows a World includes WORLD.
WORLD = ("chrono", "functional", "memory", "mutex", "optional", "shared_mutex", "string", "thread", "vector")
PRECOMPILED = [("CLI/CLI.hpp",), ("gtest/gtest.h", *WORLD), ("gtest/gtest.h",), WORLD, ("string", "vector"),
               ("string",)]
# A line with neither a comment nor a directive, and an include somewhere behind it.
LATE_INCLUDE = re.compile(r"^(?!\s*(?:#|//|$)).*\n(?s:.*)^\s*#\s*include\b", re.MULTILINE)
HAS_PRELUDE = {"tests", "tools"}  # layers whose sources are compiled with precompiled headers before them


def include_flags(*more):
    folders = [TREE.root / "include", TREE.root / "src", TREE.root, TREE.root / "tools", *more]
    return [f"-I{folder}" for folder in folders]


def run(command):
    """None if the command succeeds, else the beginning of what it said."""
    result = subprocess.run(command, capture_output=True, text=True)
    return None if result.returncode == 0 else (result.stdout + result.stderr)[:2000]


@functools.cache
def reached(file):
    """What the file includes, directly or not: paths of the tree, and names of system headers."""
    found = set()
    for is_quoted, name in TREE.includes(file):
        if not is_quoted:
            found.add(name)
        elif (target := TREE.resolve(file, name)) is not None:
            found |= {target} | reached(target)
    return found


def opens_a_source(header):
    """True if the first thing that its source includes is the header: the build has compiled it alone."""
    source = header.with_suffix(".cc")
    if layer_of(header) in HAS_PRELUDE or not (TREE.root / source).exists():
        return False
    is_quoted, name = TREE.includes(source)[0]
    return is_quoted and TREE.resolve(source, name) == header


def chains(headers):
    """Lists of headers, each header in one of them, behind headers that it includes anyway."""
    left = sorted(headers, key=lambda header: (len(reached(header)), header))
    result = []
    while left:
        chain = [left.pop()]
        while included := [header for header in left if header in reached(chain[0])]:
            chain.insert(0, included[-1])
            left.remove(included[-1])
        result.append(chain)
    return result


def source_with(folder, suffix, headers):
    source = Path(folder) / f"{headers[0].stem}_alone{suffix}"
    source.write_text("".join(f'#include "{TREE.root / header}"\n' for header in headers))
    return str(source)


class Headers(unittest.TestCase):
    def each_compiles(self, sources):
        """Runs commands, each a list."""
        with ThreadPoolExecutor(2) as pool:
            self.assertEqual("\n".join(said for said in pool.map(run, sources) if said), "")

    # What comes before a header is what it includes anyway, and must not help lines before an include.
    def test_includes_come_first(self):
        self.assertEqual([str(h) for h in TREE.code({".h", ".cuh"}) if LATE_INCLUDE.search(TREE.text(h))], [])

    def test_each_header_compiles_alone(self):
        cuda = [f"-isystem{folder}" for folder in OPTIONS.cuda_include]
        absent = tuple(OPTIONS.without)
        headers = [h for h in TREE.code({".h"}) if not opens_a_source(h)
                   and not any(isinstance(name, str) and name.startswith(absent) for name in reached(h))]
        self.assertGreater(len(headers), 30)
        command = [OPTIONS.cxx, "-std=c++20", *WARNINGS, *include_flags(OPTIONS.generated), *cuda]
        with tempfile.TemporaryDirectory() as folder:
            commands = []
            for names in [*PRECOMPILED, ()]:
                mine = [header for header in headers if reached(header).issuperset(names)]
                headers = [header for header in headers if header not in mine]
                before = self.precompiled(folder, names, command) if names and mine else []
                commands += [[*command, *before, "-fsyntax-only", source_with(folder, ".cc", chain)]
                             for chain in chains(mine)]
            self.each_compiles(commands)

    def precompiled(self, folder, names, command):
        """Flags that include the system headers, which are parsed here."""
        source = Path(folder) / "_and_".join(name.replace("/", "_") for name in names)
        source.write_text("".join(f"#include <{name}>\n" for name in names))
        self.assertIsNone(run([*command, "-x", "c++-header", str(source), "-o", f"{source}.gch"]))
        return ["-Winvalid-pch", "-include", str(source)]

    # To PTX: whatever is wrong with a header is found by then, in a third of the time.
    def nvcc(self, *sources):
        return [OPTIONS.nvcc, "-std=c++20", *OPTIONS.cuda_flag, *include_flags(), "-x", "cu", "-ptx", "-o", "/dev/null",
                *sources]

    # Each of them compiles alone with g++, so one source with all of them shows what nvcc has to add.
    def test_core_and_protocols_compile_with_nvcc(self):
        if not OPTIONS.nvcc:
            self.skipTest("no CUDA compiler")
        shared = [h for h in TREE.code({".h"}) if layer_of(h) == "core" or h.name.endswith("_protocol.h")]
        self.assertGreater(len(shared), 10)
        with tempfile.TemporaryDirectory() as folder:
            self.assertIsNone(run(self.nvcc(source_with(folder, ".cu", shared))))

    def test_each_device_header_compiles_alone(self):
        if not OPTIONS.nvcc:
            self.skipTest("no CUDA compiler")
        with tempfile.TemporaryDirectory() as folder:
            headers = [header for header in TREE.code({".cuh"}) if not is_stand_in(header)]
            self.each_compiles([self.nvcc(source_with(folder, ".cu", chain)) for chain in chains(headers)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True)
    parser.add_argument("--cxx", required=True)
    parser.add_argument("--generated", required=True, help="folder of build_info.h")
    parser.add_argument("--without", action="append", default=[], help="system headers that are not there")
    parser.add_argument("--nvcc", default="")
    parser.add_argument("--cuda-flag", action="append", default=[])
    parser.add_argument("--cuda-include", action="append", default=[])
    OPTIONS, rest = parser.parse_known_args()
    TREE = SourceTree(OPTIONS.root)
    unittest.main(argv=[sys.argv[0], *rest])
