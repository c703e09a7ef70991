#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# tests/reliability/kills.py — kills and stops ranks of `mkernel run` at random moments, and judges what happens.
#
# For each case it checks: every other process ended within the timeout and one second more; the exit code is not 0;
# the last line names the victim; nothing is left behind.  A case follows from --seed and its number alone, so --case
# runs one of them again.  Exits with 1 if a case fails.
import argparse
import itertools
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import struck_run
import verdict

SKIPPED = 77  # the exit code that ctest counts as skipped
LAUNCHERS = ("fork", "mpirun")
FABRICS = ("shm", "tcp", "verbs", "efa")
SIGNALS = {"KILL": signal.SIGKILL, "STOP": signal.SIGSTOP}
MOMENTS = ("set-up", "launch", "tear-down")
WEIGHTS = {"set-up": 2}  # cases of a moment for each of another's
OPERATORS = ("ag_gemm", "gemm_rs", "gemm_ar")
GRACE = 1  # seconds beyond the timeout in which survivors must have ended, and ranks without a launcher
MPIRUNS_WAIT = 1  # seconds more for mpirun: it waits so long after it has ended ranks (its odls_base_sigkill_timeout)
GIVE_UP = 10  # seconds beyond the timeout after which a case is ended by force
ATTEMPTS = 6  # of a case whose signal came too late
LONGEST = 100  # seconds that an unharmed run may take
BEGIN, END = "<!-- kills.py: begin -->\n", "<!-- kills.py: end -->\n"


@dataclass(frozen=True)
class Setup:
    """A command but for its number of launches."""
    options: argparse.Namespace
    launcher: str
    fabric: str
    operator: str

    def command(self, launches):
        o = self.options
        preload = ["env", f"LD_PRELOAD={o.soft_nic}"] if self.fabric in struck_run.RDMA else []
        start = {"fork": [], "mpirun": ["mpirun", "-n", str(o.nodes * o.ranks)]}[self.launcher]
        flags = {"device": o.device, "launcher": {"fork": "fork", "mpirun": "env"}[self.launcher], "nodes": o.nodes,
                 "ranks": o.ranks, "launches": launches, "m": o.m, "n": o.n, "k": o.k, "timeout-ms": o.timeout_ms,
                 "net": self.fabric}
        return [*start, *preload, o.program, "run", self.operator,
                *(word for name, value in flags.items() for word in (f"--{name}", str(value)))]

    @property
    def key(self):
        return self.launcher, self.fabric, self.operator


@dataclass(frozen=True)
class Moment:
    """`delay` seconds after the start, or after rank 0 has printed its row."""
    after: str
    delay: float


def moment_of(kind, dice, one_launch_s, all_launches_s):
    """Of set-up, launch or tear-down, as long as these last in an unharmed run."""
    if kind == "set-up":
        return Moment("start", dice.uniform(0, one_launch_s))
    if kind == "launch":
        return Moment("start", dice.uniform(one_launch_s, 0.9 * all_launches_s))
    if dice.random() < 0.5:
        return Moment("start", dice.uniform(0.8, 1) * all_launches_s)
    return Moment("row", 0.004 * dice.random() ** 2)


class Kills:
    def __init__(self, options, folder):
        self.options, self.folder = options, Path(folder)
        self.unharmed = {}  # seconds by setup: with one launch, with all
        self.rank_names = None  # whether the program names its rank processes; not known before it was seen at work
        kinds = [kind for kind in options.moments for _ in range(WEIGHTS.get(kind, 1))]
        self.kinds = list(itertools.product(options.launchers, options.fabrics, options.signals, kinds))

    def kind_of(self, number):
        """All kinds in some order, then all in another, and so on."""
        block, index = divmod(number, len(self.kinds))
        return random.Random(f"{self.options.seed}/{block}").sample(self.kinds, len(self.kinds))[index]

    def run_unharmed(self, setup, folder, launches):
        """Seconds it took, or what went wrong."""
        run = struck_run.Run(setup, folder, launches, self.rank_names)
        names_seen = False
        while not run.has_ended() and time.monotonic() - run.began < LONGEST:
            if self.rank_names is None:
                names_seen = names_seen or any(struck_run.named_rank(pid) is not None for pid in run.members())
            time.sleep(struck_run.LOOK)
        seconds = time.monotonic() - run.began
        run.end()
        if self.rank_names is None:
            self.rank_names = names_seen
        said = run.err.read_text()
        return seconds if run.process.returncode == 0 else f"exit code {run.process.returncode}: {said.strip()}"

    def times_of(self, setup):
        if setup.key not in self.unharmed:
            folder = self.folder / "-".join(setup.key)
            found = [self.run_unharmed(setup, folder, launches) for launches in (1, self.options.launches)]
            for trouble in found:
                if isinstance(trouble, str):
                    sys.exit(f"kills: an unharmed run fails: {' '.join(setup.command(1))}: {trouble}")
            self.unharmed[setup.key] = found
        return self.unharmed[setup.key]

    def case(self, number):
        """The record of a case: repeated with another moment where the signal came too late."""
        dice = random.Random(f"{self.options.seed}:{number}")
        launcher, fabric, signal_name, kind = self.kind_of(number)
        setup = Setup(self.options, launcher, fabric, dice.choice(self.options.operators))
        size = self.options.nodes * self.options.ranks
        victims = [] if self.options.victim == "launcher" else sorted(dice.sample(range(size), self.options.victims))
        for attempt in range(ATTEMPTS):
            moment = moment_of(kind, dice, *self.times_of(setup))
            if self.options.delay is not None:
                moment = Moment("start", self.options.delay)
            what = {"case": number, "seed": self.options.seed, "launcher": launcher, "fabric": fabric,
                    "signal": signal_name, "moment": kind, "operator": setup.operator, "victims": victims or "launcher",
                    "after": moment.after, "delay_s": round(moment.delay, 4), "attempt": attempt}
            record = self.strike(setup, what, victims, moment, self.folder / f"{number}.{attempt}")
            if not record["too_late"] or record["wrong"]:
                break
        return record

    def strike(self, setup, what, victims, moment, folder):
        timeout_s = self.options.timeout_ms / 1000
        memory = verdict.shared_memory()
        run = struck_run.Run(setup, folder, self.options.launches, self.rank_names)
        struck, when = run.strike(victims, SIGNALS[what["signal"]], moment, LONGEST)
        stopped_for_mpirun = struck.values() if setup.launcher == "mpirun" and what["signal"] == "STOP" else ()
        begin = when if struck else time.monotonic()
        bound_s = timeout_s + GRACE if victims else GRACE
        bound_s += MPIRUNS_WAIT if setup.launcher == "mpirun" else 0
        ended_s = run.seconds_to_end(begin, stopped_for_mpirun, timeout_s + GIVE_UP, bound_s + GRACE)
        left, zombies = run.end()
        record = what | {"struck_s": round(when - run.began, 4) if struck else None, "code": run.process.returncode,
                         "ended_s": ended_s, "bound_s": bound_s, "stderr": run.err.read_text(errors="replace")[-4000:],
                         "mpirun_waits": bool(stopped_for_mpirun) and set(left) == {run.launcher, *stopped_for_mpirun}}
        record |= self.left_behind(setup, run, struck, left, zombies, memory)
        record |= self.judged(setup, run, record, victims)
        shutil.rmtree(folder, ignore_errors=True)
        return record

    def left_behind(self, setup, run, struck, left, zombies, memory):
        """By whom: by mpirun, or by us.  The file that ranks meet by has a name: the next World there collects it."""
        files, mpiruns_files = verdict.files_left(run.folder)
        if any(file.startswith("meet/") for file in files):
            self.run_unharmed(setup, run.folder, 1)
            files, mpiruns_files = verdict.files_left(run.folder)
        names, mpiruns_names = verdict.memory_left(memory)
        for name in names + mpiruns_names:
            (Path("/dev/shm") / name).unlink(missing_ok=True)
        stopped = {pid: state for pid, state in left.items() if setup.launcher == "mpirun" and pid in struck.values()}
        ours = [f"{pid} {state}" for pid, state in left.items() if pid not in stopped]
        nobody_waits = setup.launcher == "mpirun" or run.launcher in {*struck.values(), *left}
        return {"left": {"processes": ours, "zombies": 0 if nobody_waits else zombies, "shm": names, "files": files},
                "left_by_mpirun": {"processes": list(stopped.values()), "zombies": zombies if nobody_waits else 0,
                                   "shm": mpiruns_names, "files": mpiruns_files}}

    def judged(self, setup, run, record, victims):
        said = verdict.last_words(record["stderr"], setup.launcher, victims)
        named = verdict.is_victim_named(victims, said, setup.launcher, record["code"])
        too_late = verdict.is_too_late(run, record)
        in_time = record["ended_s"] is not None and record["ended_s"] <= record["bound_s"]
        others = sorted(set().union(*map(verdict.ranks_named, said)) - set(victims))
        judged = {"said": said, "also_named": others, "named": named, "in_time": in_time, "too_late": too_late,
                  "fresh": None}
        if record["case"] % self.options.fresh_every == 0 and not too_late:
            seconds = self.run_unharmed(setup, run.folder, 1)
            judged["fresh"] = seconds if isinstance(seconds, str) else True
        return judged | {"wrong": verdict.wrong(record | judged)}


def words(allowed):
    def read(text):
        found = text.split(",")
        for word in found:
            if word not in allowed:
                raise argparse.ArgumentTypeError(f"'{word}' is none of {', '.join(allowed)}")
        return found
    return read


def parse():
    parser = argparse.ArgumentParser(description="Kill and stop ranks of `mkernel run` at random moments, and judge "
                                     "what happens.", formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--program", required=True, help="mkernel")
    add("--soft-nic", help="libmkernel_soft_nic.so; without it there is no verbs and no efa")
    add("--cases", type=int, default=40, help="how many")
    add("--seed", type=int, default=1, help="of victims and moments")
    add("--case", type=int, help="only the case of this number")
    add("--delay", type=float, help="seconds from the start to the signal, instead of a random moment")
    add("--victim", choices=("rank", "launcher"), default="rank", help="launcher: the one of fork is killed")
    add("--victims", type=int, default=1, help="ranks that are signalled at once; one of them must be named")
    for name, allowed in (("launchers", LAUNCHERS), ("fabrics", FABRICS), ("signals", tuple(SIGNALS)),
                          ("moments", MOMENTS), ("operators", OPERATORS)):
        add(f"--{name}", type=words(allowed), default=list(allowed), metavar="WORDS", help=f"of {','.join(allowed)}")
    for name, number, text in (("nodes", 2, "nodes"), ("ranks", 2, "ranks of each node"), ("launches", 30, "launches"),
                               ("m", 480, "M"), ("n", 192, "N"), ("k", 256, "K"), ("timeout-ms", 2000, "timeout"),
                               ("fresh-every", 10, "of so many cases one is followed by an unharmed run"),
                               ("at-most", 10**9, "seconds after which no case is begun")):
        add(f"--{name}", type=int, default=number, metavar="N", help=text)
    add("--device", choices=("cpu", "cuda"), default="cpu", help="of the ranks; those on a GPU share it")
    add("--json", help="append one JSON object a case to this file")
    add("--doc", help="put the table into this Markdown file, between its two comments")
    options = parser.parse_args()
    if not 1 <= options.victims < options.nodes * options.ranks:
        parser.error(f"--victims is {options.victims}; it must be 1 to {options.nodes * options.ranks - 1}")
    return options


def leave_out_what_is_not_here(options):
    if options.victim == "launcher":
        options.launchers, options.signals = ["fork"], ["KILL"]
    if shutil.which("mpirun") is None and "mpirun" in options.launchers:
        print("kills: there is no mpirun", file=sys.stderr)
        options.launchers.remove("mpirun")
    if options.soft_nic is None:
        options.fabrics = [fabric for fabric in options.fabrics if fabric not in struck_run.RDMA]


def put_into(file, text):
    before, _, rest = Path(file).read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        sys.exit(f"kills: {file} has no {BEGIN.strip()} and {END.strip()}")
    Path(file).write_text(before + BEGIN + text + "\n" + END + after)


def run_cases(kills, options):
    began = told = time.monotonic()
    records = []
    numbers = range(options.cases) if options.case is None else [options.case]
    for number in numbers:
        if time.monotonic() - began > options.at_most:
            break
        records.append(kills.case(number))
        if options.json:
            with open(options.json, "a") as file:
                file.write(json.dumps(records[-1]) + "\n")
        if time.monotonic() - told > 3:
            told = time.monotonic()
            failed = sum(bool(record["wrong"]) for record in records)
            print(f"kills: {len(records)} of {len(numbers)} cases, {failed} failed, {told - began:.0f} s",
                  file=sys.stderr, flush=True)
    return records


def main():
    options = parse()
    leave_out_what_is_not_here(options)
    if not options.launchers or not options.fabrics:
        print("skipped: no launcher or no fabric of those asked for is here")
        return SKIPPED
    struck_run.adopt_orphans()
    if not struck_run.own_shared_memory():
        print("kills: /dev/shm is shared with others, who may leave names in it", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="kills.") as folder:
        records = run_cases(Kills(options, folder), options)
    text = verdict.table(records)
    print(text)
    failed = [record for record in records if record["wrong"]]
    for record in failed:
        kind = " ".join(str(record[name]) for name in ("launcher", "fabric", "signal", "moment", "operator"))
        print(f"\ncase {record['case']} (add --case {record['case']}): {kind}, victims {record['victims']}, "
              f"{record['struck_s']} s after the start: {'; '.join(record['wrong'])}")
    if options.doc:
        put_into(options.doc, text)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
