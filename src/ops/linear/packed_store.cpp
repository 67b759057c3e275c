#include "ops/linear/packed_store.h"

#include <algorithm>

namespace ingot {

namespace {

// Addresses are taken in such pieces, memory only as it is written: small weights share huge pages.
constexpr int64_t kPiece = int64_t{256} << 20;

}  // namespace

std::byte* PackedStore::allocate(int64_t bytes) {
  bytes = (bytes + 63) / 64 * 64;
  if (memory_.empty() || used_ + bytes > memory_.back().bytes()) {
    constexpr int64_t kHuge = int64_t{2} << 20;
    memory_.push_back(Memory::huge(std::max(kPiece, (bytes + kHuge - 1) / kHuge * kHuge)));
    used_ = 0;
  }
  used_ += bytes;
  return memory_.back().data() + used_ - bytes;
}

const PackedWeight* PackedStore::pack(const Weight& weight, ThreadPool& pool) {
  const Key key{weight.data, weight.rows, weight.row_bytes};
  if (const auto known = packed_.find(key); known != packed_.end()) return known->second.get();
  auto packed = std::make_unique<PackedWeight>(panels_of(weight));
  if (packed->kind == PanelKind::kNone) return nullptr;
  if (is_quantized(packed->kind) && weight.cols <= short_cols_) return nullptr;
  std::byte* memory = allocate(packed->bytes());
  packed->data = memory;
  const int64_t panels = packed->panels();
  // A task is some panels: large enough to be worth taking, small enough that no thread waits long for the last. The
  // pool gives each thread the same share of the panels here as when they are read, so that their pages lie in the
  // memory node of the thread that will read them (but for k and v beside q, which share one loop then).
  const int64_t step = std::max<int64_t>(1, (int64_t{256} << 10) / packed->panel_bytes);
  pool.run((panels + step - 1) / step, [&](int64_t task, int) {
    const int64_t first = task * step, last = std::min(panels, first + step);
    for (int64_t i = first; i < last; ++i) pack_panel(weight, *packed, i, memory + i * packed->panel_bytes);
    // At once: a large embedding would be there twice otherwise, 30 MB of the default model's peak.
    const int64_t rows = std::min(weight.rows, last * kPanelRows) - first * kPanelRows;
    if (weight.mapped) give_back_pages(weight.row(first * kPanelRows), rows * weight.row_bytes);
  });
  if (weight.mapped) give_back_pages(weight.data, weight.bytes());  // and the pages that two tasks shared
  bytes_ += packed->bytes();
  return packed_.emplace(key, std::move(packed)).first->second.get();
}

}  // namespace ingot
