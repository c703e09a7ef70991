// SPDX-License-Identifier: MIT
// transport/shared_file.h — a file in memory that has no name in any folder, and how other processes open it.
//
// The handle says which descriptor of which process it is, and a random label that proves it: a process id or a
// descriptor that was used again, or that of another machine, is found out.  Others open it through /proc, so they must
// be of the same user and see the maker's process id.  The file is openable until the maker forgets it.  The kernel
// frees it with its last descriptor and mapping, so a process that is killed leaves nothing behind.
#pragma once

#include <string>

#include "transport/socket.h"

namespace mk {

class SharedFile {
 public:
  static SharedFile make();  // empty; throws Error(kDevice)

  // Throws Error(kDevice) if it cannot be opened or is another file than that of the handle.
  static Fd open(const std::string& handle);

  const std::string& handle() const { return handle_; }  // without white space
  const Fd& file() const { return file_; }               // none once it is forgotten

  // No process can open it by its handle any more.  In a child that was forked this closes only the child's own.
  void forget() noexcept { const Fd closed = std::move(file_); }

 private:
  SharedFile(Fd file, std::string handle) : file_(std::move(file)), handle_(std::move(handle)) {}

  Fd file_;
  std::string handle_;
};

}  // namespace mk
