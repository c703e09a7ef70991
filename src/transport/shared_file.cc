// SPDX-License-Identifier: MIT
// transport/shared_file.cc — see shared_file.h.
#include "transport/shared_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <optional>

#include "mkernel/error.h"
#include "transport/secret.h"

namespace mk {
namespace {

constexpr char kBeforeLabel = ':';

std::optional<std::string> link_at(const std::string& path) {
  char target[PATH_MAX];
  const ssize_t bytes = readlink(path.c_str(), target, sizeof(target));
  return bytes < 0 ? std::nullopt : std::optional(std::string(target, static_cast<size_t>(bytes)));
}

// As /proc shows a memory file.
std::string shown_as(const std::string& label) { return fmt::format("/memfd:{} (deleted)", label); }

}  // namespace

SharedFile SharedFile::make() {
  const std::string label = "mkernel." + to_hex(random_secret());
  Fd file(memfd_create(label.c_str(), MFD_CLOEXEC));
  if (!file) throw Error(ErrorCode::kDevice, fmt::format("cannot make a memory file: {}", std::strerror(errno)));
  // The process id as /proc counts, which may be mounted from outside this process's namespace.
  const std::optional<std::string> self = link_at("/proc/self");
  if (!self) {
    throw Error(ErrorCode::kDevice, fmt::format("cannot share a memory file: /proc/self: {}; ranks of a node open each "
                                                "other's memory through /proc, so it must be mounted",
                                                std::strerror(errno)));
  }
  std::string handle = fmt::format("/proc/{}/fd/{}{}{}", *self, file.number(), kBeforeLabel, label);
  return {std::move(file), std::move(handle)};
}

Fd SharedFile::open(const std::string& handle) {
  const std::string path = handle.substr(0, handle.find(kBeforeLabel));
  if (path.size() == handle.size()) {
    throw Error(ErrorCode::kDevice, fmt::format("cannot open a peer's memory: '{}' is not a handle of one", handle));
  }
  Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) {
    throw Error(
        ErrorCode::kDevice,
        fmt::format("cannot open a peer's memory at {}: {}; its process must be alive, on this machine, of this "
                    "user and not set-uid, and share the PID namespace (containers: --pid=host)",
                    path, std::strerror(errno)));
  }
  const std::optional<std::string> found = link_at(fmt::format("/proc/self/fd/{}", file.number()));
  const std::string label = handle.substr(path.size() + 1);
  if (found != shown_as(label)) {
    throw Error(
        ErrorCode::kDevice,
        fmt::format("cannot open a peer's memory at {}: {} is there, not {}; the process that made it has closed "
                    "it or ended, or is on another machine or in another PID namespace (containers: --pid=host)",
                    path, found.value_or("nothing known"), label));
  }
  return file;
}

}  // namespace mk
