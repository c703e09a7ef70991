#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tests/cuda/ptxas_report_test.py — the reader of ptxas's report, on reports that were recorded.
import unittest

from ptxas_report import Function, complaints, functions, kernels

CLEAN = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'clean' for 'sm_90a'
ptxas info    : Function properties for clean
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers
ptxas info    : Compile time = 1.184 ms
"""

SPILLS = """\
ptxas info    : Compiling entry function 'spills' for 'sm_90a'
ptxas info    : Function properties for spills
    15112 bytes stack frame, 22504 bytes spill stores, 30524 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 15112 bytes cumulative stack size
"""

# An array with a computed index lives in local memory without a single spill.
INDEXED = """\
ptxas info    : Compiling entry function 'indexed' for 'sm_90a'
ptxas info    : Function properties for indexed
    64 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 30 registers, used 0 barriers, 64 bytes cumulative stack size
"""

CALLS = """\
ptxas info    : Compiling entry function 'calls' for 'sm_90a'
ptxas info    : Function properties for calls
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers, 16 bytes cumulative stack size
ptxas info    : Function properties for _Z6helperPfi
    16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
"""

SERIALIZED = ("ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
              "insufficient register resources for the wgmma pipeline in function 'clean'\n")


class PtxasReport(unittest.TestCase):
    def test_every_kernel_is_found(self):
        self.assertEqual(kernels(CLEAN + SPILLS + CALLS), ["clean", "spills", "calls"])

    def test_numbers_are_read_in_their_order(self):
        self.assertEqual(functions(SPILLS), [Function("spills", 15112, 22504, 30524)])

    def test_a_clean_report_has_no_complaints(self):
        self.assertEqual(complaints(CLEAN), [])

    def test_a_spill_is_complained_of(self):
        self.assertEqual(len(complaints(CLEAN + SPILLS)), 1)
        self.assertIn("spills: 15112 bytes of stack", complaints(CLEAN + SPILLS)[0])

    def test_local_memory_without_a_spill_is_complained_of(self):
        self.assertEqual(len(complaints(INDEXED)), 1)

    def test_local_memory_of_a_function_that_was_not_inlined_is_complained_of(self):
        self.assertIn("_Z6helperPfi", complaints(CALLS)[0])

    def test_a_report_without_kernels_is_complained_of(self):
        self.assertEqual(complaints("ptxas info    : 0 bytes gmem\n"), ["no kernel was compiled"])
        self.assertEqual(complaints(""), ["no kernel was compiled"])

    def test_a_kernel_without_numbers_is_complained_of(self):
        self.assertEqual(len(complaints(CLEAN.replace("0 bytes stack frame", "no stack frame"))), 1)

    def test_serialized_wgmma_is_complained_of(self):
        self.assertIn("serialized", complaints(CLEAN + SERIALIZED)[0])


if __name__ == "__main__":
    unittest.main()
