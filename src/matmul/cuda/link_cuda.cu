// Norms that are made on the way from one product to the next, and up to how many rows.
#include <algorithm>

#include "matmul/cuda/parts.cuh"
#include "matmul/cuda/wide/wide.cuh"

namespace ingot::cuda {
namespace {

// Outputs from which a plain product takes a block of the wide kernel several slabs one after another.
constexpr int64_t kManyOutputs = 32768;

// For up to `rows` rows.
NormLink norm_link(const ProductInput& input, int64_t rows, const Allocate& allocate) {
  const int64_t cols = input.x.cols;
  NormLink link;
  link.weight = input.norm;
  link.eps = input.eps;
  link.parts = static_cast<int>(cols / 16);
  link.rows = static_cast<int>(rows);
  link.squares = reinterpret_cast<float*>(allocate(int64_t{link.parts} * rows * 4));
  link.x.data = allocate(cols * rows * 2);
  link.x.stride = cols;
  link.x.cols = static_cast<int>(cols);
  link.x.dtype = DType::kBF16;
  return link;
}

}  // namespace

bool all_bf16(const DeviceProduct& product) {
  return std::all_of(product.parts, product.parts + product.n_parts, [](const ProductPart& p) {
    return p.weight->format == Format::kBF16 && p.weight->scale == nullptr;
  });
}

int64_t total_rows(const DeviceProduct& product) {
  int64_t total = 0;
  for (int i = 0; i < product.n_parts; ++i) total += product.parts[i].weight->rows;
  return total;
}

// The most rows of op for which packed weights are read by the streaming kernel or that of taller tiles. A plain
// product has nothing to gain beyond kStreamRows: the head of an 8B model takes 253 us of an H200 at 32 rows by
// cuBLASLt, 290 by the kernel of taller tiles; in int4 172 by that of tall.cuh, 211.
int64_t packed_rows(const DeviceProduct& product, int arch) {
  if (product.streamed != nullptr && product.streamed->f8) return kStreamRows;
  const bool fused = product.is_glu() || heads_by_pairs(product) || product.residual;
  if (!all_bf16(product)) {
    const auto wide = [&](const ProductPart& p) { return stream_packs(*p.weight) && wide_has(p.weight->format, arch); };
    const bool all_wide = std::all_of(product.parts, product.parts + product.n_parts, wide);
    return all_wide && (fused || total_rows(product) < kManyOutputs) ? kWideRows : kStreamRows;
  }
  return fused || product.blas == nullptr ? kWideRows : kStreamRows;
}

bool link_products(const DeviceProduct& first, const DeviceProduct& second, const Allocate& allocate) {
  const ProductInput& input = second.input;
  if (first.streamed == nullptr || second.streamed == nullptr) return false;
  if (input.norm == nullptr || input.add || input.gather != nullptr) return false;
  const Matrix& x = first.parts[0].out;
  const bool is_plain = first.n_parts == 1 && !first.is_glu() && !first.heads;
  const bool is_same = x.data == input.x.data && x.stride == input.x.stride && x.cols == input.x.cols;
  if (!is_plain || !is_same || x.dtype != DType::kF32 || x.cols % kStreamCols != 0) return false;
  // The first leaves it only where it reads packed weights itself.
  int64_t rows = packed_rows(first, first.streamed->arch);
  if (first.streamed->from.weight != nullptr) rows = std::min<int64_t>(rows, first.streamed->from.rows);
  first.streamed->to = second.streamed->from = norm_link(input, rows, allocate);
  return true;
}

const NormLink* link_rows(const DeviceProduct& second, const Allocate& allocate) {
  const ProductInput& input = second.input;
  if (second.streamed == nullptr || input.norm == nullptr || !input.add || input.add_norm != nullptr ||
      input.gather != nullptr || input.x.cols % kStreamCols != 0)
    return nullptr;
  second.streamed->from = norm_link(input, packed_rows(second, second.streamed->arch), allocate);
  return &second.streamed->from;
}

}  // namespace ingot::cuda
