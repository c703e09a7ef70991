# SPDX-License-Identifier: MIT
# tests/reliability/verdict.py — how a run whose rank was killed or stopped is judged; the table of all verdicts.
import re
from pathlib import Path

MPIRUNS_FILES = ("ompi.", "pmix", "prte", "openmpi", ".cache")  # the last is of an OpenCL that its hwloc looks for
MPIRUNS_MEMORY = ("vader_segment.", "ompi", "pmix", "sem.")
MPIRUN_KILLED = 128 + 9  # its exit code where the first rank that ended was killed
KEPT = "secret"  # of the user, for all jobs
REPORTER = re.compile(r"^mkernel: (?:rank (\d+): )?")
RANKS = re.compile(r"\branks? (\d+(?:(?:,| and|, and)? \d+)*)\b")
MPIRUN_SAYS = re.compile(r"process rank \d+ .*on signal")


def ranks_named(line):
    """Ranks that a line is about; not the one that prints it."""
    about = REPORTER.sub("", line)
    return {int(number) for ranks in RANKS.findall(about) for number in re.findall(r"\d+", ranks)}


def reporter(line):
    """The rank that prints a line: rank 0 where none is given."""
    return int(REPORTER.match(line)[1] or 0)


def last_words(stderr, launcher, victims):
    """The lines that may name the victim.  mpirun lets a stopped rank continue before ending it, so the victim may
    have the last word; it does not count."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    if launcher == "fork":
        return lines[-1:]
    ours = [line for line in lines if line.startswith("mkernel: ") and reporter(line) not in victims]
    return ours[-1:] + [line for line in lines if MPIRUN_SAYS.search(line)]


def is_victim_named(victims, said, launcher, code):
    """None where nobody has to: the launcher is the victim, or mpirun saw the end of a rank so early that it ended the
    others before they could speak, and says nothing itself."""
    if not victims or (launcher == "mpirun" and not said and code == MPIRUN_KILLED):
        return None
    return any(ranks_named(line) & set(victims) for line in said)


def shared_memory():
    return {entry.name for entry in Path("/dev/shm").iterdir()}


def files_left(folder):
    """(ours, mpirun's): files below the folders that a run may write to."""
    files = [str(file.relative_to(folder)) for name in ("home", "tmp", "meet") for file in (folder / name).rglob("*")
             if not file.is_dir() and file.name != KEPT]
    return split(files, lambda file: Path(file).parts[1].startswith(MPIRUNS_FILES))


def memory_left(before):
    return split(sorted(shared_memory() - before), lambda name: name.startswith(MPIRUNS_MEMORY))


def split(names, is_mpiruns):
    return [name for name in names if not is_mpiruns(name)], [name for name in names if is_mpiruns(name)]


def is_too_late(run, record):
    """The ranks had done their work before the signal: all is well, and nobody says otherwise.  mpirun waits for a rank
    that was stopped then, and mKernel cannot help it."""
    is_well = record["code"] == 0 or record["mpirun_waits"]
    return is_well and run.has_row() and "mkernel:" not in record["stderr"]


def wrong(record):
    """What is wrong with a case, in words; nothing if all is well."""
    left = [f"left behind {kind}: {names}" for kind, names in record["left"].items() if names]
    if record["too_late"]:
        return [] if record["mpirun_waits"] else left
    if record["struck_s"] is None:
        return [f"unharmed, exit code {record['code']}: {record['stderr']}"]
    found = []
    if not record["in_time"]:
        took = "not ended" if record["ended_s"] is None else f"ended after {record['ended_s']:.2f} s"
        found.append(f"{took}; at most {record['bound_s']:.1f} s are allowed")
    if record["code"] == 0:
        found.append("exit code 0")
    if record["named"] is False:
        found.append(f"{record['victims']} not named in {record['said']}")
    if record["fresh"] not in (None, True):
        found.append(f"a run in the same folder fails: {record['fresh']}")
    return found + left


HEAD = ("launcher", "fabric", "signal", "moment", "cases", "too late", "in time", "slowest (s after the signal)",
        "named right", "left behind")


def table(records):
    """In Markdown: a row for each launcher, fabric, signal and moment, then their sum."""
    groups = {}
    for record in records:
        key = tuple(record[name] for name in ("launcher", "fabric", "signal", "moment"))
        groups.setdefault(key, []).append(record)
    rows = [HEAD, tuple("---" for _ in HEAD)]
    rows += [(*key, *counts(group)) for key, group in sorted(groups.items())]
    if records:
        rows.append(("all", "", "", "", *counts(records)))
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


def counts(records):
    struck = [record for record in records if not record["too_late"]]
    times = [record["ended_s"] for record in struck]
    slowest = "-" if not times else "never" if None in times else f"{max(times):.2f}"
    to_name = [record["named"] for record in struck if record["named"] is not None]
    return (len(records), len(records) - len(struck), sum(r["in_time"] for r in struck), slowest,
            f"{sum(to_name)} of {len(to_name)}", sum(any(r["left"].values()) for r in struck))
