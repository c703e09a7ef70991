// SPDX-License-Identifier: MIT
// transport/nic_list.cc — see nic_list.h.
#include "transport/nic_list.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

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

class Parser {
 public:
  Parser(const std::string& text, const Topology& topology) : text_(text), topology_(topology) {}

  NicList parse() const {
    NicList list;
    if (text_.empty()) return list;
    if (text_.find_first_of("=;") == text_.npos) {
      list.allowed = nics_of(text_);
      std::sort(list.allowed.begin(), list.allowed.end());
    } else {
      list.of_gpu = by_gpu();
    }
    return list;
  }

 private:
  std::vector<std::vector<int>> by_gpu() const {
    std::vector<std::vector<int>> nics(topology_.gpus.size());
    for (const std::string& part : split(text_, ';')) {
      const size_t equals = part.find('=');
      check_arg(equals != part.npos, "nics is '{}'; '{}' is not of the form GPU=NIC", text_, part);
      const size_t gpu = gpu_of(part.substr(0, equals));
      check_arg(nics[gpu].empty(), "nics is '{}'; GPU {} is there twice", text_, gpu);
      nics[gpu] = nics_of(part.substr(equals + 1));
    }
    for (size_t gpu = 0; gpu < nics.size(); ++gpu) {
      check_arg(!nics[gpu].empty(), "nics is '{}'; GPU {} of {} is not there", text_, gpu, nics.size());
      check_arg(nics[gpu].size() == nics[0].size(), "nics is '{}'; GPU 0 has {} of them and GPU {} has {}", text_,
                nics[0].size(), gpu, nics[gpu].size());
    }
    return nics;
  }

  size_t gpu_of(const std::string& number) const {
    size_t gpu = 0;
    const char* end = number.data() + number.size();
    const auto [stopped, error] = std::from_chars(number.data(), end, gpu);
    check_arg(error == std::errc{} && stopped == end, "nics is '{}'; '{}' is not the number of a GPU", text_, number);
    check_arg(gpu < topology_.gpus.size(), "nics is '{}'; there is no GPU {}: the node has {}, counted from 0", text_,
              gpu, topology_.gpus.size());
    return gpu;
  }

  std::vector<int> nics_of(const std::string& names) const {
    std::vector<int> nics;
    for (const std::string& name : split(names, ',')) {
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

std::vector<std::string> nics_of_rank(const std::string& text, int local) {
  if (text.empty()) return {};
  if (text.find_first_of("=;") == text.npos) {
    const std::vector<std::string> names = split(text, ',');
    return {names[static_cast<size_t>(local) % names.size()]};
  }
  const std::string wanted = fmt::format("{}=", local);
  for (const std::string& part : split(text, ';')) {
    if (part.starts_with(wanted)) return split(part.substr(wanted.size()), ',');
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("nics is '{}'; it has no NIC for rank {} of a node", text, local));
}

}  // namespace mk
