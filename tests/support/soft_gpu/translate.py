#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tests/support/soft_gpu/translate.py — writes a CUDA source as C++: launches `kernel<<<…>>>(…)` become calls.
import argparse
import re
from pathlib import Path

SOURCE = re.compile(r'^#include "(/.*\.cu)"\n', re.MULTILINE)  # one that another is made of


def begin_of_name(text, end):
    """Where the name of a kernel begins that ends before `end`: words, ::, and template arguments."""
    at = end
    while text[at - 1].isspace():
        at -= 1
    depth = 0
    while depth or text[at - 1].isalnum() or text[at - 1] in "_:>":
        at -= 1
        depth += {">": 1, "<": -1}.get(text[at], 0)
    return at


def translate(text):
    while (launch := text.find("<<<")) >= 0:
        name = begin_of_name(text, launch)
        end = text.index(">>>", launch)
        kernel, grid, given = text[name:launch].strip(), text[launch + 3:end], text[end + 3:]
        if not given.lstrip("( \n").startswith("{"):
            # Template arguments may follow from what the kernel is given.  Braces need a parameter of known type.
            kernel = f'"{kernel}", [=](const auto&... given) {{ {kernel}(given...); }}'
        text = f"{text[:name]}::mk::soft_gpu::on_grid({kernel}, {grid}){given}"
    return text


def translated(source):
    text = SOURCE.sub(lambda included: translated(Path(included[1])), source.read_text())
    return f'#line 1 "{source}"\n{translate(text)}'


def main():
    parser = argparse.ArgumentParser(description="Writes a CUDA source as C++ for the software GPU.")
    parser.add_argument("source", type=Path)
    parser.add_argument("output", type=Path)
    args = parser.parse_args()
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(translated(args.source))


if __name__ == "__main__":
    main()
