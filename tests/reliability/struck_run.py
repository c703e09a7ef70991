# SPDX-License-Identifier: MIT
# tests/reliability/struck_run.py — one `mkernel run` of processes: start it, signal a rank, await the end of all.
#
# All processes of a run are found by a variable in their environment that no other run has.  Each run has a folder of
# its own for HOME, TMPDIR and MKERNEL_MEET_DIR, so that what it leaves behind can be told from what others leave.
import ctypes
import os
import signal
import subprocess
import time
import uuid
from pathlib import Path

TAG = "MKERNEL_KILLS_RUN"
NOT_INHERITED = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "MKERNEL_", "OMPI_", "PMI", "PRTE_", "MPI_", "SLURM_",
                 "LD_PRELOAD")
MPIRUNS_OWN = "OMPI_MCA_"  # how this machine's mpirun is set up
FOR_MPIRUN = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
              "OMPI_MCA_rmaps_base_oversubscribe": "1", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
RDMA = ("verbs", "efa")
LOOK = 0.005  # seconds between looks at the processes of a run
PR_SET_CHILD_SUBREAPER, CLONE_NEWNS, MS_REC, MS_PRIVATE = 36, 0x20000, 0x4000, 0x40000
LIBC = ctypes.CDLL(None, use_errno=True)


def adopt_orphans():
    """Processes whose parent ends become children of this one: it sees them, and reaps them."""
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def own_shared_memory():
    """A /dev/shm that only this process and its children see.  False where that is not permitted."""
    if LIBC.unshare(CLONE_NEWNS) != 0:
        return False
    LIBC.mount(None, b"/", None, MS_REC | MS_PRIVATE, None)
    return LIBC.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, None) == 0


def text_of(path):
    try:
        return Path(path).read_bytes()
    except OSError:  # the process has ended meanwhile
        return b""


def state_and_parent(pid):
    """('S', 123); (None, 0) if there is no such process."""
    after_name = text_of(f"/proc/{pid}/stat").rpartition(b") ")[2].split()
    return (after_name[0].decode(), int(after_name[1])) if after_name else (None, 0)


def processes():
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())


def send(pid, number):
    """Whether there was still such a process."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


class Run:
    """A command that is running.  `rank_names` says that the program names its rank processes `mkernel:<rank>`."""

    def __init__(self, setup, folder, launches, rank_names):
        self.setup, self.folder, self.rank_names = setup, Path(folder), rank_names
        self.mark = f"{TAG}={uuid.uuid4().hex}".encode()
        self.out, self.err = self.folder / "out", self.folder / "err"
        for name in ("home", "tmp", "meet"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.began = time.monotonic()
            self.process = subprocess.Popen(setup.command(launches), stdout=out, stderr=err, stdin=subprocess.DEVNULL,
                                            env=self.environment())
        self.launcher = self.process.pid
        self.seen = {self.launcher}  # all processes of this run that were ever found

    def environment(self):
        own = {k: v for k, v in os.environ.items() if not k.startswith(NOT_INHERITED) or k.startswith(MPIRUNS_OWN)}
        name, value = self.mark.decode().split("=")
        return own | FOR_MPIRUN | {"HOME": str(self.folder / "home"), "TMPDIR": str(self.folder / "tmp"),
                                   "MKERNEL_MEET_DIR": str(self.folder / "meet"), name: value}

    def members(self):
        """The processes of this run that have not ended; a zombie has.  One that is about to end has no environment."""
        marked = {pid for pid in processes() if self.mark in text_of(f"/proc/{pid}/environ").split(b"\0")}
        self.seen |= marked
        return sorted(pid for pid in self.seen if pid in marked or state_and_parent(pid)[0] not in (None, "X", "Z"))

    def rank_processes(self):
        """The process of each rank that has one by now."""
        children = [pid for pid in processes() if state_and_parent(pid)[1] == self.launcher]
        self.seen.update(children)
        if self.setup.launcher == "mpirun":
            return {rank: pid for pid in children if (rank := launched_rank(pid)) is not None}
        if self.rank_names:
            return {rank: pid for pid in children if (rank := named_rank(pid)) is not None}
        return {0: self.launcher} | {1 + i: pid for i, pid in enumerate(children)}

    def has_ended(self):
        return self.process.poll() is not None

    def has_row(self):
        return text_of(self.out).count(b"\n") >= 3  # the device, the table's head, the row of the operator

    def wait_until(self, happened, longest):
        """Whether it happened before the run ended, or before `longest` seconds were over."""
        until = time.monotonic() + longest
        while not happened():
            if self.has_ended() or time.monotonic() > until:
                return False
            time.sleep(LOOK / 5)
        return True

    def processes_of(self, ranks, longest):
        """{rank: process}, as soon as all of them are there; empty if the run ends before."""
        found = {}

        def all_there():
            found.update((rank, pid) for rank, pid in self.rank_processes().items() if rank in ranks)
            return len(found) == len(ranks)

        return found if self.wait_until(all_there, longest) else {}

    def wait_for_moment(self, moment, longest):
        if moment.after == "row" and not self.wait_until(self.has_row, longest):
            return False
        begin = self.began if moment.after == "start" else time.monotonic()
        return self.wait_until(lambda: time.monotonic() - begin >= moment.delay, longest)

    def strike(self, ranks, number, moment, longest):
        """Signals these ranks, or the launcher if there are none, at that moment or as soon as they are there: {rank:
        process}, and the time.  Nobody if one of them had ended."""
        found = self.processes_of(ranks, longest) if ranks else {-1: self.launcher}
        if not found or not self.wait_for_moment(moment, longest):
            return {}, 0.0
        if any(state_and_parent(pid)[0] in (None, "Z") for pid in found.values()):
            return {}, 0.0
        now = time.monotonic()
        return {rank: pid for rank, pid in found.items() if send(pid, number)}, now

    def seconds_to_end(self, since, but, longest, longest_after_launcher):
        """When the launcher and all processes but these had ended, in seconds after `since`; None if not by then.  Once
        the launcher has ended, the others are not awaited for as long."""
        while (now := time.monotonic() - since) < longest:
            if self.has_ended():
                if not set(self.members()) - set(but):
                    return now
                longest = min(longest, longest_after_launcher)
            time.sleep(LOOK)
        return None

    def end(self):
        """Kills what is left of the run: {process: its state}, and how many had ended without being waited for."""
        left = {pid: state_and_parent(pid)[0] for pid in self.members()}
        for pid in left:
            send(pid, signal.SIGKILL)
        self.process.wait()
        return left, reap_orphans(left, self.seen)


def reap_orphans(killed, of_run):
    """How many processes of a run that this process adopted had ended before they were killed here."""
    zombies = 0
    until = time.monotonic() + 5
    waiting = set(killed)
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return zombies
        if pid != 0:
            zombies += pid in of_run and pid not in killed
            waiting.discard(pid)
        elif not waiting or time.monotonic() > until:
            return zombies
        else:
            time.sleep(LOOK)


def launched_rank(pid):
    """As Open MPI tells it."""
    for variable in text_of(f"/proc/{pid}/environ").split(b"\0"):
        if variable.startswith(b"OMPI_COMM_WORLD_RANK="):
            return int(variable.partition(b"=")[2])
    return None


def named_rank(pid):
    name = text_of(f"/proc/{pid}/comm").decode().strip()
    return int(name.partition(":")[2]) if name.startswith("mkernel:") else None
