// SPDX-License-Identifier: MIT
// tests/support/soft_nic/soft_settings.h — what the variable MKERNEL_SOFT_NIC asks of the software NIC.
//
// It is read when a device is opened, and holds words with a number each, such as "seed=7 down_after=100".
#pragma once

#include <cstdint>

namespace mk::test::soft {

constexpr const char* kVariable = "MKERNEL_SOFT_NIC";

struct Settings {
  // 0: everything in order and at once.  Else what may be reordered or delayed is, as the seed says.
  uint64_t seed = 0;

  // Packets that a device sends before its link goes down; 0: it never does.
  uint64_t down_after = 0;

  // Receives that a device loses, so that who sends to it finds no room; 0: none.
  uint64_t lose_receives = 0;

  // Not 0: memory of a device (tests/support/device_memory.h) cannot be registered by its DMA-BUF; can be registered by
  // its address, as with the kernel's module peermem.
  uint64_t no_dmabuf = 0;
  uint64_t peermem = 0;

  // Not 0: a device says that its longest message has 0 bytes.
  uint64_t no_messages = 0;

  // The most messages that a queue pair holds; 0: thousands.
  uint64_t queue = 0;
};

Settings settings_from_env();

}  // namespace mk::test::soft
