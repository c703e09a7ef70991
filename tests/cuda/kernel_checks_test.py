#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tests/cuda/kernel_checks_test.py — kernels that spill, use local memory or serialize wgmmas do not compile.
#
# The compiler is called as the build calls it for its kernels; that it does is read off the build's own commands.
import argparse
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

OPTIONS = None

CLEAN = "__global__ void kernel(float* out) { out[threadIdx.x] = 1; }"

# 2048 threads on an SM leave a thread 32 registers.
SPILLS = """
__global__ void __launch_bounds__(1024, 2) kernel(float* out, const float* in, int n) {
  float v[96];
#pragma unroll
  for (int i = 0; i < 96; ++i) v[i] = in[i * 1024 + threadIdx.x];
  for (int j = 0; j < n; ++j) {
#pragma unroll
    for (int i = 0; i < 96; ++i) v[i] = v[i] * v[(i + 7) % 96] + v[(i + 31) % 96];
  }
#pragma unroll
  for (int i = 0; i < 96; ++i) out[i * 1024 + threadIdx.x] = v[i];
}
"""

INDEXED = """
__global__ void kernel(float* out, const int* in) {
  float v[64];
  for (int i = 0; i < 64; ++i) v[i] = in[i];
  for (int i = 0; i < 64; ++i) v[in[i] & 63] += in[i + 64];
  out[threadIdx.x] = v[in[threadIdx.x] & 63];
}
"""

CALLS = INDEXED.replace("__global__ void kernel", "__device__ __noinline__ void helper") + """
__global__ void kernel(float* out, const int* in) { helper(out, in); }
"""

# Its accumulators are touched between two wgmmas.
SERIALIZED = """
__device__ void multiply(float (&d)[4], unsigned long long a, unsigned long long b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b));
}
__global__ void kernel(float* out, unsigned long long a, unsigned long long b) {
  float d[4] = {};
  asm volatile("wgmma.fence.sync.aligned;");
  multiply(d, a, b);
  d[0] += 1;
  multiply(d, a, b);
  asm volatile("wgmma.commit_group.sync.aligned;");
  asm volatile("wgmma.wait_group.sync.aligned 0;");
  for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = d[i];
}
"""


class KernelChecks(unittest.TestCase):
    def compile(self, source):
        """What the compiler says, and whether it left an object."""
        with tempfile.TemporaryDirectory() as folder:
            at, built = Path(folder) / "kernel.cu", Path(folder) / "kernel.o"
            at.write_text(source)
            command = [*OPTIONS.compiler, "-O3", "-c", "-o", str(built), str(at)]
            result = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual(result.returncode == 0, built.exists(), result.stderr)
            return result.stderr, built.exists()

    def is_refused(self, source, word):
        said, is_built = self.compile(source)
        self.assertFalse(is_built, said)
        self.assertIn(word, said)

    def test_a_clean_kernel_compiles(self):
        self.assertEqual(self.compile(CLEAN), ("", True))

    def test_a_kernel_that_spills_does_not(self):
        self.is_refused(SPILLS, "spilled")

    def test_a_kernel_with_local_memory_does_not(self):
        self.is_refused(INDEXED, "Local memory")

    def test_a_kernel_that_calls_a_function_with_local_memory_does_not(self):
        self.is_refused(CALLS, "Local memory")

    def test_a_kernel_with_serialized_wgmmas_does_not(self):
        self.is_refused(SERIALIZED, "serialized")

    def test_every_kernel_of_the_operators_is_compiled_with_the_checks(self):
        commands = json.loads(Path(OPTIONS.commands).read_text())
        kernels = [c for c in commands if "/generated/kernels/" in c["file"] or "/bench/paced_" in c["file"]]
        # A layer of experts and attention keep a little in local memory (CMakeLists.txt).
        local = ("/paced_attention.cu", "/paced_moe_layer.cu")
        kernels = [c for c in kernels if c["file"].endswith(".cu") and not c["file"].endswith(local)]
        self.assertGreater(len(kernels), 10)
        self.assertEqual([c["file"] for c in kernels if OPTIONS.flags not in c["command"]], [])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--commands", required=True)
    parser.add_argument("--flags", required=True)
    parser.add_argument("compiler", nargs="+")
    OPTIONS = parser.parse_args()
    unittest.main(argv=[sys.argv[0]])
