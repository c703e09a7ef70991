#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tests/process/env_launcher_test.py — `mkernel run` under the variables of torchrun and srun.
import contextlib
import os
import subprocess

import launched
from launched import SHAPE, Launched, free_port, srun, torchrun


class EnvLauncher(Launched):
    def test_worlds_are_as_their_launcher_says(self):
        for launcher, nodes, ranks in ((torchrun, 2, 2), (torchrun, 1, 3), (srun, 2, 2), (srun, 3, 1)):
            with self.subTest(f"{launcher.__name__} {nodes}x{ranks}"):
                self.json.unlink(missing_ok=True)
                port = free_port()
                variables = [launcher(rank, nodes, ranks, port) for rank in range(nodes * ranks)]
                results = self.run_all(variables, *SHAPE, "--m", 33 * nodes * ranks, "--json", self.json)
                self.assert_rank_0_alone_prints(results)
                self.assert_rows(nodes, ranks, "tcp" if nodes > 1 else "none")

    def test_a_world_of_one_is_no_launchers(self):
        ((code, _, complained),) = self.run_all([torchrun(0, 1, 1, free_port())], "ag_gemm", *SHAPE, "--m", 64,
                                                "--json", self.json)
        self.assertEqual((code, complained), (0, ""))
        (row,) = self.rows()
        self.assertEqual((row["launcher"], row["nodes"], row["ranks"]), ("thread", 2, 8))

    def test_rank_0_says_what_is_wrong_and_all_exit_with_it(self):
        for flags, word in ((("--m", 17), "--m"), (("--nodes", 3), "--nodes x --ranks is 3 x 2; torchrun started 4"),
                            (("--launcher", "spoon"), "--launcher"),
                            (("--nodes", 0), "--nodes is 0")):
            with self.subTest(str(flags)):
                port = free_port()
                results = self.run_all([torchrun(rank, 2, 2, port) for rank in range(4)], "ag_gemm", *flags)
                for rank, (code, said, complained) in enumerate(results):
                    self.assertEqual((code, said), (2, ""), rank)
                    self.assertEqual(len(complained.splitlines()), 1, complained)
                    self.assertIn(f"mkernel: rank {rank}: ", complained)
                    self.assertIn(word, complained)

    def test_ranks_that_ask_for_different_devices_are_named(self):
        port = free_port()
        results = self.run_all([torchrun(rank, 1, 2, port) for rank in range(2)], "ag_gemm", "--device",
                               prefix=lambda rank: ["sh", "-c", f'"$@" {("cpu", "auto")[rank]}', "sh"])
        self.assertEqual([(code, said) for code, said, _ in results], [(2, "")] * 2)
        self.assertIn("--device is auto on rank 1 and cpu on rank 0; all must agree", results[0][2])

    def test_a_rank_that_never_comes_fails_the_others_in_time(self):
        port = free_port()
        results = self.run_all([torchrun(rank, 1, 3, port) for rank in (0, 1)], "ag_gemm", *SHAPE, "--m", 33,
                               "--timeout-ms", 3000)
        self.assertEqual([code for code, _, _ in results], [1, 1])
        self.assertIn("ranks 2 of 3", results[0][2])
        self.assertIn("ranks 2 of 3", results[1][2])

    # Nothing waits for rank 0 any more but the end of the World.  Its stdout is a full pipe that nobody reads.
    def test_a_rank_0_that_stops_before_its_row_is_named_by_the_others(self):
        port = free_port()
        end, full = os.pipe()
        self.addCleanup(lambda: [os.close(end), os.close(full)])
        os.set_blocking(full, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(full, bytes(1 << 16))
        os.set_blocking(full, True)
        command = ["ag_gemm", *SHAPE, "--m", 66, "--timeout-ms", 2000]
        first = subprocess.Popen([launched.PROGRAM, "run", *map(str, command)], stdout=full, stderr=subprocess.DEVNULL,
                                 env=self.environment(**torchrun(0, 1, 2, port)))
        self.addCleanup(lambda: [first.kill(), first.wait()])
        ((code, _, complained),) = self.run_all([torchrun(1, 1, 2, port)], *command)
        self.assertEqual((code, len(complained.splitlines())), (1, 1), complained)
        self.assertIn("rank 1 waited 2000 ms for rank 0", complained)
        self.assertIsNone(first.poll())

    def test_without_a_launcher_env_is_refused(self):
        ((code, said, complained),) = self.run_all([{}], "--launcher", "env")
        self.assertEqual((code, said), (2, ""))
        self.assertIn("no launcher's", complained)

    def test_a_variable_that_makes_no_sense_is_named(self):
        ((code, _, complained),) = self.run_all([{"RANK": "eight", "WORLD_SIZE": 8}])
        self.assertEqual(code, 2)
        self.assertIn("RANK is 'eight'", complained)


if __name__ == "__main__":
    launched.main()
