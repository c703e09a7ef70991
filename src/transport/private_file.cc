// SPDX-License-Identifier: MIT
// transport/private_file.cc — see private_file.h.
#include "transport/private_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "mkernel/error.h"
#include "transport/secret.h"
#include "transport/socket.h"

namespace mk {
namespace {

constexpr size_t kMostBytes = 64 << 10;

[[noreturn]] void fail(const char* what, const std::string& path) {
  throw Error(ErrorCode::kFabric, fmt::format("{} {}: {}", path, what, std::strerror(errno)));
}

// A file beside `path` with the text, under a name of its own.
std::string write_beside(const std::string& path, const std::string& text) {
  const std::string beside = path + "." + to_hex(random_secret());
  const Fd file(open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file) fail("cannot be written", path);
  if (write(file.number(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      fsync(file.number()) != 0) {
    const int error = errno;
    remove_file(beside);
    errno = error;
    fail("cannot be written", path);
  }
  return beside;
}

}  // namespace

void make_private_folder(const std::string& path) {
  if (mkdir(path.c_str(), S_IRWXU) != 0 && errno != EEXIST) fail("cannot be made", path);
}

void write_private_file(const std::string& path, const std::string& text) {
  const std::string beside = write_beside(path, text);
  if (rename(beside.c_str(), path.c_str()) == 0) return;
  const int error = errno;
  remove_file(beside);
  errno = error;
  fail("cannot be written", path);
}

void write_private_file_once(const std::string& path, const std::string& text) {
  const std::string beside = write_beside(path, text);
  const bool fails = link(beside.c_str(), path.c_str()) != 0 && errno != EEXIST;
  const int error = errno;
  remove_file(beside);
  errno = error;
  if (fails) fail("cannot be written", path);
}

std::optional<std::string> read_private_file(const std::string& path) {
  const Fd file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!file && errno == ENOENT) return std::nullopt;
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
  std::string text(kMostBytes, '\0');
  const ssize_t got = read(file.number(), text.data(), text.size());
  if (got < 0) fail("cannot be read", path);
  text.resize(static_cast<size_t>(got));
  return text;
}

void remove_file(const std::string& path) noexcept { unlink(path.c_str()); }

}  // namespace mk
