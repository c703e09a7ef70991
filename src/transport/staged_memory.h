// SPDX-License-Identifier: MIT
// transport/staged_memory.h — host memory that a Mover copies to and from: pinned as long as it lives.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "transport/mover.h"
#include "transport/shared_memory.h"

namespace mk {

enum class MappedBy {
  kOwner,
  kPeers,  // as well, by its handle
};

class StagedMemory {
 public:
  // Zeroed.  `mover` outlives it.  Throws Error.
  StagedMemory(size_t bytes, MappedBy mapped_by, Mover& mover);
  StagedMemory(const StagedMemory&) = delete;
  ~StagedMemory();

  std::byte* data() const { return data_; }

  // Empty if only the owner maps it.
  std::string handle() const { return shared_ ? shared_->handle() : std::string(); }

  // Nobody can map it any more.
  void hide();

 private:
  void release() noexcept;

  Mover& mover_;
  size_t bytes_;
  std::optional<SharedMemory> shared_;
  std::byte* data_ = nullptr;
};

}  // namespace mk
