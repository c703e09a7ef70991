#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tests/install/install_test.py — installs the tree, moves what was installed, and builds programs against it.
#
# Arguments after the options choose classes, as with unittest.  Exits with 77 if all that was chosen is skipped.
import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

OPTIONS = None
FOLDER = None  # all that is written is in it
PREFIX = None  # where the installed tree is after it was moved
SKIPPED = 77  # the exit code that ctest counts as skipped
CONSUMER = Path(__file__).resolve().parent / "consumer"
# What libmkernel.so may export, demangled.  A signature may name a hidden class.
TAG = r"(?:\[abi:\w+\])?"
EXPORTED = re.compile(rf"mk::((World|Options)::(~?\w+|operator=)|\w+){TAG}\(.*\)( const)?"
                      r"|(typeinfo|typeinfo name|vtable) for mk::Error|mk::Error::~?Error\(.*\)")
# A function that a header marks.
MARKED = re.compile(r"^ *MK_API [\w:* ]+?[ *](\w+)\(", re.MULTILINE)


def run(*command, **environment):
    """What the command printed; if it failed, all it said is the test's failure."""
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=250,
                            env=os.environ | {name: str(value) for name, value in environment.items()})
    if result.returncode:
        raise AssertionError(f"{command} exited with {result.returncode}:\n{result.stdout}{result.stderr}")
    return result.stdout


def setUpModule():
    global FOLDER, PREFIX
    FOLDER = tempfile.TemporaryDirectory(prefix="mkernel-install-")
    first = Path(FOLDER.name) / "first"
    PREFIX = Path(FOLDER.name) / "moved"
    run(OPTIONS.cmake, "--install", OPTIONS.build, "--prefix", first, DESTDIR="")
    first.rename(PREFIX)


def tearDownModule():
    FOLDER.cleanup()


def libraries():
    return PREFIX / OPTIONS.libdir


def headers():
    return sorted((PREFIX / "include").rglob("*"))


class Program(unittest.TestCase):
    """Copies the sources of a project out of the tree."""

    def setUp(self):
        self.sources = Path(tempfile.mkdtemp(dir=FOLDER.name))
        shutil.copytree(CONSUMER, self.sources, dirs_exist_ok=True)
        shutil.copy(CONSUMER.parents[1] / "examples" / "ag_gemm_example.cc", self.sources)

    def runs(self, folder, **environment):
        self.assertIn("every element is right", run(folder / "ag_gemm_example", **environment))
        self.assertEqual(run(folder / "installed_program", **environment).split(), [OPTIONS.version] * 2)


class Files(unittest.TestCase):
    def test_headers_are_those_of_include(self):
        here = sorted(str(file.relative_to(OPTIONS.root / "include")) for file in (OPTIONS.root / "include").rglob("*"))
        self.assertEqual([str(file.relative_to(PREFIX / "include")) for file in headers()], here)

    def test_each_header_compiles_alone(self):
        def compiled(header):
            run(OPTIONS.cxx, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", PREFIX / "include",
                "-include", header, "-x", "c++", os.devnull)

        with ThreadPoolExecutor(2) as pool:
            self.assertGreater(len(list(pool.map(compiled, filter(Path.is_file, headers())))), 10)

    def test_the_version_is_that_of_the_project(self):
        text = (PREFIX / "include/mkernel/version.h").read_text(encoding="utf-8")
        numbers = [re.search(rf"#define MKERNEL_VERSION_{part} (\d+)", text)[1] for part in ("MAJOR", "MINOR", "PATCH")]
        self.assertEqual(".".join(numbers), OPTIONS.version)
        links = {f"libmkernel.so{end}" for end in ("", f".{numbers[0]}", f".{OPTIONS.version}")}
        self.assertLessEqual(links | {"libmkernel.a"}, {file.name for file in libraries().iterdir()})

    def test_nothing_names_the_prefix_or_the_tree(self):
        texts = [file for file in PREFIX.rglob("*") if file.suffix in {".cmake", ".pc", ".h"}]
        self.assertGreater(len(texts), 10)
        for file in texts:
            text = file.read_text(encoding="utf-8")
            for place in (FOLDER.name, str(OPTIONS.root), str(OPTIONS.build)):
                self.assertNotIn(place, text, file)

    def test_the_shared_library_exports_what_headers_mark(self):
        said = run("nm", "-D", "-C", "--defined-only", libraries() / "libmkernel.so")
        exported = [line.split(" ", 2)[2] for line in said.splitlines()]
        self.assertEqual([name for name in exported if not EXPORTED.fullmatch(name)], [])
        marked = {name for file in headers() if file.is_file() for name in MARKED.findall(file.read_text("utf-8"))}
        self.assertGreater(len(marked), 15)
        names = {re.search(rf"(\w+=?){TAG}\(", name)[1] for name in exported if "(" in name}
        self.assertEqual(marked - names, set())
        self.assertLessEqual({"typeinfo for mk::Error", "mk::World::synchronize()"}, set(exported))


class FindPackage(Program):
    def build(self, kind, *flags):
        folder = self.sources / kind
        run(OPTIONS.cmake, "-S", self.sources, "-B", folder, "-G", OPTIONS.generator, f"-DCMAKE_PREFIX_PATH={PREFIX}",
            f"-DCMAKE_CXX_COMPILER={OPTIONS.cxx}", f"-DKIND={kind}", f"-DWANTED={OPTIONS.version}", *flags)
        run(OPTIONS.cmake, "--build", folder)
        return folder

    def test_shared(self):
        folder = self.build("shared")
        self.runs(folder)
        self.assertIn("libmkernel.so.", run("readelf", "-d", folder / "ag_gemm_example"))

    def test_static(self):
        folder = self.build("static")
        self.runs(folder)
        self.assertNotIn("libmkernel.so", run("readelf", "-d", folder / "ag_gemm_example"))

    def test_another_version_is_not_found(self):
        with self.assertRaisesRegex(AssertionError, "version: " + re.escape(OPTIONS.version)):
            self.build("shared", "-DWANTED=99.0")


class PkgConfig(Program):
    def setUp(self):
        if shutil.which("pkg-config") is None:
            self.skipTest("there is no pkg-config")
        super().setUp()

    def flags(self, *words):
        return run("pkg-config", *words, PKG_CONFIG_PATH=libraries() / "pkgconfig").split()

    def link(self, *flags):
        for name in ("ag_gemm_example", "installed_program"):
            run(OPTIONS.cxx, "-std=c++20", self.sources / f"{name}.cc", "-o", self.sources / name, *flags)

    def test_shared(self):
        self.assertEqual(self.flags("--modversion", "mkernel"), [OPTIONS.version])
        libs = self.flags("--libs", "mkernel")
        self.assertEqual([word[:2] for word in libs], ["-L", "-l"], libs)
        self.link(*self.flags("--cflags", "mkernel"), *libs)
        self.runs(self.sources, LD_LIBRARY_PATH=libraries())

    def test_static(self):
        self.link(*self.flags("--cflags", "--libs", "mkernel-static"))
        self.runs(self.sources)
        self.assertNotIn("libmkernel.so", run("readelf", "-d", self.sources / "ag_gemm_example"))

    def test_static_of_the_shared_package_names_the_same_libraries(self):
        private = self.flags("--libs", "--static", "mkernel")
        self.assertEqual(private[2:], self.flags("--libs", "mkernel-static")[1:])
        self.assertIn("-lcrypto", private)


class Package(unittest.TestCase):
    def pack(self, generator, ending):
        folder = Path(tempfile.mkdtemp(dir=FOLDER.name))
        run(OPTIONS.cmake.with_name("cpack"), "-G", generator, "-B", folder, "--config",
            OPTIONS.build / "CPackConfig.cmake")
        packed, = folder.glob(f"*{ending}")
        return packed

    def holds_the_same_as_the_prefix(self, names):
        files = {str(file.relative_to(PREFIX)) for file in PREFIX.rglob("*") if file.is_file()}
        self.assertEqual({file for file in files if not any(name.endswith(f"/{file}") for name in names)}, set())

    def test_tar_gz(self):
        with tarfile.open(self.pack("TGZ", ".tar.gz")) as packed:
            self.holds_the_same_as_the_prefix(packed.getnames())

    def test_deb(self):
        if shutil.which("dpkg-deb") is None:
            self.skipTest("there is no dpkg-deb")
        packed = self.pack("DEB", ".deb")
        self.holds_the_same_as_the_prefix([re.sub(" -> .*", "", line) for line in
                                           run("dpkg-deb", "--contents", packed).splitlines()])
        self.assertEqual(run("dpkg-deb", "--field", packed, "Version").strip(), OPTIONS.version)
        if shutil.which("dpkg-shlibdeps"):
            self.assertIn("libssl3", run("dpkg-deb", "--field", packed, "Depends"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True, type=Path)
    parser.add_argument("--build", required=True, type=Path, help="the tree to install")
    parser.add_argument("--libdir", required=True, help="where libraries go, below the prefix")
    parser.add_argument("--version", required=True)
    parser.add_argument("--cmake", required=True, type=Path)
    parser.add_argument("--generator", required=True)
    parser.add_argument("--cxx", required=True)
    OPTIONS, rest = parser.parse_known_args()
    ran = unittest.main(argv=[sys.argv[0], *rest], exit=False).result
    if not ran.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIPPED if len(ran.skipped) == ran.testsRun else 0)
