// SPDX-License-Identifier: MIT
// tools/standard_streams.cc — see standard_streams.h.
#include "standard_streams.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace mk::tools {

void secure_standard_streams() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest number that is free is this one.  Without /dev/null nothing is safe to open.
    if (open("/dev/null", O_RDWR) != descriptor) std::_Exit(EXIT_FAILURE);
  }
  signal(SIGPIPE, SIG_IGN);
}

int write_all(int descriptor, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return errno;
    // Whoever shares the other end has made it non-blocking.  As long as a blocking write would.
    pollfd ready{descriptor, POLLOUT, 0};
    if (poll(&ready, 1, -1) < 0 && errno != EINTR) return errno;
  }
  return 0;
}

void print_text(std::string_view text) {
  if (const int error = write_all(STDOUT_FILENO, text); error != 0) {
    throw OutputError(fmt::format("cannot write to stdout: {}", std::strerror(error)));
  }
}

void check_stdout_at_end() {
  // Closing a copy flushes as closing the descriptor does, and leaves its number taken.
  const int copy = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
  if (copy < 0 || close(copy) == 0) return;  // without a free number there is nothing to learn
  if (errno != EINTR) throw OutputError(fmt::format("cannot write to stdout: {}", std::strerror(errno)));
}

void warn_text(std::string_view line) noexcept {
  try {
    std::string text(line);
    const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
    std::replace_if(text.begin(), text.end(), is_control, ' ');
    text += '\n';
    write_all(STDERR_FILENO, text);
  } catch (...) {
    write_all(STDERR_FILENO, "mkernel: out of memory\n");
  }
}

}  // namespace mk::tools
