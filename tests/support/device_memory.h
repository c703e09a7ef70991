// SPDX-License-Identifier: MIT
// tests/support/device_memory.h — memory that plays a GPU's: NICs need a way to register it, and what they write shows
// late.
//
// A GPU may read old bytes after a NIC's completion, until it is told to settle.  This memory always shows old bytes
// until then, so a fabric that signals such bytes too early is found.  Tests add memory and settle it; software NICs
// look it up and write to it.  There is one list of such memory per process, which is why it is a library of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mk::test {

// `bytes` at `address` are a device's until they are removed.  `real`: where they are, as a module of the kernel that
// serves NICs (peermem) would know; addresses without memory have it elsewhere.
void add_device_memory(const std::byte* address, uint64_t bytes, std::byte* real);
void remove_device_memory(const std::byte* address);

// All that NICs have written to the memory added at `address` is there.
void settle_device_memory(const std::byte* address);

// Where that range really is, or null if it is not all in one device's memory.
std::byte* find_device_memory(uint64_t address, uint64_t bytes);

// Whether any of it is a device's.
bool touches_device_memory(uint64_t address, uint64_t bytes);

// Leaves bytes for `address`, to be copied to `to` when that is settled.  Not a device's: copies at once.
void write_device_memory(uint64_t address, std::byte* to, std::vector<std::byte> bytes);

// Forgets what was left for these places: they are no longer mapped.
void drop_device_writes(const std::byte* to, uint64_t bytes);

}  // namespace mk::test
