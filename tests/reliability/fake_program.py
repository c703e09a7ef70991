# SPDX-License-Identifier: MIT
# tests/reliability/fake_program.py — plays `mkernel run --launcher fork`, with a bad habit that kills.py must find.
#
# fake_program.py HABIT run OPERATOR FLAGS…; the habit `none` does all as it should be done.
import os
import signal
import sys
import time
from pathlib import Path

HABIT = sys.argv[1]
FLAGS = dict(zip(sys.argv[4::2], sys.argv[5::2]))
SECONDS_A_LAUNCH = 0.02
LONG = 3  # seconds: beyond every bound of the tests


def rank_process(rank):
    Path("/proc/self/comm").write_text(f"mkernel:{rank}")
    time.sleep(SECONDS_A_LAUNCH * int(FLAGS["--launches"]))
    os._exit(0)


def start_ranks():
    ranks = {}
    for rank in range(int(FLAGS["--nodes"]) * int(FLAGS["--ranks"])):
        if (child := os.fork()) == 0:
            rank_process(rank)
        ranks[child] = rank
    return ranks


def leave_something():
    if HABIT == "leaves a file":
        Path(os.environ["HOME"], "left").touch()
    if HABIT == "leaves shared memory":
        Path(f"/dev/shm/mkernel.{os.getpid()}").touch()
    if HABIT == "leaves a process" and os.fork() == 0:
        time.sleep(LONG)
        os._exit(0)


def fail(victim, ranks):
    leave_something()
    if HABIT == "is slow":
        time.sleep(LONG)
    for child in ranks:
        os.kill(child, signal.SIGKILL)
    if HABIT != "leaves zombies":
        for child in ranks:
            os.waitpid(child, 0)
    else:
        time.sleep(0.2)  # they are zombies by then
    if HABIT != "is silent":
        print(f"mkernel: rank {victim + (HABIT == 'names another')} is gone", file=sys.stderr)
    sys.exit(0 if HABIT == "exits with 0" else 1)


def main():
    if HABIT == "fails unharmed":
        sys.exit(1)
    ranks = start_ranks()
    while ranks:
        child, status = os.waitpid(-1, os.WUNTRACED)
        victim = ranks[child]
        if os.WIFSTOPPED(status):
            fail(victim, ranks)
        del ranks[child]
        if os.WIFSIGNALED(status):
            fail(victim, ranks)
    print("device\nhead\nrow")


if __name__ == "__main__":
    main()
