// One call of all ranks with numbers from a key, checked on each: for every kind of Comm.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "base/random_test_support.h"
#include "comm/comm.h"

namespace ingot::test {

// A value that says whose it is, and of which call.
inline float value_of(uint64_t key, int rank, int64_t i) {
  Random random(key * 131 + static_cast<uint64_t>(rank) * 1009 + static_cast<uint64_t>(i));
  return random.normal();
}
inline std::byte byte_of(uint64_t key, int rank, int64_t i) {
  return static_cast<std::byte>(key * 31 + static_cast<uint64_t>(rank) * 7 + static_cast<uint64_t>(i));
}

inline std::vector<float> floats_of(uint64_t key, int rank, int64_t n) {
  std::vector<float> all;
  for (int64_t i = 0; i < n; ++i) all.push_back(value_of(key, rank, i));
  return all;
}

inline float sum_of(uint64_t key, int ranks, int64_t i) {
  float sum = value_of(key, 0, i);
  for (int r = 1; r < ranks; ++r) sum += value_of(key, r, i);
  return sum;
}

// Each of these is one call of all ranks with numbers from `key`, checked on each.
inline void check_gather(Comm& comm, uint64_t key, int64_t rows, int64_t columns) {
  std::vector<int64_t> begin{0};
  for (int r = 0; r < comm.ranks(); ++r) begin.push_back(begin.back() + (columns + r * 3) % (columns + 1));
  const int64_t pitch = begin.back() + 5;
  std::vector<std::byte> all(static_cast<size_t>(rows * pitch), std::byte{0});
  std::vector<CommBlock> parts;
  const bool wants = comm.rank() == 0 || key % 2 == 0;
  for (size_t r = 0; r < static_cast<size_t>(comm.ranks()); ++r) {
    const bool there = wants || static_cast<int>(r) == comm.rank();
    parts.push_back({there ? all.data() + begin[r] : nullptr, rows, begin[r + 1] - begin[r], pitch});
  }
  const auto r = static_cast<size_t>(comm.rank());
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t c = begin[r]; c < begin[r + 1]; ++c)
      all[static_cast<size_t>(t * pitch + c)] = byte_of(key, comm.rank(), t * 13 + c);
  comm.all_gather(parts);
  bool good = true;
  for (int64_t t = 0; t < rows; ++t)
    for (size_t from = 0; from + 1 < begin.size(); ++from)
      for (int64_t c = begin[from]; c < begin[from + 1]; ++c) {
        const bool there = wants || from == r;
        good &= all[static_cast<size_t>(t * pitch + c)] ==
                (there ? byte_of(key, static_cast<int>(from), t * 13 + c) : std::byte{0});
      }
  EXPECT_TRUE(good) << "all_gather " << key;
}

inline void check_reduce(Comm& comm, uint64_t key, int64_t n) {
  std::vector<float> x = floats_of(key, comm.rank(), n);
  comm.all_reduce(x);
  bool good = true;
  for (int64_t i = 0; i < n; ++i) good &= x[static_cast<size_t>(i)] == sum_of(key, comm.ranks(), i);
  EXPECT_TRUE(good) << "all_reduce " << key;
}

inline void check_scatter(Comm& comm, uint64_t key, int64_t n) {
  std::vector<int64_t> begins{0};
  for (int r = 1; r < comm.ranks(); ++r) begins.push_back(n * r * r / (comm.ranks() * comm.ranks()));
  begins.push_back(n);
  std::vector<float> x = floats_of(key, comm.rank(), n);
  const auto r = static_cast<size_t>(comm.rank());
  comm.reduce_scatter(x, begins, x.data() + begins[r]);
  bool good = true;
  for (int64_t i = begins[r]; i < begins[r + 1]; ++i) good &= x[static_cast<size_t>(i)] == sum_of(key, comm.ranks(), i);
  EXPECT_TRUE(good) << "reduce_scatter " << key;
}

inline void check_exchange(Comm& comm, uint64_t key, int64_t n) {
  const auto length = [&](int from, int to) { return static_cast<size_t>((n + 3 * from + 5 * to) % (n + 1)); };
  std::vector<std::vector<std::byte>> give, got;
  for (int r = 0; r < comm.ranks(); ++r) {
    give.emplace_back(length(comm.rank(), r), byte_of(key, comm.rank(), r));
    got.emplace_back(length(r, comm.rank()));
  }
  const std::vector<std::span<const std::byte>> from(give.begin(), give.end());
  const std::vector<std::span<std::byte>> to(got.begin(), got.end());
  comm.all_to_all(from, to);
  for (int r = 0; r < comm.ranks(); ++r)
    EXPECT_EQ(got[static_cast<size_t>(r)],
              std::vector<std::byte>(length(r, comm.rank()), byte_of(key, r, comm.rank())));
}

inline void check_broadcast(Comm& comm, uint64_t key, int64_t n) {
  const int root = static_cast<int>(key % static_cast<uint64_t>(comm.ranks()));
  std::vector<std::byte> bytes(static_cast<size_t>(n), byte_of(key, comm.rank(), 0));
  comm.broadcast(bytes, root);
  EXPECT_EQ(bytes, std::vector<std::byte>(static_cast<size_t>(n), byte_of(key, root, 0)));
}

// Rank r sends to the next one and hears from the one before.
inline void check_messages(Comm& comm, uint64_t key, int64_t n) {
  const int to = (comm.rank() + 1) % comm.ranks(), from = (comm.rank() + comm.ranks() - 1) % comm.ranks();
  std::vector<std::byte> into(static_cast<size_t>(n + comm.ranks()));
  comm.send(std::vector<std::byte>(static_cast<size_t>(n + comm.rank()), byte_of(key, comm.rank(), 0)), to);
  const int64_t length = comm.recv(into, from, std::chrono::seconds(10));
  EXPECT_EQ(length, n + from);
  into.resize(static_cast<size_t>(length));
  EXPECT_EQ(into, std::vector<std::byte>(static_cast<size_t>(length), byte_of(key, from, 0)));
}

inline void check_call(Comm& comm, uint64_t kind, uint64_t key, int64_t n) {
  switch (kind) {
    case 0:
      return check_gather(comm, key, 1 + n % 3, n);
    case 1:
      return check_reduce(comm, key, n);
    case 2:
      return check_scatter(comm, key, n);
    case 3:
      return check_exchange(comm, key, n);
    case 4:
      return check_broadcast(comm, key, n);
    default:
      return check_messages(comm, key, n);
  }
}
inline constexpr uint64_t kKinds = 6;

}  // namespace ingot::test
