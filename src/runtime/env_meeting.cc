// SPDX-License-Identifier: MIT
// runtime/env_meeting.cc — see env_meeting.h.
#include "runtime/env_meeting.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/check.h"
#include "transport/private_file.h"

namespace mk::runtime {
namespace {

using std::chrono::milliseconds;

// Of one World: whoever learns it learns nothing of other Worlds' secrets, nor of what they are all made from.  It
// cannot be better than that: the words of a person can be guessed from any proof that was made with it.
Secret worlds_secret(const std::string& from, const std::string& job, int number) {
  return derive_secret(from, {"mkernel: the secret of a World", job, std::to_string(number)});
}

// Made by whoever needs it first, kept for all jobs of this user.
std::string users_secret(const std::string& folder) {
  check_arg(!folder.empty(), "MKERNEL_SECRET is not set; it must be, as there is no HOME to keep one in");
  make_private_folder(folder);
  const std::string path = folder + "/secret";
  std::optional<std::string> found = read_private_file(path);
  if (!found) {
    write_private_file_once(path, to_hex(random_secret()));
    found = read_private_file(path);
  }
  check_arg(found && found->size() >= 2 * sizeof(Secret), "{} holds no secret; remove it to have a new one", path);
  return *found;
}

std::unique_ptr<Bootstrap> meet_at_address(const LaunchEnv& env, int number, milliseconds timeout) {
  const Secret secret = worlds_secret(env.secret.empty() ? users_secret(env.folder) : env.secret, env.job, number);
  if (env.rank != 0) {
    return std::make_unique<Bootstrap>(UniqueId{secret, {*env.root}}, env.rank, env.size, timeout);
  }
  std::unique_ptr<Rendezvous> rendezvous;
  try {
    rendezvous = std::make_unique<Rendezvous>(env.root->port, secret);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}; MKERNEL_MASTER_PORT may name another", error.what()));
  }
  return std::make_unique<Bootstrap>(std::move(rendezvous), env.size, timeout);
}

constexpr const char* kMeetingFile = "meet.";  // how its name begins

// Gone as soon as all have met, or cannot.  If this process is killed, the next World in the folder removes it.
struct LeftFile {
  std::string path;
  Fd held;
  ~LeftFile() { remove_file(path); }
};

std::string file_of(const LaunchEnv& env, int number) {
  check_arg(!env.folder.empty(),
            "MKERNEL_MEET_DIR is not set; it must name a folder that all ranks share, as there is no HOME");
  check_arg(
      !env.job.empty(),
      "MKERNEL_JOB_ID is not set; {} does not name its job, so it must, the same on all ranks and in no other job",
      env.launcher);
  std::string name = fmt::format("{}{}.{}", kMeetingFile, env.job, number);
  std::ranges::replace_if(
      name, [](unsigned char c) { return !std::isalnum(c) && c != '.' && c != '-'; }, '_');
  return env.folder + "/" + name;
}

std::unique_ptr<Bootstrap> meet_by_file(const LaunchEnv& env, int number, milliseconds timeout) {
  const std::string path = file_of(env, number);
  if (env.rank != 0) {
    const IdSource source{[path]() -> std::optional<UniqueId> {
                            const std::optional<std::string> text = read_private_file(path);
                            if (!text) return std::nullopt;
                            return UniqueId::parse(text->substr(0, text->find('\n')));
                          },
                          fmt::format("{} is not there, which rank 0 writes; do all machines share that folder? "
                                      "MKERNEL_MEET_DIR names another",
                                      path)};
    return std::make_unique<Bootstrap>(source, env.rank, env.size, timeout);
  }
  make_private_folder(env.folder);
  auto rendezvous = std::make_unique<Rendezvous>();
  const LeftFile left{path, leave_private_file(path, rendezvous->id().to_string())};
  return std::make_unique<Bootstrap>(std::move(rendezvous), env.size, timeout);
}

}  // namespace

std::unique_ptr<Bootstrap> meet(const LaunchEnv& env, int number, milliseconds timeout) {
  if (env.rank == 0 && !env.folder.empty()) remove_abandoned_files(env.folder, kMeetingFile);
  return env.root ? meet_at_address(env, number, timeout) : meet_by_file(env, number, timeout);
}

void tell_all_ranks(const LaunchEnv& env, int number, const std::string& why, milliseconds timeout) {
  try {
    meet(env, number, timeout)->star().report(why);
  } catch (const Error&) {
    // Its own error is what this rank throws.
  }
}

}  // namespace mk::runtime
