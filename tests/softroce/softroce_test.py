#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tests/softroce/softroce_test.py — the verbs fabric on devices of the kernel's soft-RoCE driver, in a virtual machine.
#
# The guest boots once and runs all parts in turn, each with a limit of its own; the tests look at what they left.  Its
# processor is emulated, so everything is small.  Skipped where there is no guest.
import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SKIPPED = 77  # the exit code that ctest counts as skipped
HERE = Path(__file__).resolve().parent
MOST_SECONDS = 400  # for all of it; a minute on idle cores
NODES, LAUNCHES = 2, 5
OPERATORS = ("ag_gemm", "gemm_rs", "gemm_ar", "moe_dispatch_gemm", "moe_layer", "ring_attention")
# All types of verbs that mean something else without seeds.  The guest cannot pin a window of more than 4 GiB, and
# proxies want cores of their own.
SUITE = "*/verbs:*/verbs_narrow:*/verbs_two_rails-*.OffsetsMayBeBeyondFourGiB/*:*/ProxiedFabric.*"
SUITE_TYPES, SUITE_TESTS = 3, 20

OPTIONS = None
OUT = None  # what the guest sees as /out
LOG = ""


def run(ranks, json_name, *more, op="all"):
    """An operator, or each, in a world of so many ranks a node."""
    return [OPTIONS.program, "run", op, "--device", "cpu", "--nodes", NODES, "--ranks", ranks,
            "--m", 33 * NODES * ranks, "--n", 65, "--k", 17, "--seq", 16 * NODES * ranks, "--mask", "full",
            "--launches", LAUNCHES, "--net", "verbs", "--json", f"/out/{json_name}.json", *more]


def parts():
    """Name, most seconds and command of each."""
    yield "suite", 200, [OPTIONS.suite, f"--gtest_filter={SUITE}", "--gtest_output=json:/out/suite.json"]
    yield "processes", 150, run(4, "processes", "--launcher", "fork")
    yield "backward", 60, run(2, "backward", "--launcher", "fork", "--direction", "bwd", op="moe_layer")
    yield "gradients", 60, run(2, "gradients", "--launcher", "fork", "--direction", "bwd", op="ring_attention")
    yield "two_nics", 150, [HERE / "guest_two_nics.sh", "/out/two_nics.sent", *run(2, "two_nics")]


def setUpModule():
    global OUT, LOG
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    OUT = Path(folder.name)
    script = [f"{shlex.quote(str(HERE))}/guest_devices.sh || exit"]
    for name, seconds, command in parts():
        quoted = shlex.join(map(str, command))
        script.append(f"timeout -k 2 {seconds} {quoted} >/out/{name}.said 2>&1; echo $? >/out/{name}.status")
    (OUT / "parts").write_text("\n".join(script))
    guest = subprocess.run([HERE / "run_guest.sh", OPTIONS.guest, OUT, str(MOST_SECONDS), "bash", "/out/parts"],
                           capture_output=True, text=True, errors="replace")
    LOG = guest.stdout + guest.stderr


class SoftRoce(unittest.TestCase):
    def part(self, name):
        """The JSON that a part wrote; it has ended well."""
        said, status = OUT / f"{name}.said", OUT / f"{name}.status"
        self.assertTrue(status.exists(), f"the guest did not come to its end:\n{LOG}")
        self.assertEqual(status.read_text().strip(), "0", said.read_text(errors="replace"))
        return (OUT / f"{name}.json").read_text()

    def rows(self, part, ranks, launcher, operators=OPERATORS):
        """Its rows, one an operator, all of them right."""
        rows = [json.loads(line) for line in self.part(part).splitlines()]
        asked = {"nodes": NODES, "ranks": ranks, "launches": LAUNCHES, "launcher": launcher, "fabric": "verbs",
                 "correct": True}
        for op, row in zip(operators, rows, strict=True):
            self.assertLessEqual((asked | {"op": op}).items(), row.items())
        return rows

    def test_the_suite_of_fabrics_passes(self):
        report = json.loads(self.part("suite"))
        results = [test["result"] for suite in report["testsuites"] for test in suite["testsuite"]]
        self.assertEqual(results, ["COMPLETED"] * SUITE_TYPES * SUITE_TESTS)

    def test_operators_are_right_in_a_world_of_eight_processes(self):
        self.rows("processes", 4, "fork")

    def test_the_backward_pass_is_right_between_processes(self):
        self.rows("backward", 2, "fork", ("moe_layer",))
        self.rows("gradients", 2, "fork", ("ring_attention",))

    def test_nodes_with_a_device_each_send_all_their_bytes_over_the_wire(self):
        ranks = 2
        rows = self.rows("two_nics", ranks, "env")
        network = sum(row["network_bytes"] for row in rows) * LAUNCHES * ranks
        for sent in (OUT / "two_nics.sent").read_text().split():
            self.assertGreaterEqual(int(sent), network)


def why_not():
    if os.geteuid() != 0:
        return "not root, who alone can read all that the guest needs"
    if not (Path(OPTIONS.guest) / "initrd.gz").exists():
        return "./mk test could not make it"
    missing = [tool for tool in ("qemu-system-x86_64", "rdma", "ip") if shutil.which(tool) is None]
    if not list(Path("/etc/libibverbs.d").glob("rxe.driver")):
        missing.append("the rxe provider of libibverbs")
    return f"there is no {', no '.join(missing)}" if missing else None


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--guest", required=True, help="the folder that make_guest.sh made")
    parser.add_argument("--program", required=True)
    parser.add_argument("--suite", required=True, help="the tests of fabrics, with the machine's own verbs")
    OPTIONS, rest = parser.parse_known_args()
    if trouble := why_not():
        print(f"skipped: no guest with soft-RoCE here: {trouble}")
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], *rest])
