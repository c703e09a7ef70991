#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tests/process/misconfigured_rank_test.py — one rank of four is set up wrongly: all end soon, and all name it.
import shutil
import subprocess
import time

import launched
from launched import Launched, free_port, torchrun

NODES, RANKS = 2, 2
TIMEOUT_MS = 20000  # what ranks that know nothing of the mistake would wait
SOON = 3  # seconds in which all must have ended
WRONG = 2  # the rank that is set up wrongly, unless a test says otherwise
FLAGS = ("ag_gemm", "--device", "cpu", "--m", 480, "--n", 65, "--k", 17, "--timeout-ms", TIMEOUT_MS)
SHAPE = ("--nodes", NODES, "--ranks", RANKS)
FOR_MPIRUN = {"OMPI_ALLOW_RUN_AS_ROOT": 1, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": 1,
              "OMPI_MCA_rmaps_base_oversubscribe": 1, "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}

# A rank's variables and flags that are wrong by themselves, and a pattern of what the rank says.  A variable of the
# launcher has the launcher's own name.
OWN_MISTAKES = [
    ({"MKERNEL_RING_CAPACITY": 3}, (), r"(MKERNEL_RING_CAPACITY|ring_capacity) is '?3'?; it must be a power of two"),
    ({"MKERNEL_NET": "garbage"}, (), r"(MKERNEL_NET|net) is 'garbage'"),
    ({"MKERNEL_TIMEOUT": "abc"}, (), r"MKERNEL_TIMEOUT is 'abc'; it must be a whole number"),
    ({"SIZE": 8}, SHAPE, r"--nodes x --ranks is 2 x 2; (torchrun|mpirun) started 8"),
    ({}, ("--nodes", 3, "--ranks", 2), r"--nodes x --ranks is 3 x 2; (torchrun|mpirun) started 4"),
]

# The same, but found before the rank has a request.
EARLY_MISTAKES = [
    ({}, ("--no-such-flag",), r"--no-such-flag"),
    ({}, ("--m", "lots"), r"--m is 'lots'"),
]

# A rank's variables and flags that only differ from those of the others; what it asks for; what the others ask for.
DISAGREEMENTS = [
    ({"SIZE": 8}, (), "8", "4"),
    ({}, ("--nodes", 4, "--ranks", 1), "4 ?x ?1", "2 ?x ?2"),
    ({}, ("--m", 484), "484", "480"),
    ({}, ("--m", 481), "481", "480"),  # which is no shape either
    ({}, ("--k", 18), "18", "17"),
    ({}, ("--dtype", "fp16"), "fp16", "bf16"),
    ({"MKERNEL_NET": "shm"}, (), "shm", "auto"),
]
SIZE_OF = {"torchrun": "WORLD_SIZE", "mpirun": "OMPI_COMM_WORLD_SIZE"}


def both(its, theirs):
    """A pattern of a line that says what rank WRONG asks for, and what rank 0 does."""
    return "".join(rf"(?=.*\b{words}\b)" for words in (f"rank {WRONG}", "rank 0", its, theirs))


def own_names(variables, launcher):
    return {SIZE_OF[launcher] if name == "SIZE" else name: str(value) for name, value in variables.items()}


def flags_of(variables, flags):
    """The usual flags, replaced by those in `flags`.  A test of SIZE leaves out SHAPE: the launcher says the size."""
    usual = [*FLAGS[1:], *(() if "SIZE" in variables else SHAPE)]
    pairs = dict(zip(usual[::2], usual[1::2])) | dict(zip(flags[::2], flags[1::2]))
    alone = flags[-1:] if len(flags) % 2 else ()
    return [FLAGS[0], *(word for pair in pairs.items() for word in pair), *alone]


class MisconfiguredRank(Launched):
    def ended(self, processes):
        """For each its exit code, None if it had to be killed, and what it complained."""
        until = time.monotonic() + SOON
        while time.monotonic() < until and any(process.poll() is None for process in processes):
            time.sleep(0.01)
        codes = [process.poll() for process in processes]
        for process in processes:
            process.kill()
        return [(code, process.communicate()[1]) for code, process in zip(codes, processes)]

    def start(self, command, **variables):
        return subprocess.Popen(list(map(str, command)), env=self.environment(**variables), text=True,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def torchrun(self, wrong, variables, flags):
        """Results of all ranks; those variables and flags are of rank `wrong` only."""
        port = free_port()
        processes = []
        for rank in range(NODES * RANKS):
            own, added = (own_names(variables, "torchrun"), flags) if rank == wrong else ({}, ())
            processes.append(self.start([launched.PROGRAM, "run", *flags_of(variables, added)],
                                        **torchrun(rank, NODES, RANKS, port) | own))
        return self.ended(processes)

    def mpirun(self, variables, flags):
        """The result of mpirun; those variables and flags are of rank WRONG only."""
        command = ["mpirun"]
        for rank in range(NODES * RANKS):
            own, added = (own_names(variables, "mpirun"), flags) if rank == WRONG else ({}, ())
            command += ["-n", 1, "env", *(f"{name}={value}" for name, value in own.items()), launched.PROGRAM, "run",
                        *flags_of(variables, added), ":"]
        (result,) = self.ended([self.start(command[:-1], **FOR_MPIRUN)])
        return result

    def assert_wrong_rank_says(self, result, pattern, rank=WRONG):
        code, complained = result
        self.assertEqual((code, len(complained.splitlines())), (2, 1), complained)
        self.assertRegex(complained, rf"^mkernel: rank {rank}: (?=.*{pattern})")

    def assert_others_say(self, results, pattern, wrong=WRONG):
        for rank, (code, complained) in enumerate(results):
            if rank != wrong:
                self.assertIn(code, (1, 2), f"rank {rank} (None: not ended after {SOON} s): {complained}")
                self.assertRegex(complained, rf"(?m)^mkernel: (rank {rank}: )?(?=.*{pattern})", f"rank {rank}")

    def check_own(self, mistakes):
        for variables, flags, pattern in mistakes:
            with self.subTest(f"{variables} {flags}"):
                results = self.torchrun(WRONG, variables, flags)
                self.assert_wrong_rank_says(results[WRONG], pattern)
                self.assert_others_say(results, rf"\brank {WRONG}\b")

    def test_a_rank_that_is_wrong_by_itself_says_so_and_the_others_name_it(self):
        self.check_own(OWN_MISTAKES)

    def test_a_rank_that_cannot_read_its_flags_or_variables_says_so_and_the_others_name_it(self):
        self.check_own(EARLY_MISTAKES)

    def test_ranks_that_disagree_say_who_asks_for_what(self):
        for variables, flags, its, theirs in DISAGREEMENTS:
            with self.subTest(f"{variables} {flags}"):
                results = self.torchrun(WRONG, variables, flags)
                self.assert_wrong_rank_says(results[WRONG], both(its, theirs))
                self.assert_others_say(results, both(its, theirs))

    def test_rank_0_that_is_wrong_by_itself_says_so_and_the_others_name_it(self):
        results = self.torchrun(0, {"MKERNEL_RING_CAPACITY": 3}, ())
        self.assertEqual(results[0][0], 2, results[0][1])
        self.assertRegex(results[0][1], r"^mkernel: (rank 0: )?.*(MKERNEL_RING_CAPACITY|ring_capacity) is '?3'?")
        self.assert_others_say(results, r"\brank 0\b", wrong=0)

    def test_under_mpirun_the_wrong_rank_says_so_and_the_job_ends(self):
        """mpirun ends the others as soon as one has failed, so that they may have no time to say anything."""
        if shutil.which("mpirun") is None:
            self.skipTest("there is no mpirun")
        disagreements = [(variables, flags, both(its, theirs)) for variables, flags, its, theirs in DISAGREEMENTS]
        for variables, flags, pattern in OWN_MISTAKES + EARLY_MISTAKES + disagreements:
            with self.subTest(f"{variables} {flags}"):
                code, complained = self.mpirun(variables, flags)
                self.assertNotIn(code, (0, None), f"None: not ended after {SOON} s: {complained}")
                self.assertRegex(complained, rf"(?m)^mkernel: (?=.*\brank {WRONG}\b)(?=.*{pattern})")


if __name__ == "__main__":
    launched.main()
