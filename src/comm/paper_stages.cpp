#include "comm/paper_stages.h"

#include <algorithm>

namespace ingot {

// The next larger step's where there was none of this size: of the first steps of a bench, which do not count.
int64_t PaperStages::needed(int64_t row_bytes) const {
  if (needed_.empty()) return 0;
  const auto known = needed_.lower_bound(row_bytes);
  return known == needed_.end() ? needed_.rbegin()->second : known->second;
}

int64_t PaperStages::arrival(int64_t launched, int64_t message_bytes, int64_t row_bytes) {
  const auto ns = [&](int64_t bytes) { return static_cast<int64_t>(1e9 * links_.seconds(LinkModel::message(bytes))); };
  row_bytes_ = row_bytes;
  if (free_.empty()) return launched;
  int64_t at = launched + ns(message_bytes);
  for (int64_t& free : free_) {
    free = std::max(free, at) + needed(row_bytes);
    at = free + ns(row_bytes);
  }
  return at;
}

}  // namespace ingot
