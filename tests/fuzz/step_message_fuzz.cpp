// Fuzz target: the messages of steps that one rank gets, one behind the other, each with its length in front. The first
// byte says which KV groups there are. What is read can be run: every slot that its rows write and see is there, and it
// is what write_step() makes.
// coverage: src/engine/model/step_message.cpp
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "base/error.h"
#include "engine/model/step_message.h"

namespace {

using namespace ingot;

constexpr StepLimits kLimits{.rows = 8, .seqs = 3, .logits = 4, .context = 40, .page_rows = 4};
const std::vector<std::vector<PageGroup>> kShapes{{{.pages = 12}},
                                                  {{.pages = 12}, {.pages = 9, .window = 6}},
                                                  {{.pages = 5, .window = 1}, {.pages = 7}, {.pages = 3}}};

void require(bool holds) {
  if (!holds) std::abort();
}

// A rank with one byte for each slot.
class Rank {
 public:
  explicit Rank(const std::vector<PageGroup>& groups) : groups_(groups) {
    for (const PageGroup& group : groups) cache_.emplace_back(static_cast<size_t>(group.pages * kLimits.page_rows));
    forget();
  }
  // The batch is of no use behind a message that was refused.
  void forget() { work_.batch = Batch(kLimits, static_cast<int>(groups_.size())); }

  void take(std::span<const std::byte> message) {
    ReadStep read = read_step_message(message, kLimits, groups_, work_.batch);
    require(static_cast<int64_t>(message.size()) <= StepMessage::most_bytes(kLimits, static_cast<int>(groups_.size())));
    const Batch& batch = work_.batch;
    const auto rows = std::span(batch.logit_row).first(static_cast<size_t>(batch.n_logits));
    require(std::ranges::all_of(rows, [&](int32_t row) { return row >= 0 && row < batch.n_rows; }));
    StepMessage again;
    if (read.body) {
      run(read.copies);
      work_.copies = std::move(read.copies);
      again.write_step(work_, kLimits, read.step, rows, read.report);
    } else {
      again.write_head(read.step, rows);
    }
    require(std::ranges::equal(again.bytes(), message));
  }

 private:
  void run(const std::vector<PageCopy>& copies) {
    const size_t bytes = kLimits.page_rows;
    for (const PageCopy& copy : copies) {
      require(copy.from != copy.to);
      std::vector<uint8_t>& cache = cache_.at(static_cast<size_t>(copy.group));
      std::memcpy(&cache.at(static_cast<size_t>(copy.to) * bytes), &cache.at(static_cast<size_t>(copy.from) * bytes),
                  bytes);
    }
    const Batch& batch = work_.batch;
    int row = 0;
    for (int s = 0; s < batch.n_seqs; ++s) {
      const int end = batch.q_start[static_cast<size_t>(s) + 1];
      require(batch.q_start[static_cast<size_t>(s)] == row && row < end);
      for (; row < end; ++row) run_row(s, static_cast<size_t>(row), end - row);
    }
    require(row == batch.n_rows && row <= kLimits.rows);
  }

  // The last of its seq but `left` - 1.
  void run_row(int s, size_t row, int left) {
    const Batch& batch = work_.batch;
    require(batch.seq[row] == s && batch.token[row] >= 0);
    require(batch.position[row] >= 0 && batch.position[row] == batch.kv_len[static_cast<size_t>(s)] - left);
    for (size_t g = 0; g < groups_.size(); ++g) {
      const auto slot = [&](int position) {
        const int32_t page = batch.pages(static_cast<int>(g), s)[position / kLimits.page_rows];
        require(page >= 0 && page < groups_[g].pages);
        return static_cast<size_t>(page * kLimits.page_rows + position % kLimits.page_rows);
      };
      const int position = batch.position[row], window = groups_[g].window;
      require(slot(position) == static_cast<size_t>(batch.groups[g].slot[row]));
      uint8_t& own = cache_[g].at(slot(position));
      for (int p = window > 0 ? std::max(0, position - window + 1) : 0; p < position; ++p) own ^= cache_[g].at(slot(p));
    }
  }

  const std::vector<PageGroup>& groups_;
  std::vector<std::vector<uint8_t>> cache_;
  StepWork work_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  Rank rank(kShapes[data[0] % kShapes.size()]);
  std::span<const std::byte> rest = std::as_bytes(std::span(data, size)).subspan(1);
  while (rest.size() >= 2) {
    const size_t length = std::to_integer<size_t>(rest[0]) | std::to_integer<size_t>(rest[1]) << 8;
    rest = rest.subspan(2);
    // On the heap and of exact size, so that a read past the end is seen.
    const std::vector<std::byte> message(rest.begin(),
                                         rest.begin() + static_cast<int64_t>(std::min(length, rest.size())));
    rest = rest.subspan(message.size());
    try {
      rank.take(message);
    } catch (const Error&) {
      rank.forget();
    }
  }
  return 0;
}
