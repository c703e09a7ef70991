// SPDX-License-Identifier: MIT
// transport/assignment.cc — see assignment.h.
#include "transport/assignment.h"

#include <cstddef>

namespace mk {
namespace {

constexpr int kNone = -1;

// Rows come one after the other.  A row that comes takes a column; if another row had it, that one moves on to
// its next, and so on until a free column is taken.  The cheapest such chain keeps the whole at least cost.
class Assignment {
 public:
  explicit Assignment(const std::vector<std::vector<int64_t>>& cost)
      : cost_(cost), row_of_(cost.empty() ? 0 : cost[0].size(), kNone) {}

  void add(int row) {
    price_ = cost_[row];
    before_.assign(row_of_.size(), kNone);
    while (some_chain_grows()) {
    }
    int column = cheapest_free();
    while (column != kNone) {
      const int from = before_[column];
      row_of_[column] = from == kNone ? row : row_of_[from];
      column = from;
    }
  }

  std::vector<int> columns() const {
    std::vector<int> columns(cost_.size());
    for (size_t c = 0; c < row_of_.size(); ++c) {
      if (row_of_[c] != kNone) columns[row_of_[c]] = static_cast<int>(c);
    }
    return columns;
  }

 private:
  // Lets the row of each taken column move on where that makes a chain cheaper.
  bool some_chain_grows() {
    bool grew = false;
    for (size_t from = 0; from < row_of_.size(); ++from) {
      if (row_of_[from] == kNone) continue;
      const std::vector<int64_t>& cost = cost_[row_of_[from]];
      for (size_t to = 0; to < cost.size(); ++to) {
        const int64_t price = price_[from] - cost[from] + cost[to];
        if (price >= price_[to]) continue;
        price_[to] = price;
        before_[to] = static_cast<int>(from);
        grew = true;
      }
    }
    return grew;
  }

  int cheapest_free() const {
    int best = kNone;
    for (size_t c = 0; c < row_of_.size(); ++c) {
      if (row_of_[c] == kNone && (best == kNone || price_[c] < price_[best])) best = static_cast<int>(c);
    }
    return best;
  }

  const std::vector<std::vector<int64_t>>& cost_;
  std::vector<int> row_of_;     // of each column, kNone if it is free
  std::vector<int64_t> price_;  // of the cheapest chain that ends at each column
  std::vector<int> before_;     // the column before it in that chain
};

}  // namespace

std::vector<int> assign(const std::vector<std::vector<int64_t>>& cost) {
  Assignment assignment(cost);
  for (size_t row = 0; row < cost.size(); ++row) assignment.add(static_cast<int>(row));
  return assignment.columns();
}

}  // namespace mk
