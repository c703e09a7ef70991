// SPDX-License-Identifier: MIT
// tools/output_file.cc — see output_file.h.
#include "output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "standard_streams.h"
#include "usage.h"

namespace mk::tools {

OutputFile::OutputFile(const char* flag, const std::optional<std::string>& name, Start start) : flag_(flag) {
  if (!name) return;
  name_ = *name;
  check_usage(name_ != "-", "{} is '-'; it must be a file", flag_);
  const int behaviour = O_WRONLY | O_CREAT | O_CLOEXEC | (start == Start::kAppend ? O_APPEND : O_TRUNC);
  // Not blocking while it is opened: a fifo without a reader fails then, and is the only thing that gives ENXIO.
  descriptor_ = open(name_.c_str(), behaviour | O_NONBLOCK, 0666);
  check_usage(descriptor_ >= 0, "{} is '{}', which cannot be written: {}", flag_, name_,
              errno == ENXIO ? "it is a fifo or a device that nobody reads" : std::strerror(errno));
  fcntl(descriptor_, F_SETFL, fcntl(descriptor_, F_GETFL) & ~O_NONBLOCK);
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void OutputFile::write(const std::string& text) {
  if (descriptor_ < 0) return;
  if (const int error = write_all(descriptor_, text); error != 0) fail(error);
}

void OutputFile::close() {
  if (descriptor_ < 0) return;
  const int closed = ::close(descriptor_);
  descriptor_ = -1;
  if (closed != 0 && errno != EINTR) fail(errno);
}

void OutputFile::fail(int error) const {
  throw OutputError(fmt::format("cannot write {} '{}': {}", flag_, name_, std::strerror(error)));
}

}  // namespace mk::tools
