// SPDX-License-Identifier: MIT
// transport/private_file.h — small files that only this user can read: where ranks leave what others must not know.
//
// A file appears whole or not at all.  A file that others could read or have written is refused.  Failures are an
// Error(kFabric): ranks cannot meet.  Where the file system allows it, a file has no name while it is written, so a
// writer that is killed leaves nothing.  `remove_abandoned_files` removes what a killed writer left elsewhere, and
// files of ranks that are gone.  A writer holds a lock on its file that ends with its process: whoever gets the lock
// knows that the writer is gone.  Locks tell that on one machine only, so a file names the machine on which it was
// written.
#pragma once

#include <optional>
#include <string>

#include "transport/socket.h"

namespace mk {

// A folder for this user alone, made if it is not there.  Throws Error.
void make_private_folder(const std::string& path);

// Takes the place of what was there.  Throws Error.
void write_private_file(const std::string& path, const std::string& text);

// The same, unless there is one already: of several writers one wins.
void write_private_file_once(const std::string& path, const std::string& text);

// As write_private_file, but the file is of use only while this process is: it is abandoned when the Fd is closed.
// Behind `text` comes a line that tells the machine.
Fd leave_private_file(const std::string& path, const std::string& text);

// Nothing if there is none.  Throws Error if it is not this user's, or if others may read or write it.
std::optional<std::string> read_private_file(const std::string& path);

void remove_file(const std::string& path) noexcept;

// In `folder`, what processes of this user and this machine left under names that begin with `prefix`, and what they
// had not finished to write under any, if they are gone.  It looks at some files only, and says nothing if it cannot.
void remove_abandoned_files(const std::string& folder, const std::string& prefix) noexcept;

}  // namespace mk
