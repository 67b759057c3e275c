#include "devices/node_copies.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <numeric>
#include <thread>
#include <utility>

#include "base/thread_pool.h"
#include "tensor/memory.h"
#include "weights/random_values.h"

namespace ingot {
namespace {

constexpr int64_t kPiece = int64_t{1} << 20;
constexpr int64_t kLine = 8;  // words of a cache line

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Runs `body` in a thread that stays on the cores, with a pool there, and waits for it.
template <class F>
void on_cores(const std::vector<int>& cores, const F& body) {
  std::exception_ptr threw;
  std::thread thread([&] {
    try {
      stay_on(cores);
      ThreadPool pool(static_cast<int>(cores.size()), Pinning::kOff);
      body(pool);
    } catch (...) {
      threw = std::current_exception();
    }
  });
  thread.join();
  if (threw) std::rethrow_exception(threw);
}

uint64_t word_of(size_t device, int64_t i) {
  return random_bits((static_cast<uint64_t>(device) << 48) + static_cast<uint64_t>(i));
}

// One cycle through all lines, in an order that no prefetcher knows: the first word of a line is the next line.
Memory make_cycle(int64_t bytes) {
  const int64_t lines = bytes / 64;
  Memory memory = Memory::huge(bytes);
  auto* words = reinterpret_cast<uint64_t*>(memory.data());
  for (int64_t i = 0; i < lines; ++i) words[i * kLine] = static_cast<uint64_t>(i);
  for (int64_t i = lines - 1; i > 0; --i) {  // Sattolo's shuffle
    const auto j = static_cast<int64_t>(random_bits(static_cast<uint64_t>(i)) % static_cast<uint64_t>(i));
    std::swap(words[i * kLine], words[j * kLine]);
  }
  return memory;
}

double chase_ns(const Memory& cycle) {
  const auto* words = reinterpret_cast<const uint64_t*>(cycle.data());
  constexpr int kHops = 200'000;
  uint64_t at = 0;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kHops; ++i) at = words[at * kLine];
  const double seconds = seconds_since(start);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  return at == ~uint64_t{0} ? 0 : seconds / kHops * 1e9;  // no line has this number: the loop is not left out
}

NodePair measure(const Memory& from, const Memory& cycle, size_t owner, ThreadPool& pool) {
  NodePair pair;
  const int64_t bytes = from.bytes(), pieces = bytes / kPiece;
  const Memory to = Memory::huge(bytes);
  const auto copy = [&] {
    const auto start = std::chrono::steady_clock::now();
    pool.run(pieces, [&](int64_t i, int) {
      std::memcpy(to.data() + i * kPiece, from.data() + i * kPiece, static_cast<size_t>(kPiece));
    });
    return static_cast<double>(bytes) / seconds_since(start) / 1e9;
  };
  copy();  // takes the pages
  for (int pass = 0; pass < 3; ++pass) pair.copy_gbs = std::max(pair.copy_gbs, copy());
  std::atomic<bool> right = true;
  const auto* words = reinterpret_cast<const uint64_t*>(to.data());
  pool.run(pieces, [&](int64_t piece, int) {
    for (int64_t i = piece * (kPiece / 8); i < (piece + 1) * (kPiece / 8); ++i)
      if (words[i] != word_of(owner, i)) right = false;
  });
  pair.right = right;
  pair.ns = chase_ns(cycle);
  return pair;
}

}  // namespace

std::vector<NodePair> test_nodes(const std::vector<Device>& devices, int64_t bytes,
                                 const std::function<void(const NodePair&)>& tell) {
  bytes = std::max<int64_t>(bytes / kPiece, 1) * kPiece;
  std::vector<NodePair> pairs;
  for (size_t owner = 0; owner < devices.size(); ++owner) {
    Memory from, cycle;
    on_cores(devices[owner].cores, [&](ThreadPool& pool) {
      from = Memory::huge(bytes);
      auto* words = reinterpret_cast<uint64_t*>(from.data());
      pool.run(bytes / kPiece, [&](int64_t piece, int) {
        for (int64_t i = piece * (kPiece / 8); i < (piece + 1) * (kPiece / 8); ++i) words[i] = word_of(owner, i);
      });
      cycle = make_cycle(std::min<int64_t>(bytes, int64_t{64} << 20));
    });
    for (const Device& reader : devices) {
      on_cores(reader.cores, [&](ThreadPool& pool) {
        NodePair pair = measure(from, cycle, owner, pool);
        pair.from = devices[owner].name;
        pair.to = reader.name;
        pairs.push_back(std::move(pair));
      });
      tell(pairs.back());
    }
  }
  return pairs;
}

}  // namespace ingot
