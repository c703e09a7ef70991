// SPDX-License-Identifier: MIT
// transport/private_file.h — small files that only this user reads: where ranks leave what others must not know.
//
// A file appears whole or not at all.  What others could read or have written is refused, not used.  What goes wrong is
// an Error(kFabric): ranks cannot meet.
#pragma once

#include <optional>
#include <string>

namespace mk {

// A folder for this user alone, made if it is not there.  Throws Error.
void make_private_folder(const std::string& path);

// Takes the place of what was there.  Throws Error.
void write_private_file(const std::string& path, const std::string& text);

// The same, unless there is one already: of several writers one wins.
void write_private_file_once(const std::string& path, const std::string& text);

// Nothing if there is none.  Throws Error if it is not this user's, or if others may read or write it.
std::optional<std::string> read_private_file(const std::string& path);

void remove_file(const std::string& path) noexcept;

}  // namespace mk
