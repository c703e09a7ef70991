// SPDX-License-Identifier: MIT
// tools/netbench_command.cc — `mkernel netbench`: rank 0 measures and prints here, rank 1 is a process or a thread.
#include <algorithm>
#include <exception>
#include <thread>

#include "bench/plain_streams.h"
#include "commands.h"
#include "launcher.h"
#include "mkernel/options.h"
#include "netbench_report.h"
#include "output_file.h"
#include "runtime/device.h"
#include "standard_streams.h"
#include "transport/fabric_kinds.h"
#include "transport/start_thread.h"
#include "usage.h"

namespace mk::tools {
namespace {

using bench::NetMemory;
using bench::NetRank;

class Output {
 public:
  explicit Output(const std::optional<std::string>& file) : json_("--json", file) {}

  void print(const std::string& text) const { print_text(text); }
  void print(const std::string& text, const std::string& json) {
    print_text(text);
    json_.append(json);
  }
  void close() { json_.close(); }

 private:
  OutputFile json_;
};

// One fabric between two ranks.
class Duel {
 public:
  Duel(const FabricKind& kind, const NetbenchRequest& request, Output& output)
      : kind_(kind), request_(request), output_(output), memory_(half_bytes(request)) {}

  // Returns the exit code.  Throws Error.
  int run() {
    if (!kind_.between_processes) return run_threads();
    RunRequest two_processes;
    two_processes.launcher = Launcher::kFork;
    two_processes.nodes = bench::kNetRanks;
    two_processes.ranks = 1;
    return with_launcher(two_processes, 0, [this](const Seat& seat) {
      WindowRegistry registry;
      const NetMemory::Windows windows = memory_.add_own(registry, seat.rank);
      return measure(seat.rank, registry, windows);
    });
  }

 private:
  static uint64_t half_bytes(const NetbenchRequest& request) {
    uint64_t most = 0;
    for (const uint64_t size : request.sizes) most = std::max(most, bench::window_bytes(size));
    return most;
  }

  int run_threads() {
    WindowRegistry registry;
    const NetMemory::Windows windows = memory_.add_all(registry);
    std::exception_ptr trouble;
    std::thread other = start_thread("the other end of netbench", [&] {
      try {
        measure(1, registry, windows);
      } catch (...) {
        trouble = std::current_exception();
      }
    });
    int code = kExitFailed;
    try {
      code = measure(0, registry, windows);
    } catch (...) {
      other.join();
      throw;
    }
    other.join();
    if (trouble != nullptr) std::rethrow_exception(trouble);
    return code;
  }

  std::unique_ptr<Bootstrap> meet(int rank) {
    if (rank != 0) return std::make_unique<Bootstrap>(id_, rank, bench::kNetRanks, bench::kNetDeadline);
    return std::make_unique<Bootstrap>(std::move(rendezvous_), bench::kNetRanks, bench::kNetDeadline);
  }

  // Sockets beside the fabric, as many as it has itself.
  bench::NetBaseline baseline() const {
    if (kind_.name != "tcp") return {};
    return [](NetRank& rank, double seconds) { return bench::plain_streams(rank, TcpSettings{}.connections, seconds); };
  }

  int measure(int rank, const WindowRegistry& registry, const NetMemory::Windows& windows) {
    NetRank end(kind_.name, meet(rank), memory_, registry, windows, Options::from_env());
    uint64_t wrong = 0;
    for (const uint64_t size : request_.sizes) {
      const bench::PutFigures figures = bench::measure_puts(end, size, request_.seconds, baseline());
      wrong += figures.wrong_bytes;
      if (rank != 0) continue;
      output_.print(puts_row(kind_.name, figures),
                    to_json(kind_.name, kind_.between_processes ? "processes" : "threads", figures));
    }
    end.part();
    return wrong == 0 ? kExitCorrect : kExitFailed;
  }

  const FabricKind& kind_;
  const NetbenchRequest& request_;
  Output& output_;
  NetMemory memory_;
  std::unique_ptr<Rendezvous> rendezvous_ = std::make_unique<Rendezvous>();
  UniqueId id_ = rendezvous_->id();
};

// With the fabric's name before what is said.
int duel(const FabricKind& kind, const NetbenchRequest& request, Output& output) {
  try {
    return Duel(kind, request, output).run();
  } catch (const Error& error) {
    warn_line("mkernel: {}: {}", kind.name, error.what());
    return kExitFailed;
  }
}

// Of a GPU, if there is one that can be used.
int round_trips(const NetbenchRequest& request, Output& output) {
  std::string missing = runtime::why_no_cuda();
  int code = kExitCorrect;
  if (missing.empty()) {
    try {
      const bench::RoundTripFigures figures = bench::measure_round_trips(request.seconds);
      output.print(round_trips_row(figures), to_json(figures));
      return code;
    } catch (const Error& error) {
      missing = error.what();
      if (error.code() != ErrorCode::kUnavailable) code = kExitFailed;
    }
  }
  output.print(no_round_trips_row(missing), no_round_trips_json(missing));
  return code;
}

}  // namespace

int netbench_command(const NetbenchRequest& request) {
  Output output(request.json);
  int code = kExitCorrect;
  const bool is_all = request.net == "all";
  if (!is_all) {
    const std::string missing = fabric_kind(request.net).why_not();
    check_usage(missing.empty(), "--net is {}, which cannot be used here: {}", request.net, missing);
  }
  output.print(puts_header());
  for (const FabricKind& kind : fabric_kinds()) {
    if (!is_all && kind.name != request.net) continue;
    if (const std::string missing = kind.why_not(); !missing.empty()) {
      output.print(unusable_row(kind.name, missing), unusable_json(kind.name, missing));
    } else {
      code = std::max(code, duel(kind, request, output));
    }
  }
  output.print("\n" + commands_header());
  for (const int producers : {1, 4}) {
    const bench::CommandFigures figures = bench::measure_commands(producers, request.seconds);
    output.print(commands_row(figures), to_json(figures));
  }
  output.print("\n" + round_trips_header());
  code = std::max(code, round_trips(request, output));
  output.close();
  return code;
}

}  // namespace mk::tools
