// Packed weights: a task is some panels. With few rows of x they are read as they are packed; with many they are
// expanded once into this thread's scratch and stay in its L2 cache while the rows pass, or a piece of K
// after the other is, and the sums stay.
#include <algorithm>
#include <utility>

#include "matmul/cpu/kernels.h"
#include "matmul/cpu/tasks.h"

namespace ingot::cpu {
namespace {

// Bytes of expanded weights, and of sums: a quarter each of an L2 cache of 1 MiB.
constexpr int64_t kExpandedBytes = 256 << 10;
constexpr int64_t kSumBytes = 128 << 10;
// For few rows expanding is a good part of the work, and pays in the L1 cache alone (one Neoverse-V1, Q4_1 of
// 576 columns, 16 rows: 195 GOP/s by two panels, 174 by eight).
constexpr int64_t kFirstLevelBytes = 32 << 10;
// Rows of x at once while the panels of a task pass as they are packed: few enough to stay in the caches (Q4_1 2048 x
// 2048, 512 rows: 212 GOP/s at 8 or 16, 175 at 36), and a multiple of 4 and 6. Up to two more go with the last six.
constexpr int64_t kDirectPass = 12, kDirectMost = kDirectPass + 2;

// Where panels are expanded in pieces: sums of all rows of a pass wait for the next piece, and each pass expands again.
// The linears of an 8B shape in Q4_K_M, 512 rows, 16 threads with AMX, tok/s in two rounds: tasks of 2 panels 302 and
// 292, of 3 323 and 318, of 4 342 and 315, of 6 342 and 321, of 8 336 and 301; 4 in passes of 128 rows 325 and 304.
constexpr int64_t kPieceSumBytes = 256 << 10;
constexpr int64_t kPiecePanels = 4;

// Panels of all parts that tasks are made of.
int64_t all_panels(const Product& product, const ProductPart& part) {
  if (product.is_glu()) return part.packed->panels();
  int64_t all = 0;
  for (int i = 0; i < product.n_parts; ++i) all += (product.parts[i].weight->rows + kPanelRows - 1) / kPanelRows;
  return all;
}

// Panels of a task where few rows read them as they are packed: of all parts together eight tasks or more for each
// thread, and all of them alike, so that the threads' shares are. With tasks of an eighth of each part by itself, 2
// threads and q, k and v of 36, 12 and 12 panels, one thread had 43 and the other 17, and took of the first what was
// left.
int64_t few_rows_panels(const Product& product, const ProductPart& part, int threads) {
  const int64_t most = std::max<int64_t>(1, all_panels(product, part) / (8 * threads)), own = part.packed->panels();
  const int64_t tasks = (own + most - 1) / most;
  return (own + tasks - 1) / tasks;
}

// Panels of a task, of `own` and `most` at most, where the thread with the most tasks has the least to do: 36 panels by
// 4 are 9 tasks, of which one of two threads has 5, by 3 they are 6 for each.
int64_t even_panels(int64_t own, int64_t most, int threads) {
  const auto longest = [&](int64_t n) { return ((own + n - 1) / n + threads - 1) / threads * n; };
  int64_t best = most;
  for (int64_t n = most - 1; n > most / 2; --n)
    if (longest(n) < longest(best)) best = n;
  return best;
}

// Whether many rows of all parts of a task go in pieces.
bool in_pieces(const Product& product, const ProductPart& part) {
  if (kernels().panels->run_pieces == nullptr) return false;
  return is_quantized(part.packed->kind) && (!product.is_glu() || is_quantized(product.parts[1].packed->kind));
}

TaskCut pieces_cut(const Product& product, const ProductPart& part, int64_t rows, int threads) {
  const PanelKernels& k = *kernels().panels;
  const int64_t parts = product.is_glu() ? 2 : 1;
  const int64_t panels = std::clamp(all_panels(product, part) / (4 * threads), int64_t{2}, kPiecePanels);
  int64_t memory = 0;
  for (int64_t p = 0; p < parts; ++p)
    memory = std::max(memory, k.piece_bytes((p == 0 ? part : product.parts[1]).packed->kind, panels));
  TaskCut cut{};
  cut.block = panels * kPanelRows;
  cut.pass = std::min(round_up(rows, k.tile_rows),
                      std::max(k.tile_rows, kPieceSumBytes / (4 * parts * cut.block) / k.tile_rows * k.tile_rows));
  cut.expanded = round_up(memory, 64);
  cut.scratch = cut.expanded + parts * cut.block * cut.pass * static_cast<int64_t>(sizeof(float));
  return cut;
}

}  // namespace

int64_t direct_rows(const Product& product, const ProductPart& part) {
  const PanelKernels& k = *kernels().panels;
  if (!product.is_glu()) return k.direct_rows(part.packed->kind);
  return std::min(k.direct_rows(product.parts[0].packed->kind), k.direct_rows(product.parts[1].packed->kind));
}

TaskCut panels_cut(const Product& product, const ProductPart& part, int64_t rows, int threads) {
  const PanelKernels& k = *kernels().panels;
  const int64_t parts = product.is_glu() ? 2 : 1;
  // Gate and up are cut alike, though their formats may differ: room for the larger of both.
  const auto largest = [&](int64_t n) {
    int64_t bytes = expanded_bytes(*part.packed, n);
    if (product.is_glu())
      bytes = std::max(expanded_bytes(*product.parts[0].packed, n), expanded_bytes(*product.parts[1].packed, n));
    return bytes;
  };
  TaskCut cut{};
  const bool many = rows > direct_rows(product, part);
  if (many && in_pieces(product, part)) return pieces_cut(product, part, rows, threads);
  int64_t panels = many ? part.packed->panels() / (4 * threads) : few_rows_panels(product, part, threads);
  panels = std::max<int64_t>(1, panels);
  const int64_t expanded = std::max<int64_t>(1, largest(1));
  const int64_t room = many && rows <= kFewRows ? kFirstLevelBytes : kExpandedBytes;
  panels = std::min(panels, std::max<int64_t>(1, room / expanded / parts));
  if (many) panels = even_panels(part.packed->panels(), panels, threads);
  cut.block = panels * kPanelRows;
  cut.pass = many ? std::max(k.tile_rows, kSumBytes / (4 * parts * cut.block) / k.tile_rows * k.tile_rows)
                  : (rows <= kDirectMost ? rows : kDirectPass);
  // Few rows have room for the longest pass, so that what more rows need is enough for fewer.
  cut.scratch = (many ? parts * round_up(largest(panels), 64) : 0) +
                parts * cut.block * std::max(cut.pass, kDirectMost) * static_cast<int64_t>(sizeof(float));
  return cut;
}

// Asks for what finish_row() reads and writes of row t: a few lines of each of many rows, which no hardware foresees.
constexpr int64_t kFetchRows = 6;  // ahead
static void fetch_result(const Product& product, const TaskBlock& block, int64_t t) {
  const int64_t row = product.out_row(t);
  const float* out = product.parts[block.part].out.f32(row) + block.first;
  for (int64_t i = 0; i < block.n; i += 16) __builtin_prefetch(out + i, 1);
  if (!product.residual) return;
  const float* residual = product.residual.f32(row) + block.first;
  for (int64_t i = 0; i < block.n; i += 16) __builtin_prefetch(residual + i, 0);
}

void run_panels(const Product& product, const TaskBlock& block, const TaskCut& cut, const XRow* x, int64_t rows,
                std::byte* scratch) {
  const PanelKernels& k = *kernels().panels;
  const bool many = rows > direct_rows(product, product.parts[block.part]);
  const int parts = product.is_glu() ? 2 : 1;
  PanelSpan spans[2];
  std::byte* expanded[2] = {};
  std::byte* const piece = std::exchange(scratch, scratch + cut.expanded);
  for (int p = 0; p < parts; ++p) {
    const PackedWeight* w = product.parts[block.part + static_cast<size_t>(p)].packed;
    spans[p] = {w, block.first / kPanelRows, (block.n + kPanelRows - 1) / kPanelRows};
    if (!many || cut.expanded > 0) continue;
    expanded[p] = std::exchange(scratch, scratch + round_up(expanded_bytes(*w, cut.block / kPanelRows), 64));
    k.expand(spans[p], expanded[p]);
  }
  float* sums = reinterpret_cast<float*>(scratch);  // [rows of the pass, parts, block]
  const int64_t stride = parts * cut.block;
  for (int64_t t = 0; t < rows; t += cut.pass) {
    const int64_t pass = std::min(cut.pass, rows - t);
    for (int p = 0; p < parts; ++p) {
      if (cut.expanded > 0) {
        k.run_pieces(spans[p], piece, x + t, pass, sums + p * cut.block, stride);
      } else if (many) {
        k.run_expanded(spans[p], expanded[p], x + t, pass, sums + p * cut.block, stride);
      } else {
        k.run(spans[p], x + t, pass, sums + p * cut.block, stride);
      }
    }
    for (int64_t i = 0; i < pass; ++i) {
      if (many && i + kFetchRows < pass) fetch_result(product, block, t + i + kFetchRows);
      finish_row(product, block, t + i, sums + i * stride, sums + i * stride + cut.block);
    }
  }
}

void fetch_panels(const Product& product, const TaskBlock& block) {
  // The first of them; by then the hardware has seen the stream, and soon the kernel asks itself. 12 KB took 0.25 us
  // here.
  constexpr int64_t kAhead = 2 << 10;
  for (size_t p = block.part; p < block.part + (product.is_glu() ? 2 : 1); ++p) {
    const PackedWeight& w = *product.parts[p].packed;
    const std::byte* from = w.panel(block.first / kPanelRows);
    for (int64_t i = 0; i < kAhead && from + i < w.data + w.bytes(); i += 64) __builtin_prefetch(from + i, 0, 1);
  }
}

}  // namespace ingot::cpu
