// SPDX-License-Identifier: MIT
// transport/nic_list.cc — see nic_list.h.
#include "transport/nic_list.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "base/check.h"

namespace mk {
namespace {

std::string names_of(const std::vector<Nic>& nics) {
  std::vector<std::string> names;
  for (const Nic& nic : nics) names.push_back(nic.name());
  return names.empty() ? "no NIC at all" : fmt::format("{}", fmt::join(names, ", "));
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end = 0; end != text.npos; begin = end + 1) {
    end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end == text.npos ? end : end - begin));
  }
  return parts;
}

// The names for each GPU, by its number as the text has it: equally many.
std::map<size_t, std::vector<std::string>> split_by_gpu(const std::string& text) {
  std::map<size_t, std::vector<std::string>> names;
  for (const std::string& part : split(text, ';')) {
    const size_t equals = part.find('=');
    check_arg(equals != part.npos, "nics is '{}'; '{}' is not of the form GPU=NIC", text, part);
    const std::string number = part.substr(0, equals);
    size_t gpu = 0;
    const char* const end = number.data() + number.size();
    const auto [stopped, error] = std::from_chars(number.data(), end, gpu);
    check_arg(error == std::errc{} && stopped == end, "nics is '{}'; '{}' is not the number of a GPU", text, number);
    check_arg(!names.contains(gpu), "nics is '{}'; GPU {} is there twice", text, gpu);
    names[gpu] = split(part.substr(equals + 1), ',');
  }
  const auto& [first, of_first] = *names.begin();
  for (const auto& [gpu, of_gpu] : names) {
    check_arg(std::ranges::count(of_gpu, "") == 0, "nics is '{}'; the name of a NIC of GPU {} is empty", text, gpu);
    check_arg(of_gpu.size() == of_first.size(), "nics is '{}'; GPU {} has {} of them and GPU {} has {}", text, first,
              of_first.size(), gpu, of_gpu.size());
  }
  return names;
}

class Parser {
 public:
  Parser(const std::string& text, const Topology& topology) : text_(text), topology_(topology) {}

  NicList parse() const {
    NicList list;
    if (text_.empty()) return list;
    if (is_by_gpu(text_)) {
      list.of_gpu = by_gpu();
    } else {
      list.allowed = nics_of(split(text_, ','));
      std::sort(list.allowed.begin(), list.allowed.end());
    }
    return list;
  }

 private:
  std::vector<std::vector<int>> by_gpu() const {
    std::vector<std::vector<int>> nics(topology_.gpus.size());
    for (const auto& [gpu, names] : split_by_gpu(text_)) {
      check_arg(gpu < nics.size(), "nics is '{}'; there is no GPU {}: the node has {}, counted from 0", text_, gpu,
                nics.size());
      nics[gpu] = nics_of(names);
    }
    for (size_t gpu = 0; gpu < nics.size(); ++gpu) {
      check_arg(!nics[gpu].empty(), "nics is '{}'; GPU {} of {} is not there", text_, gpu, nics.size());
    }
    return nics;
  }

  std::vector<int> nics_of(const std::vector<std::string>& names) const {
    std::vector<int> nics;
    for (const std::string& name : names) {
      const int nic = nic_of(name);
      check_arg(std::find(nics.begin(), nics.end(), nic) == nics.end(), "nics is '{}'; {} is there twice", text_, name);
      nics.push_back(nic);
    }
    return nics;
  }

  int nic_of(const std::string& name) const {
    check_arg(!name.empty(), "nics is '{}'; the name of a NIC is empty: there is {}", text_, names_of(topology_.nics));
    for (size_t i = 0; i < topology_.nics.size(); ++i) {
      const Nic& nic = topology_.nics[i];
      if (name != nic.name() && name != fmt::format("{}:{}", nic.device, nic.port)) continue;
      check_arg(nic.active(), "nics is '{}'; the port of {} is not active: it is {}", text_, name, nic.state);
      return static_cast<int>(i);
    }
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("nics is '{}'; there is no {}: there is {}", text_, name, names_of(topology_.nics)));
  }

  const std::string& text_;
  const Topology& topology_;
};

}  // namespace

NicList parse_nic_list(const std::string& text, const Topology& topology) { return Parser(text, topology).parse(); }

bool is_by_gpu(const std::string& text) { return text.find_first_of("=;") != text.npos; }

std::vector<std::string> nics_of_rank(const std::string& text, int local) {
  if (text.empty()) return {};
  if (!is_by_gpu(text)) {
    const std::vector<std::string> names = split(text, ',');
    return {names[static_cast<size_t>(local) % names.size()]};
  }
  const auto names = split_by_gpu(text);
  const auto found = names.find(static_cast<size_t>(local));
  check_arg(found != names.end(), "nics is '{}'; it has no NIC for rank {} of a node", text, local);
  return found->second;
}

}  // namespace mk
