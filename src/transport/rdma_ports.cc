// SPDX-License-Identifier: MIT
// transport/rdma_ports.cc — see rdma_ports.h.
#include "transport/rdma_ports.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>

namespace mk {
namespace {

namespace fs = std::filesystem;

// Empty if the folder cannot be read.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    entries.push_back(it->path());
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

// Empty if the file cannot be read.
std::string first_line(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

// "0000:3b:00.0"; the domain may have up to eight digits.
bool is_pci_address(const std::string& name) {
  const size_t domain = name.find(':');
  if (domain == std::string::npos || domain < 4 || domain > 8 || name.size() != domain + 8) return false;
  const auto fits = [&](size_t i) {
    const char c = name[i];
    if (i == domain || i == domain + 3) return c == ':';
    return i == domain + 6 ? c == '.' : (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  };
  for (size_t i = 0; i < name.size(); ++i) {
    if (!fits(i)) return false;
  }
  return true;
}

std::string pci_address(const fs::path& device) {
  std::error_code error;
  const std::string name = fs::read_symlink(device / "device", error).filename().string();
  return !error && is_pci_address(name) ? name : "";
}

}  // namespace

std::string port_state(const std::string& text) {
  // As the InfiniBand specification numbers them.
  constexpr const char* kStates[] = {"no change", "down", "init", "armed", "active", "active, deferred"};
  char* end = nullptr;
  const unsigned long number = std::strtoul(text.c_str(), &end, 10);
  return end != text.c_str() && number < std::size(kStates) ? kStates[number] : "unknown";
}

std::vector<Nic> read_rdma_ports(const fs::path& sysfs) {
  std::vector<Nic> nics;
  for (const fs::path& device : entries_of(sysfs / "class/infiniband")) {
    for (const fs::path& port : entries_of(device / "ports")) {
      Nic nic;
      nic.location.address = pci_address(device);
      nic.device = device.filename().string();
      nic.port = std::atoi(port.filename().c_str());
      nic.state = port_state(first_line(port / "state"));
      nic.link_layer = first_line(port / "link_layer");
      nic.gbps = std::strtod(first_line(port / "rate").c_str(), nullptr);  // "400 Gb/sec (4X NDR)"
      nics.push_back(nic);
    }
  }
  return nics;
}

}  // namespace mk
