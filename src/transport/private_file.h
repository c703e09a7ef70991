// SPDX-License-Identifier: MIT
// transport/private_file.h — small files that only this user reads: where ranks leave what others must not know.
//
// A file appears whole or not at all.  What others could read or have written is refused, not used.  What goes wrong is
// an Error(kFabric): ranks cannot meet.  A file is written without a name where the file system can, so a writer that
// is killed leaves nothing; what one leaves elsewhere, or left for others on purpose, `remove_abandoned_files` takes
// away.  A writer holds a lock on its file, which goes with the process: who can have it knows that the writer is gone.
// That is sure on one machine only, so files tell on which they were written.
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
