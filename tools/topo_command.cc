// SPDX-License-Identifier: MIT
// tools/topo_command.cc — `mkernel topo`: what the node is made of, and which NIC serves which GPU.
#include <filesystem>

#include "commands.h"
#include "input_file.h"
#include "mkernel/error.h"
#include "mkernel/options.h"
#include "output_file.h"
#include "standard_streams.h"
#include "topo_report.h"
#include "transport/discovery.h"
#include "usage.h"

namespace mk::tools {
namespace {

// So that a name that was mistyped is not taken for a machine without NICs: a copy of /sys has a folder class.
void check_sources(const TopoRequest& request) {
  constexpr int64_t kMostBytes = 64 << 20;
  if (request.xml) check_input_file("--xml", *request.xml, kMostBytes, "a file made with lstopo FILE.xml");
  if (!request.sysfs) return;
  std::error_code error;
  check_usage(std::filesystem::is_directory(std::filesystem::path(*request.sysfs) / "class", error),
              "--sysfs is '{}', which is no copy of /sys: it has no folder class", *request.sysfs);
}

// What the library says about an argument is about a flag or a variable here.
Placement look(const TopoRequest& request, const std::string& nics) {
  try {
    const std::string sysfs = request.sysfs.value_or(request.xml ? "" : "/sys");
    return place(discover_topology({.xml = request.xml.value_or(""), .sysfs = sysfs}), nics);
  } catch (const Error& error) {
    const std::string message = error.what();
    if (error.code() == ErrorCode::kUnavailable) throw UsageError("topo: " + message);
    if (message.starts_with("xml is ")) throw UsageError("--" + message);
    if (!message.starts_with("nics is ")) throw;
    throw UsageError((request.nics ? "--nics" : "MKERNEL_NICS") + message.substr(4));
  }
}

}  // namespace

int topo_command(const TopoRequest& request) {
  check_sources(request);
  const Placement placement = look(request, request.nics.value_or(Options::from_env().nics));
  if (request.json == "-") {
    print_line("{}", topo_json(placement));
    return kExitCorrect;
  }
  OutputFile json("--json", request.json);
  json.append(topo_json(placement));
  json.close();
  print_text(topo_text(placement));
  return kExitCorrect;
}

}  // namespace mk::tools
