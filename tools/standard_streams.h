// SPDX-License-Identifier: MIT
// tools/standard_streams.h — what the program prints: results on stdout, complaints on stderr.
//
// A result that cannot be written is an error of the program.  A complaint that cannot be written is not: it never
// throws and never changes the exit code.  Both go to their descriptors at once, nothing is buffered, so processes that
// are forked have nothing to write out again.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace mk::tools {

// Stdout or the file of a flag could not be written.  The exit code is kExitFailed.
class OutputError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The first call of main(), before anything opens a file.  Those of the descriptors 0 to 2 that are closed become
// /dev/null: otherwise the next file that is opened gets the number and receives what is printed.  SIGPIPE is ignored:
// a reader that is gone makes a write fail.  What then happens is what coreutils do where SIGPIPE is ignored: a line
// on stderr and exit code 1.  Only the program calls this; a library leaves signals alone.
void secure_standard_streams();

// Writes all of `text` to the descriptor.  Returns 0 or the errno.
int write_all(int descriptor, std::string_view text) noexcept;

// To stdout, as it is.  Throws OutputError.
void print_text(std::string_view text);

template <class... Args>
void print_line(fmt::format_string<Args...> format, Args&&... args) {
  print_text(fmt::format(format, std::forward<Args>(args)...) + "\n");
}

// At the end of the program: some file systems report a failed write only when a file is closed.  Throws OutputError.
void check_stdout_at_end();

// A line on stderr.  Control characters become spaces, so that it is one line whatever a flag held.
void warn_text(std::string_view line) noexcept;

template <class... Args>
void warn_line(fmt::format_string<Args...> format, Args&&... args) noexcept {
  try {
    warn_text(fmt::format(format, std::forward<Args>(args)...));
  } catch (...) {
    warn_text("mkernel: out of memory");
  }
}

}  // namespace mk::tools
