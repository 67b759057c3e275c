#include "matmul/cpu/packed_store.h"

#include <algorithm>

namespace ingot {

namespace {

// Addresses are taken in such pieces, memory only as it is written: small weights share huge pages.
constexpr int64_t kPiece = int64_t{256} << 20;

// Mapping what a task reads at once (MADV_POPULATE_READ) gains nothing: a fault maps 64 KiB and more (BF16 of 2.2 GB,
// two threads: 0.29 s with and without).
//
// Packed bytes of a task: large enough to be worth taking, small enough that no thread waits long for the last.
constexpr int64_t kTaskBytes = 256 << 10;

// Tasks end where the rows in the file do: heads that the file has in another order are not cut.
int64_t whole_heads(const Weight& weight, int64_t panel, int64_t panels) {
  if (panel >= panels || weight.head_rows % kPanelRows != 0 || weight.head_rows == 0) return std::min(panel, panels);
  const int64_t unit = weight.head_rows / kPanelRows;
  return panel / unit * unit;
}

}  // namespace

PackCut::PackCut(int64_t panels_of_all, int64_t bytes, int threads)
    : panels(panels_of_all), tasks((bytes / kTaskBytes / threads + 1) * threads) {}

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

std::vector<const PackedWeight*> PackedStore::pack(std::span<const Weight> weights, ThreadPool& pool) {
  std::vector<const PackedWeight*> result(weights.size());
  std::vector<Job> jobs;
  int64_t panels = 0, bytes = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!begin(weights[i], jobs, result[i])) continue;
    panels += result[i]->panels();
    bytes += result[i]->bytes();
  }
  if (jobs.empty()) return result;
  const PackCut cut(panels, bytes, pool.threads());
  pool.run(cut.tasks, [&](int64_t task, int) {
    int64_t first = cut.begin(task), last = cut.begin(task + 1);
    for (const Job& job : jobs) {
      const int64_t own = job.packed->panels();
      if (first < own && last > 0) {
        run(job, whole_heads(*job.weight, std::max<int64_t>(first, 0), own), whole_heads(*job.weight, last, own));
      }
      first -= own;
      last -= own;
    }
  });
  for (const Job& job : jobs) {  // the pages that two tasks shared
    if (job.weight->mapped) give_back_pages(job.weight->data, job.weight->bytes());
  }
  bytes_ += bytes;
  return result;
}

// Gives the weight a place. False where there is nothing to pack.
bool PackedStore::begin(const Weight& weight, std::vector<Job>& jobs, const PackedWeight*& packed) {
  const Key key{weight.data, weight.rows, weight.row_bytes};
  packed = nullptr;
  if (const auto known = packed_.find(key); known != packed_.end()) {
    packed = known->second.get();
    return false;
  }
  auto made = std::make_unique<PackedWeight>(panels_of(weight));
  if (made->kind == PanelKind::kNone) return false;
  if (is_quantized(made->kind) && weight.cols <= short_cols_) return false;
  std::byte* memory = allocate(made->bytes());
  made->data = memory;
  packed = packed_.emplace(key, std::move(made)).first->second.get();
  jobs.push_back({&weight, packed, memory});
  return true;
}

void PackedStore::run(const Job& job, int64_t first, int64_t last) {
  if (first == last) return;
  const Weight& weight = *job.weight;
  // Heads in another order lie between each other, but all of them in what whole heads have.
  const std::byte* from = weight.data + first * kPanelRows * weight.row_bytes;
  const int64_t bytes = (std::min(weight.rows, last * kPanelRows) - first * kPanelRows) * weight.row_bytes;
  for (int64_t i = first; i < last; ++i) {
    pack_panel(weight, *job.packed, i, job.memory + i * job.packed->panel_bytes);
  }
  // At once: a large embedding would be there twice otherwise, 30 MB of the default model's peak.
  if (weight.mapped) give_back_pages(from, bytes);
}

}  // namespace ingot
