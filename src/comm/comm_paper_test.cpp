#include "comm/comm_paper.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <numeric>
#include <vector>

namespace ingot {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begun) { return std::chrono::duration<double>(Clock::now() - begun).count(); }

std::span<std::byte> bytes_of(std::vector<float>& x) { return std::as_writable_bytes(std::span(x)); }

TEST(CommPaper, AGatherFillsWhatOthersWouldGive) {
  PaperComm comm(1, 3, {.latency_us = 0, .gbs = 1000}, 0);
  // Two rows of 2 + 3 + 4 columns.
  std::vector<float> rows(18, std::numeric_limits<float>::quiet_NaN());
  for (size_t t = 0; t < 2; ++t) std::iota(&rows[9 * t + 2], &rows[9 * t + 5], 10.0f * static_cast<float>(t + 1));
  std::vector<CommBlock> parts;
  int64_t begin = 0;
  for (const int64_t n : {2, 3, 4}) {
    parts.push_back({.data = bytes_of(rows).data() + 4 * begin, .rows = 2, .bytes = 4 * n, .pitch = 36});
    begin += n;
  }
  comm.all_gather(parts);
  EXPECT_EQ(rows, (std::vector<float>{10, 11, 10, 11, 12, 10, 11, 12, 10, 20, 21, 20, 21, 22, 20, 21, 22, 20}));
  EXPECT_EQ(comm.meter.counts().bytes[static_cast<size_t>(CommKind::kAllGather)], 48);  // 2 x 12 bytes, to two
  parts[0].data = nullptr;                                                              // not wanted: left alone
  rows[0] = 5;
  comm.gather(parts, 2);
  EXPECT_EQ(rows[0], 5);
  EXPECT_EQ(rows[5], 10);
}

TEST(CommPaper, OtherCallsGiveFiniteValues) {
  PaperComm comm(0, 2, {.latency_us = 0, .gbs = 1000}, 0);
  std::vector<float> x = {1, 2, 3, 4}, out(2, -1);
  comm.all_reduce(x);
  EXPECT_EQ(x, (std::vector<float>{1, 2, 3, 4}));
  const std::array<int64_t, 3> begins = {0, 2, 4};
  comm.reduce_scatter(x, begins, out.data());
  EXPECT_EQ(out, (std::vector<float>{1, 2}));
  std::vector<float> a = {7, 8}, b = {9}, c(2), d(3, -1);
  const std::array<std::span<const std::byte>, 2> give = {bytes_of(a), bytes_of(b)};
  const std::array<std::span<std::byte>, 2> got = {bytes_of(c), bytes_of(d)};
  comm.all_to_all(give, got);
  EXPECT_EQ(c, a);
  EXPECT_EQ(d, (std::vector<float>{7, 8, 7}));
  comm.broadcast(bytes_of(a), 0);
  EXPECT_EQ(a, (std::vector<float>{7, 8}));
  comm.broadcast(bytes_of(a), 1);
  EXPECT_EQ(a, (std::vector<float>{0, 0}));
  std::vector<float> into = {5, 6};
  EXPECT_EQ(comm.recv(bytes_of(into), 1, comm.deadline), 8);
  EXPECT_EQ(into, (std::vector<float>{0, 0}));
  EXPECT_EQ(comm.counts().collectives, 5);
}

TEST(CommPaper, LastsAsLongAsTheModelSays) {
  PaperComm comm(0, 4, {.form = LinkForm::kRing, .call_us = 500, .latency_us = 1000, .gbs = 0.001}, 250);
  std::vector<float> x(1000);  // 6,000 bytes at 1 byte a microsecond, 6 steps of 1 ms, 0.5 ms, 0.25 ms
  const auto begun = Clock::now();
  comm.all_reduce(x);
  EXPECT_GE(seconds_since(begun), 12.75e-3);
  EXPECT_NEAR(comm.counts().collective_seconds, 12.75e-3, 1e-8);
  EXPECT_GE(static_cast<double>(comm.meter.counts().collective_ns), 12.75e6);
}

TEST(CommPaper, MessagesGoOneBehindTheOther) {
  PaperComm comm(0, 4, {.call_us = 100, .latency_us = 1000, .gbs = 0.001}, 0);
  std::vector<float> x(25);
  const auto sent = [&] { return comm.counts().message_seconds; };
  comm.send(bytes_of(x), 1);
  EXPECT_NEAR(sent(), 1.2e-3, 1e-8);  // a call, the latency, and 100 bytes
  comm.send(bytes_of(x), 2);
  comm.send(bytes_of(x), 3);
  EXPECT_NEAR(sent(), 1.4e-3, 1e-8);
  comm.all_reduce({x.data(), 1});
  comm.send(bytes_of(x), 1);
  EXPECT_NEAR(sent(), 2.6e-3, 1e-8);
  EXPECT_EQ(comm.meter.counts().bytes[static_cast<size_t>(CommKind::kMessage)], 400);
}

TEST(CommPaper, NoCallAfterAnAbort) {
  PaperComm comm(0, 2, {}, 0);
  comm.abort("no memory");
  comm.abort("later");
  float one = 1;
  try {
    comm.all_reduce({&one, 1});
    FAIL();
  } catch (const CommError& error) {
    EXPECT_STREQ(error.what(), "[comm] rank 0, step 0: in all_reduce: no memory");
  }
}

}  // namespace
}  // namespace ingot
