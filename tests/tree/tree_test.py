#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tests/tree/tree_test.py — rules of the source tree: includes point down, names are unique, files and lines are short.
#
# Each test collects what breaks its rule and expects nothing.
import argparse
import re
import sys
import unittest
from collections import Counter

from source_tree import CODE, SourceTree, is_stand_in, layer_of

# A layer may include itself and these.
BELOW = {
    "base": set(),
    "core": {"base"},
    "transport": {"base", "core"},
    "target": {"base", "core"},
    "runtime": {"base", "core", "transport"},
    "ops": {"base", "core", "transport", "target", "runtime"},
}
TOP = {"tools", "bench", "tests", "python"}

# Public headers without a World in them are for every layer, the others for those who make Worlds.
LEAF_HEADERS = {f"mkernel/{name}.h" for name in ("error", "export", "options", "types", "version")}
WORLD_LAYERS = {"runtime", "ops"} | TOP

# What the protocol's vocabulary must not know: threads, clocks, the OS.
OS_HEADERS = {
    "atomic", "barrier", "chrono", "condition_variable", "cstdlib", "filesystem", "fstream", "future", "iostream",
    "latch", "mutex", "semaphore", "shared_mutex", "stop_token", "thread", "ctime", "csignal",
}
OS_HEADER = re.compile(
    r"^(sys|linux|netinet|arpa|infiniband|boost)/|^(unistd|pthread|fcntl|poll|dlfcn|time|signal|errno|sched)\.h$")
MAY_SEE = {("src/base/atomics.h", "atomic")}

CUDA_HEADER = re.compile(r"^(cuda|cublas|cooperative_groups|nv/|cub/|cute/|cutlass/)")
MAY_SEE_CUDA = re.compile(r"cuda|sm90|cublas|soft_gpu/|\.cu$|\.cuh$")

CONDITIONAL = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif|else)\b", re.MULTILINE)
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
SPDX = "SPDX-License-Identifier: MIT"
LONGEST = 400
LONGEST_LINE = 120
LONGEST_CELL = 160
OPENS_WITH_ITS_PATH = CODE | {".py", ".sh"}
SCRIPTS = {"mk", ".ci/run"}  # those without a suffix
HAS_SHORT_LINES = OPENS_WITH_ITS_PATH | {".txt", ".cmake", ".md"}
# A path as prose names it: with a folder, and a suffix of this tree.  xyz is whatever a reader adds.
NAMED_PATH = re.compile(r"(?<![\w./<~$-])(?:[\w.-]+/)+(?!xyz|op_xyz)[\w-]+\.(?:h|cc|cuh|cu|py|sh|md|cmake|jsonl)\b")
COMMENT = re.compile(r"//.*")
CELL_BORDER = re.compile(r"(?<!\\)\|")
MAY_SHARE_A_NAME = {"CMakeLists.txt", "README.md", "__init__.py", ".gitignore"}

READS_THE_ENVIRONMENT = "src/runtime/environment.cc"

TREE = None


def own_name(file):
    """How a file calls itself: without src/ or include/."""
    return "/".join(file.parts[1:] if file.parts[0] in {"src", "include"} else file.parts)


def document_lines(text):
    """Triples (number, line, is_row) of a Markdown text; is_row: the line is a row of a table."""
    in_code = False
    for number, line in enumerate(text.splitlines(), 1):
        in_code ^= line.lstrip().startswith("```")
        yield number, line, not in_code and line.lstrip().startswith("|")


def long_lines(file):
    """Numbers of the lines that are too long.  Rows of tables and links on a line of their own cannot be broken."""
    if file.suffix != ".md":
        return [n for n, line in enumerate(TREE.text(file).splitlines(), 1) if len(line) > LONGEST_LINE]
    return [n for n, line, is_row in document_lines(TREE.text(file))
            if len(line) > LONGEST_LINE and not is_row and not re.fullmatch(r"\s*(- )?\S+", line)]


class Includes(unittest.TestCase):
    def broken(self, files, rule):
        """The includes among `files` for which rule(file, is_quoted, name) is not None."""
        found = []
        for file in files:
            for is_quoted, name in TREE.includes(file):
                complaint = rule(file, is_quoted, name)
                if complaint:
                    found.append(f"{file} includes {name}: {complaint}")
        return found

    def test_every_quoted_include_names_a_file_of_the_tree(self):
        def rule(file, is_quoted, name):
            if is_quoted and name != "build_info.h" and TREE.resolve(file, name) is None:
                return "there is no such file"

        self.assertEqual(self.broken(TREE.code(), rule), [])

    def test_includes_point_down(self):
        def rule(file, is_quoted, name):
            target = TREE.resolve(file, name) if is_quoted else None
            if target is None or layer_of(file) in TOP or target.parts[0] == "include":
                return None
            here, there = layer_of(file), layer_of(target)
            if here != there and there not in BELOW.get(here, set()):
                return f"{there} is not below {here}"

        self.assertEqual(self.broken(TREE.code(), rule), [])

    def test_a_target_knows_no_other_target(self):
        def rule(file, is_quoted, name):
            # A header right in target/ is for all of them.
            if layer_of(file) == "target" and name.count("/") > 1 and name.startswith("target/"):
                return "another target" if name.split("/")[1] != file.parts[2] else None

        self.assertEqual(self.broken(TREE.code(), rule), [])

    def test_public_headers_include_only_the_standard_library_and_each_other(self):
        def rule(file, is_quoted, name):
            if file.parts[0] == "include":
                standard = not is_quoted and re.fullmatch(r"[a-z_0-9]+", name)
                if not standard and not name.startswith("mkernel/"):
                    return "not for users"

        self.assertEqual(self.broken(TREE.code(), rule), [])

    def test_headers_with_a_world_are_for_runtime_and_above(self):
        def rule(file, is_quoted, name):
            public = name.startswith("mkernel/") and name not in LEAF_HEADERS
            if public and file.parts[0] != "include" and layer_of(file) not in WORLD_LAYERS:
                return "it knows Worlds"

        self.assertEqual(self.broken(TREE.code(), rule), [])

    def test_core_and_base_know_no_os_and_no_threads(self):
        def rule(file, is_quoted, name):
            about_the_os = not is_quoted and (name in OS_HEADERS or OS_HEADER.match(name))
            if layer_of(file) in {"core", "base"} and about_the_os and (str(file), name) not in MAY_SEE:
                return "core and base run on any machine"

        self.assertEqual(self.broken(TREE.code(), rule), [])

    def test_only_files_that_say_so_in_their_name_need_cuda(self):
        def rule(file, is_quoted, name):
            if CUDA_HEADER.match(name) and not is_quoted and not MAY_SEE_CUDA.search(str(file)):
                return "everything else builds without CUDA"

        self.assertEqual(self.broken(TREE.code(), rule), [])

    def test_host_files_include_no_cuh(self):
        def rule(file, is_quoted, name):
            if file.suffix in {".h", ".cc"} and name.endswith(".cuh"):
                return ".h and .cc need only a host compiler"

        self.assertEqual(self.broken(TREE.code(), rule), [])


class Files(unittest.TestCase):
    def test_conditional_compilation_is_in_macros_only(self):
        found = [str(f) for f in TREE.code() if own_name(f) != "base/macros.h" and CONDITIONAL.search(TREE.text(f))]
        self.assertEqual(found, [])

    def test_every_header_guards_itself_with_pragma_once(self):
        found = [str(f) for f in TREE.code({".h", ".cuh"}) if "\n#pragma once\n" not in TREE.text(f)]
        self.assertEqual(found, [])

    def test_basenames_are_unique(self):
        counts = Counter(f.name for f in TREE.files if f.suffix in OPENS_WITH_ITS_PATH and not is_stand_in(f))
        self.assertEqual([n for n, count in counts.items() if count > 1 and n not in MAY_SHARE_A_NAME], [])

    def test_every_file_opens_with_its_licence_and_its_own_name(self):
        found = []
        for file in TREE.files:
            if file.suffix not in OPENS_WITH_ITS_PATH:
                continue
            lines = TREE.text(file).splitlines() + ["", ""]
            if lines[0].startswith("#!"):
                lines = lines[1:]
            mark = "//" if file.suffix in CODE else "#"
            if lines[0] != f"{mark} {SPDX}":
                found.append(f"{file}: the first line is not its licence")
            if not lines[1].startswith(f"{mark} {own_name(file)} — "):
                found.append(f"{file}: the second line is not '{mark} {own_name(file)} — …'")
        self.assertEqual(found, [])

    def test_every_build_file_and_script_states_its_licence(self):
        scripts = [f for f in TREE.files if f.name == "CMakeLists.txt" or f.suffix == ".cmake" or str(f) in SCRIPTS]
        self.assertEqual([str(f) for f in scripts if SPDX not in "\n".join(TREE.text(f).splitlines()[:2])], [])

    def test_no_file_is_long(self):
        files = [f for f in TREE.files if f.suffix in OPENS_WITH_ITS_PATH]
        self.assertEqual([f"{f}: {n} lines" for f in files if (n := TREE.text(f).count("\n")) > LONGEST], [])

    def test_no_line_is_long(self):
        files = [f for f in TREE.files if f.suffix in HAS_SHORT_LINES or str(f) in SCRIPTS]
        self.assertEqual([f"{f}:{number}" for f in files for number in long_lines(f)], [])

    def test_no_cell_of_a_table_is_long(self):
        found = []
        for file in TREE.code({".md"}):
            for number, line, is_row in document_lines(TREE.text(file)):
                if is_row and any(len(cell.strip()) > LONGEST_CELL for cell in CELL_BORDER.split(line)):
                    found.append(f"{file}:{number}")
        self.assertEqual(found, [])

    def test_paths_in_documents_and_comments_exist(self):
        found = []
        for file in TREE.code(CODE | {".md"}):
            prose = TREE.text(file) if file.suffix == ".md" else "\n".join(COMMENT.findall(TREE.text(file)))
            found += [f"{file} names {path}" for path in NAMED_PATH.findall(prose) if TREE.resolve(file, path) is None]
        self.assertEqual(found, [])

    def test_the_environment_is_read_in_one_place(self):
        files = [f for f in TREE.code() if f.parts[0] not in {"tests", "bench"} and str(f) != READS_THE_ENVIRONMENT]
        self.assertEqual([str(f) for f in files if re.search(r"\b(secure_)?getenv\b", TREE.text(f))], [])

    def test_nothing_is_left_to_do(self):
        self.assertEqual([str(f) for f in TREE.code() if UNFINISHED.search(TREE.text(f))], [])


class TheRulesThemselves(unittest.TestCase):
    def test_the_tree_is_not_empty(self):
        layers = {layer_of(f) for f in TREE.code()}
        self.assertLessEqual(set(BELOW) | {"include", "tests"}, layers)

    def test_every_layer_of_src_is_known(self):
        layers = {layer_of(f) for f in TREE.code() if f.parts[0] == "src"}
        self.assertEqual(layers - set(BELOW), set())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True)
    options, rest = parser.parse_known_args()
    TREE = SourceTree(options.root)
    unittest.main(argv=[sys.argv[0], *rest])
