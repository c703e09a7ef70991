#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tests/tree/headers_test.py — each header compiles alone; what the GPU shares compiles with nvcc too.
import argparse
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from source_tree import SourceTree, layer_of

OPTIONS = None
TREE = None
WARNINGS = ["-Wall", "-Wextra", "-Werror"]
HAS_PRELUDE = {"tests", "tools"}  # layers whose sources are compiled with precompiled headers before them


def include_flags(*more):
    folders = [TREE.root / "include", TREE.root / "src", TREE.root, TREE.root / "tools", *more]
    return [f"-I{folder}" for folder in folders]


def run(command):
    """None if the command succeeds, else the beginning of what it said."""
    result = subprocess.run(command, capture_output=True, text=True)
    return None if result.returncode == 0 else (result.stdout + result.stderr)[:2000]


def reaches(file, prefixes, seen):
    """True if the file includes, by whatever way, a system header that begins with one of the prefixes."""
    if file in seen:
        return False
    seen.add(file)
    for is_quoted, name in TREE.includes(file):
        if not is_quoted and name.startswith(prefixes):
            return True
        target = TREE.resolve(file, name) if is_quoted else None
        if target is not None and reaches(target, prefixes, seen):
            return True
    return False


def opens_a_source(header):
    """True if the first thing that its source includes is the header: the build has compiled it alone."""
    source = header.with_suffix(".cc")
    if layer_of(header) in HAS_PRELUDE or not (TREE.root / source).exists():
        return False
    is_quoted, name = TREE.includes(source)[0]
    return is_quoted and TREE.resolve(source, name) == header


class Headers(unittest.TestCase):
    def each_compiles(self, headers, command):
        with ThreadPoolExecutor(2) as pool:
            results = list(pool.map(lambda header: run(command(header)), headers))
        failures = [f"{header}:\n{said}" for header, said in zip(headers, results) if said]
        self.assertEqual("\n".join(failures), "")

    def test_each_header_compiles_alone(self):
        cuda = [f"-isystem{folder}" for folder in OPTIONS.cuda_include]
        without = tuple(OPTIONS.without)
        headers = [h for h in TREE.code({".h"}) if not reaches(h, without, set()) and not opens_a_source(h)]
        self.assertGreater(len(headers), 30)
        flags = ["-std=c++20", "-fsyntax-only", *WARNINGS, *include_flags(OPTIONS.generated), *cuda]
        command = [OPTIONS.cxx, *flags, "-x", "c++", "/dev/null", "-include"]
        self.each_compiles(headers, lambda header: [*command, str(TREE.root / header)])

    # To PTX: whatever is wrong with a header is found by then, in a third of the time.
    def nvcc(self, *sources):
        return [OPTIONS.nvcc, "-std=c++20", *OPTIONS.cuda_flag, *include_flags(), "-x", "cu", "-ptx", "-o", "/dev/null",
                *sources]

    def source_with(self, folder, *headers):
        source = Path(folder) / (headers[0].stem + "_alone.cu")
        source.write_text("".join(f'#include "{TREE.root / header}"\n' for header in headers))
        return str(source)

    # Each of them compiles alone with g++, so one source with all of them shows what nvcc has to add.
    def test_core_and_protocols_compile_with_nvcc(self):
        if not OPTIONS.nvcc:
            self.skipTest("no CUDA compiler")
        shared = [h for h in TREE.code({".h"}) if layer_of(h) == "core" or h.name.endswith("_protocol.h")]
        self.assertGreater(len(shared), 10)
        with tempfile.TemporaryDirectory() as folder:
            self.assertIsNone(run(self.nvcc(self.source_with(folder, *shared))))

    def test_each_device_header_compiles_alone(self):
        if not OPTIONS.nvcc:
            self.skipTest("no CUDA compiler")
        with tempfile.TemporaryDirectory() as folder:
            self.each_compiles(TREE.code({".cuh"}), lambda header: self.nvcc(self.source_with(folder, header)))


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
