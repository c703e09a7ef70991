// SPDX-License-Identifier: MIT
// tools/topo_flags.cc — see topo_flags.h.
#include "topo_flags.h"

#include "flags.h"

namespace mk::tools {

CLI::App* add_topo_command(CLI::App& app, TopoRequest& request) {
  CLI::App* topo = app.add_subcommand("topo", "Print the node's tree of GPUs and NICs, and which NIC serves which GPU");
  add_flag(*topo, "--nics", "LIST",
           "NICs to take: mlx5_0,mlx5_1 for all GPUs or 0=mlx5_0;1=mlx5_3 GPU by GPU [$MKERNEL_NICS, else chosen]",
           [&request](const std::string& text) { request.nics = text; });
  add_flag(*topo, "--xml", "FILE", "another machine's tree, made there with lstopo FILE.xml [this machine]",
           [&request](const std::string& text) { request.xml = text; });
  add_flag(*topo, "--sysfs", "FOLDER",
           "where class/infiniband lies, for speed and state of NICs [/sys; with --xml none]",
           [&request](const std::string& text) { request.sysfs = text; });
  add_flag(*topo, "--json", "FILE", "append one JSON object to FILE; - prints it in place of the tree [none]",
           [&request](const std::string& text) { request.json = text; });
  topo->footer("Exit codes: 0 done, with or without GPUs and NICs; 2 wrong usage.");
  return topo;
}

}  // namespace mk::tools
