#include <algorithm>
#include <cmath>
#include <vector>

#include "emulator/emulator.h"
#include "emulator/emulator_wgmma_e4m3.h"

namespace ingot::cuda::emulated {
namespace {

constexpr int kMostN = 256;

// What a product reads of shared memory.
struct Read {
  uint64_t place;
  int rows;  // of M or of N; 16 of K each
  bool by_columns;
};

struct Sums {
  float* d;
  std::vector<float> values;
  uint64_t group;  // that of the last product
};
struct Watch {
  Read read;
  uint64_t group, hash;
};

struct ThreadState {
  bool begun = false;
  uint64_t committed = 0;
  std::vector<Sums> sums;      // in flight
  std::vector<Watch> watched;  // by a warp's first lane
};
struct WarpState {
  float result[16][kMostN];
};
// What the warps of a warpgroup have asked for: the same, but not at the same time.
struct GroupState {
  std::vector<uint64_t> asked;
  size_t at[4] = {};
};

struct BlockState {
  std::vector<ThreadState> threads;
  std::vector<WarpState> warps;
  std::vector<GroupState> groups;
};

int thread_index() { return static_cast<int>(g_thread.x + g_threads.x * (g_thread.y + g_threads.y * g_thread.z)); }

BlockState& block() {
  std::shared_ptr<void>& state = block_state();
  if (state == nullptr) {
    const size_t threads = size_t{g_threads.x} * g_threads.y * g_threads.z;
    state = std::make_shared<BlockState>(BlockState{std::vector<ThreadState>(threads),
                                                    std::vector<WarpState>((threads + 31) / 32),
                                                    std::vector<GroupState>((threads + 127) / 128)});
  }
  return *static_cast<BlockState*>(state.get());
}
ThreadState& state() { return block().threads[static_cast<size_t>(thread_index())]; }

// 16 bits of K each: two values where they have 8.
uint16_t element(const Read& read, int row, int k) {
  const auto field = [&](int bit) { return static_cast<uint32_t>(read.place >> bit & 0x3fff) << 4; };
  CHECK(read.place >> 62 == 1 && (read.place >> 49 & 7) == 0, "a place of swizzle {}", read.place >> 62);
  const uint32_t address = field(0), leading = field(16), stride = field(32);
  uint32_t at = address;
  if (read.by_columns) {
    const auto n = static_cast<uint32_t>(row), kk = static_cast<uint32_t>(k);
    at += n / 64 * leading + n % 64 * 2 + kk / 8 * stride + kk % 8 * 128;
  } else {
    const auto r = static_cast<uint32_t>(row);
    at += r / 8 * stride + r % 8 * 128 + static_cast<uint32_t>(k) * 2;
  }
  at ^= (at >> 7 & 7) << 4;
  CHECK(at + 2 <= dynamic_shared_bytes(), "a product reads at {} of {} bytes", at, dynamic_shared_bytes());
  uint16_t bits = 0;
  std::memcpy(&bits, dynamic_shared() + at, 2);
  return bits;
}

uint64_t hash_of(const Read& read) {
  uint64_t hash = 1469598103934665603u;
  for (int r = 0; r < read.rows; ++r)
    for (int k = 0; k < 16; ++k) hash = (hash ^ element(read, r, k)) * 1099511628211u;
  return hash;
}

// Aborts where this warp asks for something else than the other three.
void compare_with_others(const GroupProduct& p, bool e4m3) {
  const int thread = thread_index();
  GroupState& group = block().groups[static_cast<size_t>(thread) / 128];
  size_t& at = group.at[thread % 128 / 32];
  uint64_t key = p.b_place * 31 + p.a_place;
  for (const uint64_t x :
       {uint64_t{p.a == nullptr}, uint64_t(p.n), uint64_t{p.bf16}, uint64_t{p.by_columns}, uint64_t{e4m3}})
    key = key * 1099511628211u + x;
  if (at == group.asked.size()) group.asked.push_back(key);
  CHECK(group.asked[at] == key, "the warps of a warpgroup ask for different products");
  ++at;
  if (std::ranges::all_of(group.at, [&](size_t a) { return a == group.asked.size(); })) {
    group.asked.clear();
    std::ranges::fill(group.at, 0);
  }
}

// Sign, four bits of exponent with bias 7, three of mantissa; the largest code is no number.
float e4m3_value(uint32_t code) {
  const auto exponent = static_cast<int>(code >> 3 & 15), mantissa = static_cast<int>(code & 7);
  if (exponent == 15 && mantissa == 7) return NAN;
  const float value =
      std::ldexp(static_cast<float>(exponent == 0 ? mantissa : mantissa + 8), std::max(exponent, 1) - 10);
  return (code & 0x80) != 0 ? -value : value;
}

// The same of 32 values of 8 bits, both out of shared memory.
void multiply_rows_of_8_bits(const GroupProduct& p, WarpState& warp) {
  const auto load = [](const Read& read, int row, float(&to)[32]) {
    for (int k = 0; k < 16; ++k) {
      const uint16_t two = element(read, row, k);
      to[2 * k] = e4m3_value(two & 0xffu);
      to[2 * k + 1] = e4m3_value(two >> 8);
    }
  };
  const int first = thread_index() % 128 / 32 * 16;
  float a[16][32], column[32];
  for (int r = 0; r < 16; ++r) load({p.a_place, 64, false}, first + r, a[r]);
  for (int n = 0; n < p.n; ++n) {
    load({p.b_place, p.n, false}, n, column);
    for (int r = 0; r < 16; ++r) {
      float sum = 0;
      for (int k = 0; k < 32; ++k) sum += a[r][k] * column[k];
      warp.result[r][n] = sum;
    }
  }
}

// The 16 rows of this warp.
void multiply_rows(const GroupProduct& p, const Slots& all, WarpState& warp) {
  const auto value = [&](uint16_t bits) { return p.bf16 ? bf16_to_f32(bits) : f16_to_f32(bits); };
  const int first = thread_index() % 128 / 32 * 16;
  float a[16][16];
  for (int r = 0; r < 16; ++r) {
    for (int k = 0; k < 16; ++k) {
      if (p.a == nullptr) {
        a[r][k] = value(element({p.a_place, 64, false}, first + r, k));
        continue;
      }
      uint32_t words[4];
      std::memcpy(words, all[r % 8 * 4 + k % 8 / 2], sizeof(words));
      a[r][k] = value(static_cast<uint16_t>(words[r / 8 + k / 8 * 2] >> (k % 2 * 16)));
    }
  }
  const Read b{p.b_place, p.n, p.by_columns};
  float column[16];
  for (int n = 0; n < p.n; ++n) {
    for (int k = 0; k < 16; ++k) column[k] = value(element(b, n, k));
    for (int r = 0; r < 16; ++r) {
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += a[r][k] * column[k];
      warp.result[r][n] = sum;
    }
  }
}

void multiply(const GroupProduct& p, bool e4m3) {
  ThreadState& mine = state();
  CHECK(mine.begun, "a product without products_begin() after the last wait");
  CHECK(p.n % 8 == 0 && p.n >= 8 && p.n <= kMostN, "a product of {} columns", p.n);
  CHECK(thread_index() / 128 * 128 + 128 <= static_cast<int>(block().threads.size()), "not a whole warpgroup");
  uint32_t words[4] = {};
  if (p.a != nullptr) std::copy_n(p.a, 4, words);
  const Slots& all = meet_warp(words, sizeof(words));
  WarpState& warp = block().warps[static_cast<size_t>(thread_index()) / 32];
  if (lane() == 0) {
    compare_with_others(p, e4m3);
    if (e4m3) {
      multiply_rows_of_8_bits(p, warp);
    } else {
      multiply_rows(p, all, warp);
    }
    const Read b{p.b_place, p.n, p.by_columns};
    mine.watched.push_back({b, mine.committed, hash_of(b)});
    const Read a{p.a_place, 64, false};
    if (p.a == nullptr) mine.watched.push_back({a, mine.committed, hash_of(a)});
  }
  __syncwarp();
  const int floats = p.n / 2;
  auto at = std::ranges::find(mine.sums, p.d, &Sums::d);
  if (at == mine.sums.end()) at = mine.sums.insert(at, {p.d, {p.d, p.d + floats}, 0});
  at->group = mine.committed;
  for (int i = 0; i < floats; ++i) {
    float& x = at->values[static_cast<size_t>(i)];
    x = (p.add ? x : 0.0f) + warp.result[lane() / 4 + i / 2 % 2 * 8][i / 4 * 8 + lane() % 4 * 2 + i % 2];
  }
  std::fill_n(p.d, floats, NAN);
  __syncwarp();
}

}  // namespace

void multiply_group(const GroupProduct& p) { multiply(p, false); }
void multiply_group_e4m3(const GroupProduct& p) { multiply(p, true); }
void products_begin() { state().begun = true; }
void products_commit() { ++state().committed; }

void products_done(int but) {
  ThreadState& mine = state();
  mine.begun = false;
  const auto done = [&](uint64_t group) { return group + static_cast<uint64_t>(but) < mine.committed; };
  for (const Sums& s : mine.sums)
    if (done(s.group)) std::ranges::copy(s.values, s.d);
  std::erase_if(mine.sums, [&](const Sums& s) { return done(s.group); });
  for (const Watch& w : mine.watched)
    CHECK(!done(w.group) || hash_of(w.read) == w.hash, "shared memory was written under a product");
  std::erase_if(mine.watched, [&](const Watch& w) { return done(w.group); });
  __syncwarp();
}

uint32_t shared_offset(const void* p) {
  const auto offset = static_cast<const std::byte*>(p) - dynamic_shared();
  CHECK(offset >= 0 && static_cast<size_t>(offset) < dynamic_shared_bytes(), "{} bytes into shared memory", offset);
  return static_cast<uint32_t>(offset);
}

}  // namespace ingot::cuda::emulated
