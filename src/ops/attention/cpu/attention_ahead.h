// What a thread of Attention will read soon, so that it can ask for it. Few queries wait for the memory: while a group
// of keys or values is multiplied, the one kAhead positions on, of the same item or of those that follow, is asked for.
#pragma once

#include "ops/attention/cpu/attention_plan.h"

namespace ingot::cpu {

// 16 seqs at 160 keys of 3 heads of 64, 30 layers, two Neoverse-V1 cores: 2.8 ms; 4.1 with keys asked for into the
// L1 cache 64 positions on; 3.2 with 128 into L2, and 3.5 where each group is asked for at once.
inline constexpr int kFewQueries = 12, kAhead = 128;

// The groups of 16 keys, or of as many values, of some items of a plan in order.
class GroupWalk {
 public:
  GroupWalk(const Attention& op, const Batch& batch, const AttentionPlan& plan, bool keys)
      : op_(op), batch_(batch), plan_(plan), keys_(keys) {}

  void start(int64_t item, int64_t end) {
    item_ = item;
    end_ = end;
    open();
  }
  // Null behind the last.
  const std::byte* next() {
    while (item_ < end_ && position_ >= stop_) {
      ++item_;
      open();
    }
    if (item_ >= end_) return nullptr;
    const KvLayer& kv = op_.kv;
    const AttentionUnit& unit = plan_.unit_of(item_);
    const int64_t page = batch_.pages(kv.group, unit.seq)[position_ / kv.page_rows], place = position_ % kv.page_rows;
    position_ += kKeyGroup;
    return keys_ ? kv.k_page(page, unit.kv_head) + place * kv.k_bytes()
                 : kv.v_page(page, unit.kv_head) + place * kv.v_bytes();
  }

 private:
  void open() {
    if (item_ >= end_) return;
    const AttentionItem& item = plan_.items[static_cast<size_t>(item_)];
    const AttentionUnit& unit = plan_.unit_of(item_);
    const int first = seen_by(op_, batch_, unit.first_row).first / kKeyGroup * kKeyGroup;
    position_ = std::max(item.first_split * Attention::kSplit, first);
    stop_ = std::min(item.end_split * Attention::kSplit, seen_by(op_, batch_, unit.first_row + unit.rows - 1).end);
  }

  const Attention& op_;
  const Batch& batch_;
  const AttentionPlan& plan_;
  const bool keys_;
  int64_t item_ = 0, end_ = 0;
  int position_ = 0, stop_ = 0;  // of the item
};

// One thread's.
class alignas(64) Ahead {
 public:
  GroupWalk keys, values;

  Ahead(const Attention& op, const Batch& batch, const AttentionPlan& plan)
      : keys(op, batch, plan, true), values(op, batch, plan, false) {}

  // Before item i, which others up to `end` follow. One that does not follow the last was not asked for: its begin is.
  void begin(const KvLayer& kv, int64_t i, int64_t end) {
    const bool follows = i == expected_;
    expected_ = i + 1;
    if (follows) return;
    keys.start(i, end);
    values.start(i, end);
    for (int n = 0; n < kAhead; n += kKeyGroup) {
      ask(keys.next(), kKeyGroup * kv.k_bytes());
      ask(values.next(), kKeyGroup * kv.v_bytes());
    }
  }

 private:
  static void ask(const std::byte* from, int64_t bytes) {
    for (int64_t i = 0; from != nullptr && i < bytes; i += 64) __builtin_prefetch(from + i, 0, 1);
  }

  int64_t expected_ = -1;
};

}  // namespace ingot::cpu
