# SPDX-License-Identifier: MIT
# tests/tree/source_tree.py — the files of the repository, and what they include.
import os
import re
import subprocess
from pathlib import Path

CODE = {".h", ".cc", ".cuh", ".cu"}
HEADERS = {".h", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


class SourceTree:
    """Everything git would commit, by its path relative to the root."""

    def __init__(self, root):
        self.root = Path(root).resolve()
        self.files = sorted(self._listed())

    def _listed(self):
        listing = subprocess.run(
            ["git", "-C", str(self.root), "ls-files", "--cached", "--others", "--exclude-standard"],
            capture_output=True, text=True)
        names = listing.stdout.splitlines() if listing.returncode == 0 else self._walked()
        return [Path(name) for name in names if (self.root / name).is_file()]

    def _walked(self):
        for folder, folders, names in os.walk(self.root):
            folders[:] = [f for f in folders if not f.startswith("build") and f != ".git"]
            for name in names:
                yield os.path.relpath(os.path.join(folder, name), self.root)

    def text(self, file):
        return (self.root / file).read_text(encoding="utf-8")

    def code(self, suffixes=CODE):
        return [f for f in self.files if f.suffix in suffixes]

    def includes(self, file):
        """Pairs (is_quoted, name)."""
        return [(mark == '"', name) for mark, name in INCLUDE.findall(self.text(file))]

    def resolve(self, file, name):
        """The file of the tree that a quoted include names, or None."""
        for folder in (Path("src"), Path("include"), Path("."), file.parent):
            if (self.root / folder / name).is_file():
                return Path(os.path.normpath(folder / name))
        return None


def is_stand_in(file):
    """Whether the software GPU includes it instead of the file of that name."""
    return str(file).startswith("tests/support/soft_gpu/include/")


def layer_of(file):
    """src/core/ring.h → core; include/… → include; tests/… → tests."""
    return file.parts[1] if file.parts[0] == "src" else file.parts[0]
