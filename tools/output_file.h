// SPDX-License-Identifier: MIT
// tools/output_file.h — the file that --json or --trace names.
#pragma once

#include <optional>
#include <string>

namespace mk::tools {

class OutputFile {
 public:
  enum class Start { kAppend, kEmpty };  // behind what the file holds, or in its place

  // Without a name lines go nowhere.  Opened before anything runs: a name that cannot be written to is a UsageError.
  // A fifo that nobody reads is such a name: to wait for a reader has no end.
  OutputFile(const char* flag, const std::optional<std::string>& name, Start start = Start::kAppend);
  OutputFile(const OutputFile&) = delete;
  ~OutputFile();

  // As it is; `append` adds the end of the line, so that lines of several processes do not mix.  Throw OutputError.
  void write(const std::string& text);
  void append(const std::string& line) { write(line + "\n"); }

  // After the last line: some file systems report a failed write only now.  Throws OutputError.
  void close();

 private:
  [[noreturn]] void fail(int error) const;

  std::string flag_;
  std::string name_;
  int descriptor_ = -1;
};

}  // namespace mk::tools
