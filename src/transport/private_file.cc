// SPDX-License-Identifier: MIT
// transport/private_file.cc — see private_file.h.
#include "transport/private_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "mkernel/error.h"
#include "transport/secret.h"

namespace mk {
namespace {

constexpr size_t kMostBytes = 64 << 10;
constexpr const char* kUnfinished = ".unfinished.";  // in the names of files that are being written

[[noreturn]] void fail(const char* what, const std::string& path) {
  throw Error(ErrorCode::kFabric, fmt::format("{} {}: {}", path, what, std::strerror(errno)));
}

// This machine, since it was started; empty if it cannot be told.
std::string machine_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

std::string last_line_of_left(const std::string& id) { return "\nleft on " + id; }

bool try_lock(const Fd& file) { return flock(file.number(), LOCK_EX | LOCK_NB) == 0; }

// Whether the path leads to the file.
bool is_at(const std::string& path, const Fd& file) {
  struct stat here {
  }, there{};
  return fstat(file.number(), &here) == 0 && lstat(path.c_str(), &there) == 0 && here.st_ino == there.st_ino &&
         here.st_dev == there.st_dev;
}

// A file of this user alone; none if there is none.  Throws Error if it is anything else.
Fd open_private(const std::string& path, int access) {
  Fd file(open(path.c_str(), access | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!file && errno == ENOENT) return file;
  if (!file) fail("cannot be read", path);
  struct stat found {};
  if (fstat(file.number(), &found) != 0) fail("cannot be read", path);
  if (!S_ISREG(found.st_mode)) throw Error(ErrorCode::kFabric, fmt::format("{} is not a file", path));
  if (found.st_uid != geteuid() || (found.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    throw Error(
        ErrorCode::kFabric,
        fmt::format("{} is of user {} and mode {:o}; it must be of user {} and mode 600, for nobody else to read", path,
                    found.st_uid, found.st_mode & 07777, geteuid()));
  }
  return file;
}

std::string text_of(const Fd& file, const std::string& path) {
  std::string text(kMostBytes, '\0');
  const ssize_t got = read(file.number(), text.data(), text.size());
  if (got < 0) fail("cannot be read", path);
  text.resize(static_cast<size_t>(got));
  return text;
}

// A whole file that is not at its path yet: without a name, or beside it where the file system has no such files.
class Draft {
 public:
  Draft(const std::string& path, const std::string& text) : path_(path) {
    const std::string folder = std::filesystem::path(path).parent_path().string();
    file_ = Fd(open(folder.empty() ? "." : folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR));
    if (file_) {
      try_lock(file_);
    } else {
      open_beside();
    }
    if (!file_) fail("cannot be written", path);
    if (write(file_.number(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
        fsync(file_.number()) != 0) {
      const int error = errno;
      remove_beside();
      errno = error;
      fail("cannot be written", path);
    }
  }
  Draft(const Draft&) = delete;
  ~Draft() { remove_beside(); }

  // False, and errno, if it is not there now.
  bool put_in_place() const {
    if (!beside_.empty()) return link(beside_.c_str(), path_.c_str()) == 0;
    const std::string self = fmt::format("/proc/self/fd/{}", file_.number());
    return linkat(AT_FDCWD, self.c_str(), AT_FDCWD, path_.c_str(), AT_SYMLINK_FOLLOW) == 0;
  }

  Fd take_file() { return std::move(file_); }

 private:
  // Until it is locked it looks abandoned, and may be removed.
  void open_beside() {
    constexpr int kTries = 100;
    for (int i = 0; i < kTries; ++i) {
      beside_ = path_ + kUnfinished + machine_id() + "." + to_hex(random_secret());
      file_ = Fd(open(beside_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
      if (!file_) return;
      const bool is_removed = !try_lock(file_) && errno == EWOULDBLOCK;
      if (!is_removed && is_at(beside_, file_)) return;
    }
    file_ = Fd();
  }

  void remove_beside() noexcept {
    if (!beside_.empty()) remove_file(beside_);
  }

  std::string path_;
  std::string beside_;
  Fd file_;
};

// What is at `path`, with its lock if that can be had soon: who removes it as abandoned has that lock for a moment, and
// must not take away what comes in its place.  A writer that lives keeps its lock, and loses its place anyway.
Fd hold(const std::string& path) {
  constexpr int kMostMilliseconds = 20;
  Fd file(open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  for (int i = 0; file && i < kMostMilliseconds && !try_lock(file); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  return file;
}

Fd replace(const std::string& path, const std::string& text) {
  constexpr int kTries = 100;  // more than there are writers at one time
  Draft draft(path, text);
  for (int i = 0; i < kTries; ++i) {
    if (draft.put_in_place()) return draft.take_file();
    if (errno != EEXIST) break;
    const Fd old = hold(path);
    if (!old || is_at(path, old)) remove_file(path);
    errno = EEXIST;
  }
  fail("cannot be written", path);
}

// Removes it if its writer is gone.  Throws Error if it is none of ours.
void remove_if_abandoned(const std::string& path, const std::string& id) {
  const Fd file = open_private(path, O_RDWR);
  if (!file) return;
  const bool is_unfinished = path.find(kUnfinished + id) != std::string::npos;
  if (!is_unfinished && !text_of(file, path).ends_with(last_line_of_left(id))) return;
  if (try_lock(file) && is_at(path, file)) remove_file(path);
}

}  // namespace

void make_private_folder(const std::string& path) {
  if (mkdir(path.c_str(), S_IRWXU) != 0 && errno != EEXIST) fail("cannot be made", path);
}

void write_private_file(const std::string& path, const std::string& text) { replace(path, text); }

void write_private_file_once(const std::string& path, const std::string& text) {
  const Draft draft(path, text);
  if (!draft.put_in_place() && errno != EEXIST) fail("cannot be written", path);
}

Fd leave_private_file(const std::string& path, const std::string& text) {
  const std::string id = machine_id();
  return replace(path, id.empty() ? text : text + last_line_of_left(id));
}

std::optional<std::string> read_private_file(const std::string& path) {
  const Fd file = open_private(path, O_RDONLY);
  if (!file) return std::nullopt;
  return text_of(file, path);
}

void remove_file(const std::string& path) noexcept { unlink(path.c_str()); }

void remove_abandoned_files(const std::string& folder, const std::string& prefix) noexcept {
  constexpr int kMostNames = 4096, kMostFiles = 64;  // a folder may be large, and slow
  try {
    const std::string id = machine_id();
    if (id.empty()) return;
    int num_names = 0, num_files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (++num_names > kMostNames || num_files >= kMostFiles) return;
      if (!name.starts_with(prefix) && name.find(kUnfinished + id) == std::string::npos) continue;
      ++num_files;
      try {
        remove_if_abandoned(entry.path().string(), id);
      } catch (const Error&) {
      }
    }
  } catch (const std::exception&) {
  }
}

}  // namespace mk
