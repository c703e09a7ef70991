// SPDX-License-Identifier: MIT
// tools/topo_command.cc — `mkernel topo`: what the node is made of, and which NIC serves which GPU.
#include "commands.h"
#include "mkernel/error.h"
#include "mkernel/options.h"
#include "output_file.h"
#include "standard_streams.h"
#include "topo_report.h"
#include "transport/discovery.h"
#include "usage.h"

namespace mk::tools {
namespace {

// What the library says about an argument is about a flag or a variable here.
Placement look(const TopoRequest& request, const std::string& nics) {
  try {
    const std::string sysfs = request.sysfs.value_or(request.xml.empty() ? "/sys" : "");
    return place(discover_topology({.xml = request.xml, .sysfs = sysfs}), nics);
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
