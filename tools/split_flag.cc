// SPDX-License-Identifier: MIT
// tools/split_flag.cc — see split_flag.h.
#include "split_flag.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "flags.h"

namespace mk::tools {
namespace {

struct RoleCount {
  std::string_view name;
  int Split::*count;
};
constexpr RoleCount kRoleCounts[] = {
    {"compute", &Split::compute}, {"intra", &Split::intra}, {"send", &Split::send}, {"reduce", &Split::reduce}};

bool has_role(const Operator& op, std::string_view role) {
  return std::find(op.roles.begin(), op.roles.end(), role) != op.roles.end();
}

// "ag_gemm has compute, intra, send; …"
std::string all_roles() {
  std::string text;
  for (const Operator& op : operators()) {
    text += fmt::format("{}{} has {}", text.empty() ? "" : "; ", op.name, fmt::join(op.roles, ", "));
  }
  return text;
}

// "compute=12"
void read_part(const std::string& text, const std::string& part, std::set<std::string>& seen, Split& split) {
  const size_t equals = part.find('=');
  const std::string name = part.substr(0, equals);
  const auto role = std::find_if(std::begin(kRoleCounts), std::end(kRoleCounts),
                                 [&](const RoleCount& one) { return one.name == name; });
  check_usage(role != std::end(kRoleCounts) && equals != part.npos,
              "--split is '{}'; it must be role=N,… with roles compute, intra, send, reduce", text);
  check_usage(seen.insert(name).second, "--split is '{}'; {} is there twice", text, name);
  const int count = number<int>("--split " + name, part.substr(equals + 1));
  check_usage(count >= 0, "--split {} is {}; it must be at least 0", name, count);
  split.*role->count = count;
}

Split read_split(const std::string& text) {
  Split split;
  std::set<std::string> seen;
  size_t begin = 0;
  for (size_t end = 0; end != text.npos; begin = end + 1) {
    end = text.find(',', begin);
    read_part(text, text.substr(begin, end == text.npos ? end : end - begin), seen, split);
  }
  return split;
}

}  // namespace

void add_split(CLI::App& app, Split& split) {
  add_flag(app, "--split", "ROLES",
           fmt::format("workers of a rank by role: compute=N,intra=N,send=N,reduce=N, none where left out; {}; of all "
                       "operators each takes the roles that it has; on a GPU those that do not compute are warps, "
                       "eight to an SM, and ag_gemm with intra=0 has one in each block that computes "
                       "[chosen for the shape]",
                       all_roles()),
           [&split](const std::string& text) { split = read_split(text); });
}

void check_split(const std::string& op, const Split& split) {
  const Operator* const named = find_operator(op);
  if (named == nullptr) return;
  for (const auto& [name, count] : kRoleCounts) {
    check_usage(split.*count == 0 || has_role(*named, name), "--split {} is {}; {} does not have that role: it has {}",
                name, split.*count, op, fmt::join(named->roles, ", "));
  }
}

Split split_of(const Operator& op, Split split) {
  for (const auto& [name, count] : kRoleCounts) {
    if (!has_role(op, name)) split.*count = 0;
  }
  return split;
}

}  // namespace mk::tools
