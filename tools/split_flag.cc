// SPDX-License-Identifier: MIT
// tools/split_flag.cc — see split_flag.h.
#include "split_flag.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "flags.h"

namespace mk::tools {
namespace {

bool has_role(std::span<const RoleName> roles, std::string_view role) {
  return std::ranges::find(roles, role, &RoleName::name) != roles.end();
}

// "intra, send, compute"
std::string names_of(std::span<const RoleName> roles) {
  std::string names;
  for (const RoleName& role : roles) names += fmt::format("{}{}", names.empty() ? "" : ", ", role.name);
  return names;
}

// "ag_gemm has intra, send, compute; …"
std::string all_roles() {
  std::string text;
  for (const Operator& op : operators()) {
    const std::string roles = names_of(op.roles);
    text += fmt::format("{}{} has {}", text.empty() ? "" : "; ", op.name, roles);
    if (!op.has_backward()) continue;
    const std::string backward = names_of(op.backward_roles);
    if (backward != roles) text += fmt::format("; with --direction bwd it has {}", backward);
  }
  return text;
}

// "compute=12"
void read_part(const std::string& text, const std::string& part, std::set<std::string>& seen, Split& split) {
  const size_t equals = part.find('=');
  const std::string name = part.substr(0, equals);
  const auto has_it = [&](const Operator& op) { return has_role(op.roles, name) || has_role(op.backward_roles, name); };
  check_usage(equals != part.npos && std::ranges::any_of(operators(), has_it),
              "--split is '{}'; it must be role=N,… with roles of the operators: {}", text, all_roles());
  check_usage(seen.insert(name).second, "--split is '{}'; {} is there twice", text, name);
  const int count = number<int>("--split " + name, part.substr(equals + 1));
  check_usage(count >= 0, "--split {} is {}; it must be at least 0", name, count);
  split[name] = count;
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
           fmt::format("workers of a rank by role: compute=N,intra=N,…, none where left out; {}; of all "
                       "operators each takes the roles that it has; on a GPU those that do not compute are warps, "
                       "eight to an SM, and ag_gemm with intra=0 has one in each block that computes "
                       "[chosen for the shape]",
                       all_roles()),
           [&split](const std::string& text) { split = read_split(text); });
}

void check_split(const std::string& op, Direction direction, const Split& split) {
  const Operator* const named = find_operator(op);
  for (const auto& [name, count] : split) {
    const auto has_it = [&](const Operator& one) { return has_role(one.roles_of(direction), name); };
    check_usage(named != nullptr || std::ranges::any_of(operators(), has_it),
                "--split {} is {}; no operator has that role with --direction {}", name, count, name_of(direction));
    check_usage(named == nullptr || has_it(*named), "--split {} is {}; {} does not have that role: it has {}", name,
                count, op, named == nullptr ? "" : names_of(named->roles_of(direction)));
  }
}

Split split_of(const Operator& op, Direction direction, Split split) {
  std::erase_if(split, [&](const auto& role) { return !has_role(op.roles_of(direction), role.first); });
  return split;
}

}  // namespace mk::tools
