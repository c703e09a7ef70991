#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tests/tree/bad_tree_test.py — each rule of tree_test.py fails on a tree that breaks it, and no other does; a header
# that includes less than it needs is found by headers_test.py.
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

RULES = Path(__file__).with_name("tree_test.py")
HEADERS = Path(__file__).with_name("headers_test.py")

# A tree that keeps every rule: one header in each layer.
GOOD = {f"src/{layer}/{layer}_part.h": "" for layer in ("base", "core", "transport", "runtime", "ops")}
GOOD |= {"src/target/cpu/cpu_part.h": "", "include/mkernel/error.h": "", "include/mkernel/world.h": "",
         "tests/some_test.cc": ""}

# A document that keeps every rule, with lines as long as they may be.
LONG_ROW = "| " + " | ".join(["long cell " * 15] * 3) + " |\n"
DOCUMENT = ("ü" * 60 + " " + "ü" * 59 + "\nSee `src/core/core_part.h` and `core/core_part.h`.\n"
            "- https://example.com/" + "a" * 200 + ".md\n" + LONG_ROW)

# The one rule that must fail, and what is wrong: files with their bodies.
BROKEN = {
    "test_every_quoted_include_names_a_file_of_the_tree": {"src/core/a.h": '#include "core/gone.h"\n'},
    "test_includes_point_down": {"src/runtime/a.h": '#include "target/cpu/cpu_part.h"\n'},
    "test_a_target_knows_no_other_target": {"src/target/sm90/a.h": '#include "target/cpu/cpu_part.h"\n'},
    "test_public_headers_include_only_the_standard_library_and_each_other": {
        "include/mkernel/a.h": "#include <fmt/format.h>\n"},
    "test_headers_with_a_world_are_for_runtime_and_above": {"src/target/cpu/a.h": '#include "mkernel/world.h"\n'},
    "test_core_and_base_know_no_os_and_no_threads": {"src/core/a.h": "#include <thread>\n"},
    "test_only_files_that_say_so_in_their_name_need_cuda": {"src/core/a.h": "#include <cuda_runtime.h>\n"},
    "test_host_files_include_no_cuh": {"src/core/a.cc": '#include "core/b.cuh"\n', "src/core/b.cuh": ""},
    "test_conditional_compilation_is_in_macros_only": {"src/core/a.h": "#ifdef __linux__\n#endif\n"},
    "test_basenames_are_unique": {"src/core/a.h": "", "src/ops/a.h": ""},
    "test_no_file_is_long": {"src/core/a.h": "\n" * 401},
    "test_no_line_is_long": {"src/core/a.h": "// " + "long " * 23 + "one\n"},
    "test_paths_in_documents_and_comments_exist": {"src/core/a.h": "// As in core/gone.h.\n"},
    "test_the_environment_is_read_in_one_place": {"src/runtime/a.cc": 'const char* x = getenv("X");\n'},
    "test_nothing_is_left_to_do": {"src/core/a.h": "// TO" "DO: think\n"},
    "test_every_layer_of_src_is_known": {"src/misc/a.h": ""},
}

# The same for whole texts, where the opening lines or the guard are what is wrong.
BROKEN_TEXTS = {
    "test_every_header_guards_itself_with_pragma_once": {
        "src/core/a.h": "// SPDX-License-Identifier: MIT\n// core/a.h — a part.\n"},
    "test_every_file_opens_with_its_licence_and_its_own_name": {
        "src/core/a.h": "// SPDX-License-Identifier: MIT\n// core/core_part.h — a part.\n#pragma once\n"},
    "test_every_build_file_and_script_states_its_licence": {"tests/CMakeLists.txt": "project(x)\n"},
    "test_no_line_is_long": {"docs/a.md": "long " * 23 + "words\n```\n" + LONG_ROW + "```\n"},
    "test_paths_in_documents_and_comments_exist": {"docs/a.md": "See `src/core/gone.h`.\n"},
    "test_no_cell_of_a_table_is_long": {"docs/a.md": "| a | " + "long cell " * 16 + "a | b |\n"},
}


def whole_text(name, body):
    own = re.sub(r"^(src|include)/", "", name)
    guard = "#pragma once\n" if name.endswith("h") else ""
    return f"// SPDX-License-Identifier: MIT\n// {own} — a part.\n{guard}{body}"


def said_of(texts, test, *options):
    """What the test says of a tree of these files."""
    with tempfile.TemporaryDirectory() as root:
        for name, text in texts.items():
            file = Path(root) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        command = [sys.executable, "-B", str(test), "--root", root, *options]
        return subprocess.run(command, capture_output=True, text=True).stderr


def failing(said):
    return sorted(re.findall(r"^(?:FAIL|ERROR): (\w+)", said, re.MULTILINE))


def failing_rules(texts):
    return failing(said_of(texts, RULES))


class BadTree(unittest.TestCase):
    good = {name: whole_text(name, body) for name, body in GOOD.items()} | {"docs/good.md": DOCUMENT}

    def test_a_good_tree_breaks_no_rule(self):
        self.assertEqual(failing_rules(self.good), [])

    def test_each_rule_fails_where_it_is_broken(self):
        for rule, files in BROKEN.items():
            with self.subTest(rule):
                bad = {name: whole_text(name, body) for name, body in files.items()}
                self.assertEqual(failing_rules(self.good | bad), [rule])
        for rule, texts in BROKEN_TEXTS.items():
            with self.subTest(rule):
                self.assertEqual(failing_rules(self.good | texts), [rule])


class BadHeader(unittest.TestCase):
    """Headers of which each includes the one before; the first includes <string> and <vector>."""
    good = {"src/core/part_0.h": "#include <string>\n#include <vector>\n"}
    good |= {f"src/core/part_{i}.h": f'#include "core/part_{i - 1}.h"\n' for i in range(1, 31)}
    options = ["--cxx", "c++", "--generated", "."]

    def check(self, bad, *expected):
        texts = {name: whole_text(name, body) for name, body in (self.good | bad).items()}
        said = said_of(texts, HEADERS, *self.options)
        self.assertEqual(failing(said), sorted(expected), said)
        return said

    def test_good_headers_compile(self):
        self.check({"src/core/a.h": '#include "core/part_9.h"\ninline std::vector<std::string> a() { return {}; }\n'})

    def test_what_another_header_includes_does_not_help(self):
        uses_a_map = '#include "core/part_9.h"\ninline std::map<int, std::string> a() { return {}; }\n'
        said = self.check({"src/core/a.h": uses_a_map, "src/core/b.h": '#include <map>\n#include "core/part_9.h"\n',
                           "src/core/c.h": '#include <map>\n\n#include "core/a.h"\n'},
                          "test_each_header_compiles_alone")
        self.assertIn("core/a.h:", said)

    def test_an_include_behind_its_use_does_not_help(self):
        self.check({"src/core/a.h": "inline std::string a() { return {}; }\n#include <string>\n"},
                   "test_includes_come_first")


if __name__ == "__main__":
    unittest.main()
