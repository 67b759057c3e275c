#include "comm/comm_paper.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/spin.h"

namespace ingot {
namespace {

using Clock = std::chrono::steady_clock;

// A thread that sleeps comes back up to 0.1 ms late: the end of a long wait, and all of a short one, is spun.
constexpr auto kSpun = std::chrono::microseconds(200);

std::chrono::nanoseconds as_ns(double seconds) { return std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9)); }

void wait_until(Clock::time_point end) {
  if (end - Clock::now() > kSpun) std::this_thread::sleep_until(end - kSpun);
  while (Clock::now() < end) pause_cpu();
}

// As much of one as fits the other, again and again; zeros where there is nothing.
void copy_over(const std::byte* from, int64_t n, std::byte* to, int64_t bytes) {
  if (n == 0) {
    std::memset(to, 0, static_cast<size_t>(bytes));
    return;
  }
  for (int64_t i = 0; i < bytes; i += n) std::memcpy(to + i, from, static_cast<size_t>(std::min(n, bytes - i)));
}

}  // namespace

PaperComm::PaperComm(int rank, int ranks, const LinkModel& links, double sync_us, int stages,
                     const LinkModel& stage_links)
    : rank_(rank), ranks_(ranks), links_(links), sync_seconds_(1e-6 * sync_us), stages_(stages, stage_links) {
  CHECK(rank >= 0 && rank < ranks, "rank {} of {}", rank, ranks);
}

void PaperComm::begin(const char* call) const {
  if (!aborted_.load()) return;
  const std::lock_guard lock(mutex_);
  throw CommError("[comm] rank {}, step {}: in {}: {}", rank_, step, call, reason_);
}

void PaperComm::end_collective(Clock::time_point begun, const LinkWork& work) {
  const auto time = as_ns(sync_seconds_ + links_.seconds(work));
  wait_until(begun + time);
  sent_ = false;
  collectives_.fetch_add(1);
  collective_ns_.fetch_add(time.count());
}

// While the wait lasts: a real carrier copies then, too.
void PaperComm::fill(std::span<const CommBlock> parts) const {
  const CommBlock& own = parts[static_cast<size_t>(rank_)];
  for (const CommBlock& part : parts) {
    if (&part == &own || part.data == nullptr) continue;
    for (int64_t row = 0; row < part.rows; ++row) {
      const bool has = own.data != nullptr && row < own.rows;
      copy_over(has ? own.data + row * own.pitch : nullptr, has ? own.bytes : 0, part.data + row * part.pitch,
                part.bytes);
    }
  }
}

void PaperComm::all_gather(std::span<const CommBlock> parts) {
  begin("all_gather");
  const auto begun = Clock::now();
  const int64_t own = parts[static_cast<size_t>(rank_)].rows * parts[static_cast<size_t>(rank_)].bytes;
  const auto timed = time_collective(CommKind::kAllGather, own * (ranks_ - 1));
  std::vector<int64_t> bytes;
  for (const CommBlock& part : parts) bytes.push_back(part.rows * part.bytes);
  fill(parts);
  end_collective(begun, links_.all_gather(bytes));
}

void PaperComm::gather(std::span<const CommBlock> parts, int root) {
  begin("gather");
  const auto begun = Clock::now();
  const int64_t own = parts[static_cast<size_t>(rank_)].rows * parts[static_cast<size_t>(rank_)].bytes;
  const auto timed = time_collective(CommKind::kGather, rank_ == root ? 0 : own);
  std::vector<int64_t> bytes;
  for (const CommBlock& part : parts) bytes.push_back(part.rows * part.bytes);
  fill(parts);
  end_collective(begun, LinkModel::gather(bytes, root));
}

void PaperComm::all_reduce(std::span<float> x) {
  begin("all_reduce");
  const auto begun = Clock::now();
  const auto timed = time_collective(CommKind::kAllReduce, reduced_bytes(x.size_bytes()));
  end_collective(begun, links_.all_reduce(ranks_, static_cast<int64_t>(x.size_bytes())));
}

void PaperComm::reduce_scatter(std::span<const float> x, std::span<const int64_t> begins, float* out) {
  begin("reduce_scatter");
  const auto begun = Clock::now();
  const auto timed = time_collective(CommKind::kReduceScatter, scattered_bytes(x.size_bytes()));
  const auto own = static_cast<size_t>(rank_);
  std::memmove(out, x.data() + begins[own], static_cast<size_t>(begins[own + 1] - begins[own]) * sizeof(float));
  end_collective(begun, links_.reduce_scatter(ranks_, static_cast<int64_t>(x.size_bytes())));
}

void PaperComm::all_to_all(std::span<const std::span<const std::byte>> give,
                           std::span<const std::span<std::byte>> got) {
  begin("all_to_all");
  const auto begun = Clock::now();
  const int64_t given = given_bytes(give);
  const auto timed = time_collective(CommKind::kAllToAll, given);
  const std::span<const std::byte> own = give[static_cast<size_t>(rank_)];
  int64_t taken = 0;
  for (size_t r = 0; r < got.size(); ++r) {
    copy_over(own.data(), std::ssize(own), got[r].data(), std::ssize(got[r]));
    if (static_cast<int>(r) != rank_) taken += std::ssize(got[r]);
  }
  end_collective(begun, links_.all_to_all(ranks_, std::max(given, taken)));
}

void PaperComm::broadcast(std::span<std::byte> bytes, int root) {
  begin("broadcast");
  const auto begun = Clock::now();
  const auto timed = time_collective(CommKind::kBroadcast, rank_ == root ? std::ssize(bytes) * (ranks_ - 1) : 0);
  if (rank_ != root) std::ranges::fill(bytes, std::byte{0});
  end_collective(begun, links_.broadcast(ranks_, std::ssize(bytes)));
}

void PaperComm::send(std::span<const std::byte> message, int) {
  begin("send");
  const auto begun = Clock::now();
  meter.add_bytes(CommKind::kMessage, std::ssize(message));
  const LinkWork whole = LinkModel::message(std::ssize(message));
  const auto time =
      as_ns(sent_ ? links_.seconds(whole) - links_.seconds(LinkModel::message(0)) : links_.seconds(whole));
  sent_ = true;
  wait_until(begun + time);
  message_ns_.fetch_add(time.count());
}

int64_t PaperComm::recv(std::span<std::byte> into, int, std::chrono::milliseconds) {
  begin("recv");
  std::ranges::fill(into, std::byte{0});
  const auto time = as_ns(links_.seconds(LinkModel::message(std::ssize(into))));
  wait_until(Clock::now() + time);
  message_ns_.fetch_add(time.count());
  return std::ssize(into);
}

void PaperComm::launched(int64_t message_bytes) {
  const std::lock_guard lock(mutex_);
  launches_.push_back({Clock::now(), message_bytes});
}

void PaperComm::await_rows(std::span<std::byte> rows) {
  begin("recv");
  const auto begun = Clock::now();
  std::ranges::fill(rows, std::byte{0});
  const Launch launch = [&] {
    const std::lock_guard lock(mutex_);
    CHECK(!launches_.empty(), "no step was launched");
    const Launch oldest = launches_.front();
    launches_.pop_front();
    return oldest;
  }();
  const int64_t at =
      stages_.arrival(launch.at.time_since_epoch() / std::chrono::nanoseconds(1), launch.bytes, std::ssize(rows));
  wait_until(Clock::time_point(std::chrono::nanoseconds(at)));
  arrived_ = Clock::now();
  stage_ns_.fetch_add(std::chrono::nanoseconds(arrived_ - begun).count());
}

void PaperComm::end_step() { stages_.ended(std::chrono::nanoseconds(Clock::now() - arrived_).count()); }

void PaperComm::abort(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (aborted_.load()) return;
  reason_ = reason;
  aborted_.store(true);
}

PaperCounts PaperComm::counts() const {
  return {.collectives = collectives_.load(),
          .collective_seconds = 1e-9 * static_cast<double>(collective_ns_.load()),
          .message_seconds = 1e-9 * static_cast<double>(message_ns_.load()),
          .stage_seconds = 1e-9 * static_cast<double>(stage_ns_.load())};
}

}  // namespace ingot
