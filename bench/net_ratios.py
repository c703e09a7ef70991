#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# bench/net_ratios.py — the fabrics beside the tools that people measure networks with, in turn, several times.
#
#   net_ratios.py tcp PROGRAM          iperf3 over the loopback interface, with as many streams as the fabric has
#                                      connections
#   net_ratios.py verbs PROGRAM        ib_write_bw between the same RDMA devices, as in the soft-RoCE guest
#
# A row has the medians over the rounds.  Each round runs the fabric and the tool once; the row's ratio is the median
# of the rounds' ratios, with the least and the most of them.
import argparse
import json
import re
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

MIB = 1 << 20
STREAMS = 4  # TcpSettings::connections


def said(command, seconds):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=seconds).stdout


def fabric_row(program, net, size, seconds):
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows"
        said([program, "netbench", "--net", net, "--sizes", size, "--seconds", seconds, "--json", rows], 120)
        row = json.loads(rows.read_text().splitlines()[0])
    assert row["wrong_bytes"] == 0, row
    return row


def beside(server, client, seconds):
    """What the client says, with the server started before it."""
    with subprocess.Popen(server, stdout=subprocess.DEVNULL) as listening:
        try:
            time.sleep(2)  # neither tool says when it listens
            return said(client, seconds)
        finally:
            listening.terminate()


def iperf3(size, seconds):
    port = ["-p", "5210"]
    report = beside(["iperf3", "-s", "-1", *port],
                    ["iperf3", "-c", "127.0.0.1", *port, "-P", str(STREAMS), "-t", seconds, "-l", size, "-J"], 120)
    return json.loads(report)["end"]["sum_received"]["bits_per_second"] / 8


def ib_write_bw(devices, address, size, messages):
    common = ["ib_write_bw", "-F", "-s", size, "-n", messages]
    report = beside([*common, "-d", devices[0]], [*common, "-d", devices[1], address], 120)
    average = re.search(r"^\s*\d+\s+\d+\s+[\d.]+\s+([\d.]+)", report, re.MULTILINE)[1]
    return float(average) * MIB


def main():
    parser = argparse.ArgumentParser(description="The fabrics beside iperf3 and ib_write_bw.")
    parser.add_argument("net", choices=["tcp", "verbs"])
    parser.add_argument("program", help="mkernel")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2, help="of each measurement")
    parser.add_argument("--sizes", default="1MiB,4MiB,16MiB",
                        help="of tcp's puts, and of iperf3's writes, which are 1MiB at most")
    parser.add_argument("--devices", default="soft_0,soft_0", help="of its two ends")
    parser.add_argument("--address", default="198.51.100.1", help="of the first device's machine")
    parser.add_argument("--messages", default="100", help="of ib_write_bw")
    options = parser.parse_args()
    sizes = {"1MiB": MIB, "4MiB": 4 * MIB, "16MiB": 16 * MIB}
    for name in options.sizes.split(",") if options.net == "tcp" else ["1MiB"]:
        ours, theirs = [], []
        for _ in range(options.rounds):
            measured = fabric_row(options.program, options.net, name, str(options.seconds))
            ours.append(measured["bytes_per_second"])
            theirs.append(iperf3(str(min(sizes[name], MIB)), str(options.seconds)) if options.net == "tcp" else
                          ib_write_bw(options.devices.split(","), options.address, str(sizes[name]), options.messages))
        ratios = [a / b for a, b in zip(ours, theirs)]
        row = {"fabric": options.net, "bytes": sizes[name], "rounds": options.rounds,
               "beside": "iperf3" if options.net == "tcp" else "ib_write_bw",
               "bytes_per_second": statistics.median(ours), "their_bytes_per_second": statistics.median(theirs),
               "ratio": statistics.median(ratios), "least_ratio": min(ratios), "most_ratio": max(ratios),
               "cores": measured["cores"], "commit": measured["commit"]}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
