// Packed panels: the layouts of weights that the CPU's linear kernels read, made once at load (panels.h). Includes
// nothing with inline functions of its own: files compiled for one instruction set read it.
//
// A panel is 16 output rows. K is cut into blocks of 32 values, a block into runs of kRun: 4 as vpdpbusd reads them, 8
// on AArch64, where smmla reads 8 of two rows. Weights are unsigned integers q of 4, 5, 6 or 8 bits with one zero point
// for the whole weight; the value is  scale · (q − zero) + min, with a scale (and a min, where the format has one) for
// each group of 128, 32 or 16 values; the last group of 128 may be shorter. A panel holds:
//
//   supers   ScaleKind::kSuper only: for each 256 values f16 d[16] (and f16 dmin[16]), one for each row
//   scales   for each group: kF16   f16 scale[16] (and f16 min[16])
//                            kF32   f32 scale[16] (and f32 min[16])
//                            kSuper int8 scale[16] (and int8 min[16]); the scale is d · scale, the min −dmin · min
//                            kF16Zero  f16 scale[16], uint8 zero[16]: this group's zero points
//                            kBF16  bf16 scale[16]
//            kRow: f32 scale[16] once, for the whole row
//   runs     8 bits: for each run 16 rows × kRun bytes.
//            4 bits: as many bytes for each two runs: the low nibbles are those of the even run, the high nibbles those
//            of the odd one.
//            5 bits: for each block the low 4 bits like that, then 64 bytes with the highest, 6 bits: 128 bytes with
//            the two highest; high_at() says where. On AArch64 6 bits are three runs of bytes, of which the highest two
//            bits are the fourth run: kThreeRuns. Bytes are stored with the bits kFlip inverted, so that AArch64,
//            which multiplies signed bytes, reads q − zero: 8 bits as they are, 4 bits as 16 times their value.
//            kTable: q stands for kPanelTable[q]. Nibbles that a table turns to bytes are half of what one row reads of
//            bytes (MXFP4, one Neoverse-V1).
//
// Where vectors are 64 bytes these are three regions, one behind the other, each aligned to 64: no load crosses a line
// of the cache. On AArch64 they are one stream, what belongs to a super-block, a group and a block before its runs: two
// streams cost a fifth of the speed of one row there (Q4_1 from memory, one Neoverse-V1: 18.2 against 24.6 GB/s).
//
// What they stand for is exactly what the published format stands for: d · scale has at most 19 significant bits.
//
// The sum of an output, the same for every kernel, number of rows and thread, over groups in order of K, with x
// quantized to int8 in blocks of 32 (scale a, sum of its integers s):
//   acc = fma(float(Σ q·x − zero·s), a · scale, acc);   then, where there is a min,   acc = fma(min, a · float(s), acc)
// The sum in parentheses is an exact 32-bit integer. For groups of 128, x is quantized in blocks of 128 too: one
// conversion and one fma for each 128 values. kRow has acc = fma(float(…), a, acc) and out = acc · scale.
//
// Sets with PanelKernels::supers quantize x in blocks of 128 for is_super() weights as well and stay with integers for
// all of such a block; with d and scale as above, for each 128 values:
//   acc = fma(float(Σ over groups of scale · (Σ q·x − zero·s)), a · d, acc)
//
// 16-bit floats have panels of one region: F16 [K][16 rows]; BF16 [K / g][16 rows][g] with g = kBf16Group values of a
// row side by side, as the architecture's matrix instructions read them; zeros where K is no multiple of g.
//   acc = fma(w, x, acc) in order of K; the sets with bf16 products round x to bf16 and add as those do.
// 8-bit floats become BF16, which holds each of them exactly. Scales that lie beside the data follow the values: for
// each scale_cols columns, the last perhaps fewer, f32 scale[16]. The sum begins anew with each of them:
//   out = fma(acc, scale, out)
#pragma once

#include <cstddef>
#include <cstdint>

namespace ingot {

inline constexpr int64_t kPanelRows = 16;
inline constexpr int64_t kPanelBlock = 32;
inline constexpr int64_t kPanelSuper = 256;

inline constexpr int64_t kPanelCoarse = 128;
inline constexpr int64_t kScaleStep =
    32;  // columns of a scale beside the data are a multiple of it, or all: AMX's tiles
#if defined(__aarch64__)
inline constexpr int64_t kBf16Group = 4;  // bfmmla
inline constexpr int64_t kRun = 8;
#else
inline constexpr int64_t kBf16Group = 2;  // AMX
inline constexpr int64_t kRun = 4;
#endif

// Of a block with kBits bits (5 on AArch64), where the highest of value `at` of run `run` of row `row` lie: the byte,
// and their first bit in it.
struct HighBits {
  int64_t byte;
  int shift;
};
constexpr HighBits high_at(int bits, int64_t row, int64_t run, int64_t at) {
  const int64_t more = bits - 4;
  if (kRun == 4) {
    const int64_t side = 8 / more;  // runs whose bits share a byte
    return {256 + 64 * (run / side) + 4 * row + at, static_cast<int>(more * (run % side))};
  }
  // Two pairs of rows share 16 bytes.
  return {256 + 16 * (row / 4) + 8 * (row % 2) + at, static_cast<int>(4 * (row / 2 % 2) + run)};
}

enum class ScaleKind : uint8_t { kF16, kF32, kSuper, kF16Zero, kRow, kBF16 };

// What the nibbles of kTable stand for: twice the values of e2m1; where products take unsigned bytes, from
// kPanelTableZero up.
#if defined(__aarch64__)
inline constexpr int kPanelTableZero = 0;
constexpr int8_t kPanelTable[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
#else
inline constexpr int kPanelTableZero = 12;
constexpr int8_t kPanelTable[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
#endif

enum class PanelKind : uint8_t {
  kNone,          // no panel: the weight is read as it is published
  kQ4,            // 4 bits, groups of 32, f16 scales
  kQ4Min,         //   and mins
  kQ4SuperMin,    // 4 bits, groups of 32, scales and mins of a super-block
  kQ4Super16,     // 4 bits, groups of 16, scales of a super-block
  kQ4Super16Min,  //   and mins
  kQ8,            // 8 bits, groups of 32, f16 scales
  kQ8F32,         // 8 bits, groups of 32, f32 scales
  kQ8Super,       // 8 bits, groups of 32, scales of a super-block
  kQ5,            // 5 bits, groups of 32, f16 scales
  kQ5Min,         //   and mins
  kQ5SuperMin,    // 5 bits, groups of 32, scales and mins of a super-block
  kQ6Super16,     // 6 bits, groups of 16, scales of a super-block
#if defined(__aarch64__)
  kQ4Table,  // 4 bits that stand for bytes of a table, groups of 32, bf16 scales
#endif
  kQ4Table16,  // the same in groups of 16, f32 scales
  kInt4,       // 4 bits, groups of 128, f16 scales
  kInt4Zero,   //   and zero points
  kInt8,       // 8 bits, one f32 scale for a row
  kF16,
  kBF16,
};
// Panels of integers, which read x as int8.
constexpr bool is_quantized(PanelKind kind) {
  return kind != PanelKind::kNone && kind != PanelKind::kF16 && kind != PanelKind::kBF16;
}
// Those among them that read x as int8 with a scale for each 128 values.
constexpr bool is_coarse(PanelKind kind) {
  return kind == PanelKind::kInt4 || kind == PanelKind::kInt4Zero || kind == PanelKind::kInt8;
}
// Those that do so in sets with PanelKernels::supers alone: groups of 16 with scales of a super-block and no mins.
constexpr bool is_super(PanelKind kind) { return kind == PanelKind::kQ4Super16 || kind == PanelKind::kQ6Super16; }

// The fields of a quantized kind, for kernels that are compiled once for each.
template <int kBits_, int kGroup_, ScaleKind kScale_, bool kMin_>
struct PanelLayout {
  static constexpr int kBits = kBits_;
  static constexpr int kGroup = kGroup_;
  static constexpr ScaleKind kScale = kScale_;
  static constexpr bool kMin = kMin_;
  static constexpr bool kCoarse = kGroup > kPanelBlock;
  static constexpr int64_t kGroups = kCoarse ? 1 : kPanelBlock / kGroup;  // of a block
  static constexpr int64_t kScaleBytes = kPanelRows *
                                         (kScale == ScaleKind::kF16       ? 2
                                          : kScale == ScaleKind::kBF16    ? 2
                                          : kScale == ScaleKind::kF16Zero ? 3
                                          : kScale == ScaleKind::kSuper   ? 1
                                                                          : 4) *
                                         (kMin ? 2 : 1);
  static constexpr int64_t kSuperBytes = kScale == ScaleKind::kSuper ? kPanelRows * 2 * (kMin ? 2 : 1) : 0;
  static constexpr int64_t kRunBytes = kPanelRows * kPanelBlock * kBits / 8;  // of a block
  static constexpr bool kTable = kScale == ScaleKind::kBF16 || (kBits == 4 && kScale == ScaleKind::kF32);
  // Formats without a min whose zero point is the middle of their range; MXFP4's (kF32) is not.
  static constexpr bool kMiddle =
      (kBits == 8 && kScale != ScaleKind::kF32) || (kBits == 4 && !kMin && kScale == ScaleKind::kF16);
  // Bits 0 and 1, 2 and 3, 4 and 5 of the fourth run above the first, second and third: six operations for four runs,
  // where low and high bits apart took twelve.
  static constexpr bool kThreeRuns = kRun == 8 && kBits == 6;
  static constexpr int kFlip = kRun == 4 ? 0 : kBits == 8 ? 0x80 : kMiddle ? 0x88 : 0;

  static constexpr int64_t round_up(int64_t n) { return (n + 63) / 64 * 64; }
  static constexpr int64_t supers(int64_t cols) { return (cols + kPanelSuper - 1) / kPanelSuper; }
  // How many scales a row has.
  static constexpr int64_t groups(int64_t cols) { return kScale == ScaleKind::kRow ? 1 : (cols + kGroup - 1) / kGroup; }

  // Of one stream: the bytes of a group's scales with the runs behind them, and of a super-block.
  static constexpr int64_t kHead = kGroups * kScaleBytes;  // before the runs of a block, or of a group of 128
  static constexpr int64_t kBlocks = kCoarse ? kPanelCoarse / kPanelBlock : 1;  // behind a head
  static constexpr int64_t kPart = kHead + kBlocks * kRunBytes;
  static constexpr int64_t kSuperPart = kSuperBytes + kPanelSuper / kPanelBlock * kPart;

  // Where the fields of super-block s, the scales of group g and the runs of block b begin.
  static constexpr int64_t super_at(int64_t, int64_t s) { return kRun == 8 ? s * kSuperPart : s * kSuperBytes; }
  static constexpr int64_t scale_at(int64_t cols, int64_t g) {
    if (kScale == ScaleKind::kRow) return 0;
    if (kRun == 4) return round_up(supers(cols) * kSuperBytes) + g * kScaleBytes;
    return part_at(g / kGroups) + g % kGroups * kScaleBytes;
  }
  static constexpr int64_t run_at(int64_t cols, int64_t b) {
    if (kRun == 4 || kScale == ScaleKind::kRow)
      return round_up(supers(cols) * kSuperBytes) + round_up(groups(cols) * kScaleBytes) + b * kRunBytes;
    return part_at(b / kBlocks) + kHead + b % kBlocks * kRunBytes;
  }
  static constexpr int64_t bytes(int64_t cols) { return round_up(run_at(cols, cols / kPanelBlock - 1) + kRunBytes); }

 private:
  static constexpr int64_t part_at(int64_t i) {
    constexpr int64_t kOfSuper = kPanelSuper / kPanelBlock;
    if (kScale == ScaleKind::kSuper) return i / kOfSuper * kSuperPart + kSuperBytes + i % kOfSuper * kPart;
    return i * kPart;
  }
};

#if defined(__aarch64__)
#define INGOT_PANELS_OF_TABLES(X) X(Q4Table, 4, 32, kBF16, false)
#else
#define INGOT_PANELS_OF_TABLES(X)
#endif
// The quantized kinds with their layouts: X(kind, bits, group, scales, with mins).
#define INGOT_PANELS(X)                \
  X(Q4, 4, 32, kF16, false)            \
  X(Q4Min, 4, 32, kF16, true)          \
  X(Q4SuperMin, 4, 32, kSuper, true)   \
  X(Q4Super16, 4, 16, kSuper, false)   \
  X(Q4Super16Min, 4, 16, kSuper, true) \
  X(Q8, 8, 32, kF16, false)            \
  X(Q8F32, 8, 32, kF32, false)         \
  X(Q8Super, 8, 32, kSuper, false)     \
  X(Q5, 5, 32, kF16, false)            \
  X(Q5Min, 5, 32, kF16, true)          \
  X(Q5SuperMin, 5, 32, kSuper, true)   \
  X(Q6Super16, 6, 16, kSuper, false)   \
  INGOT_PANELS_OF_TABLES(X)            \
  X(Q4Table16, 4, 16, kF32, false)     \
  X(Int4, 4, 128, kF16, false)         \
  X(Int4Zero, 4, 128, kF16Zero, false) \
  X(Int8, 8, 128, kRow, false)

template <PanelKind kKind>
struct PanelLayoutOf;
#define X(NAME, BITS, GROUP, SCALE, MIN) \
  template <>                            \
  struct PanelLayoutOf<PanelKind::k##NAME> : PanelLayout<BITS, GROUP, ScaleKind::SCALE, MIN> {};
INGOT_PANELS(X)
#undef X

// A weight in panels. The memory belongs to somebody else.
struct PackedWeight {
  PanelKind kind = PanelKind::kNone;
  int zero = 0;
  int64_t rows = 0, cols = 0;
  int64_t panel_bytes = 0;
  int64_t scale_cols = 0;           // of BF16 alone: columns that share a scale; 0: no scales
  int64_t scales_at = 0;            //   and where the scales begin in a panel
  const std::byte* data = nullptr;  // 64-byte aligned

  explicit operator bool() const { return data != nullptr; }
  int64_t panels() const { return (rows + kPanelRows - 1) / kPanelRows; }
  const std::byte* panel(int64_t i) const { return data + i * panel_bytes; }
  int64_t bytes() const { return panels() * panel_bytes; }
};

}  // namespace ingot
