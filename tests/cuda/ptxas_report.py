# SPDX-License-Identifier: MIT
# tests/cuda/ptxas_report.py — reads what `ptxas -v` says of each function.
import re
from dataclasses import dataclass

ENTRY = re.compile(r"Compiling entry function '([^']+)'")
PROPERTIES = re.compile(r"Function properties for (\S+)\s*\n\s*"
                        r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
SERIALIZED = re.compile(r"wgmma\.mma_async instructions are serialized.*")


@dataclass(frozen=True)
class Function:
    name: str
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int

    def is_clean(self):
        return self.stack_bytes == self.spill_store_bytes == self.spill_load_bytes == 0


def kernels(report):
    """The names of all kernels that were compiled."""
    return ENTRY.findall(report)


def functions(report):
    """Kernels and whatever was not inlined into them."""
    return [Function(name, *map(int, sizes)) for name, *sizes in PROPERTIES.findall(report)]


def complaints(report):
    """What keeps the kernels of a report from being shipped; empty if nothing does."""
    found = []
    if not kernels(report):
        found.append("no kernel was compiled")
    described = {function.name: function for function in functions(report)}
    found += [f"nothing is said of kernel {name}" for name in kernels(report) if name not in described]
    found += [f"{f.name}: {f.stack_bytes} bytes of stack, {f.spill_store_bytes} of spill stores, "
              f"{f.spill_load_bytes} of spill loads" for f in described.values() if not f.is_clean()]
    found += SERIALIZED.findall(report)
    return found
