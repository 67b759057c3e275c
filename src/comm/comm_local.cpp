#include "comm/comm_local.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <ctime>
#include <mutex>

#include "base/check.h"
#include "base/spin.h"

namespace ingot {
namespace {

using Clock = std::chrono::steady_clock;

// Between two collectives of a step lie up to some ten microseconds of one rank's work more than another's, and between
// two steps what the engine does: 0.1 ms. After that an idle rank costs nothing.
constexpr int64_t kSpinNs = 200'000;

// A wait is counted in pieces of this, each at most as long as it is: a process that was stopped goes on.
constexpr auto kPiece = std::chrono::nanoseconds(std::chrono::seconds(1));

// What is no larger is copied before the others come, who then need not be waited for a second time. 64 KiB are 16 rows
// of a model of width 1024 and fit any L1 or L2 cache.
constexpr int64_t kStaged = 64 << 10;

// The number of a call and what it was given, for the others to read: valid from its first meeting to its last.
struct Offer {
  const char* call = "";
  const void* args = nullptr;
};

struct alignas(64) Mailbox {
  std::atomic<uint32_t> full{0};
  std::vector<std::byte> message;
};

// What one rank shows the others. Each word that changes in a step lies in a cache line of its own.
struct RankState {
  alignas(64) std::atomic<uint32_t> arrived{0};  // meetings that it has come to
  alignas(64) std::atomic<uint32_t> event{0};    // changes when something happens that it may wait for, while it sleeps
  std::atomic<uint32_t> sleeping{0};
  std::atomic<uint32_t> gone{0};
  std::atomic<uint32_t> reading{0};  // what others offer, where it lies
  alignas(64) Offer offer;
  std::unique_ptr<std::byte[]> staged[2] = {std::make_unique<std::byte[]>(kStaged),
                                            std::make_unique<std::byte[]>(kStaged)};
  size_t staged_values[2] = {};  // of a sum
  std::vector<Mailbox> from;     // [ranks]
};

struct Group {
  Group(int ranks, bool s, int f) : states(static_cast<size_t>(ranks)), spins(s), first(f) {
    for (RankState& state : states) state.from = std::vector<Mailbox>(states.size());
  }

  RankState& of(int rank) { return states[static_cast<size_t>(rank)]; }
  void wake(RankState& state) {
    // Sequentially consistent, as is the sleeper's own pair: either it sees the change or we see that it sleeps.
    if (state.sleeping.load() == 0) return;
    state.event.fetch_add(1);
    syscall(SYS_futex, &state.event, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }
  void wake_all() {
    for (RankState& state : states) wake(state);
  }
  void abort(const std::string& why) {
    {
      const std::lock_guard lock(mutex);
      if (aborted.load()) return;
      reason = why;
    }
    aborted.store(1);
    wake_all();
  }

  std::vector<RankState> states;
  const bool spins;
  const int first;  // rank 0 in errors
  std::atomic<uint32_t> aborted{0};
  std::mutex mutex;
  std::string reason;  // why; written before `aborted`
};

// Until the event word is no longer `seen`, or for `left`.
void sleep_on(RankState& state, uint32_t seen, std::chrono::nanoseconds left) {
  const timespec time{.tv_sec = left.count() / 1'000'000'000, .tv_nsec = left.count() % 1'000'000'000};
  syscall(SYS_futex, &state.event, FUTEX_WAIT_PRIVATE, seen, &time, nullptr, 0);
}

void copy_rows(const CommBlock& from, const CommBlock& to) {
  for (int64_t i = 0; i < to.rows; ++i)
    std::memcpy(to.data + i * to.pitch, from.data + i * from.pitch, static_cast<size_t>(to.bytes));
}

struct Reduction {
  float* x;
  size_t n;
};

class LocalComm final : public Comm {
  static_assert(kWholeSum <= kStaged);

 public:
  LocalComm(std::shared_ptr<Group> group, int rank) : group_(std::move(group)), rank_(rank), own_(group_->of(rank)) {}
  ~LocalComm() override {
    own_.gone.store(1);
    group_->wake_all();
  }

  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(group_->states.size()); }

  void all_gather(std::span<const CommBlock> parts) override { collect(CommKind::kAllGather, parts, ranks() - 1); }
  void gather(std::span<const CommBlock> parts, int root) override {
    collect(CommKind::kGather, parts, rank_ == root ? 0 : 1);
  }
  void all_reduce(std::span<float> x) override;
  void reduce_scatter(std::span<const float> x, std::span<const int64_t> begins, float* out) override;
  void all_to_all(std::span<const std::span<const std::byte>> give, std::span<const std::span<std::byte>> got) override;
  void broadcast(std::span<std::byte> bytes, int root) override;
  void send(std::span<const std::byte> message, int to) override;
  int64_t recv(std::span<std::byte> into, int from, std::chrono::milliseconds time) override;
  void abort(const std::string& reason) override { group_->abort(fmt::format("rank {}: {}", name(rank_), reason)); }

 private:
  int name(int rank) const { return group_->first + rank; }

  // Whoever is in the middle of reading what this rank offers has ended before its memory goes: all have aborted, so
  // nobody begins any more.
  [[noreturn]] void fail(const char* call, int other, const std::string& why) {
    own_.reading.store(0);
    for (const RankState& state : group_->states)
      while (state.reading.load() != 0) pause_cpu();
    throw CommError("[comm] rank {}, step {}: in {}, for rank {}: {}", name(rank_), step, call, name(other), why);
  }

  // Until `done`, which rank `other` makes true.
  template <class Done>
  void await(const char* call, int other, std::chrono::milliseconds time, const Done& done) {
    if (done()) return check_aborted(call, other);
    const auto timed = time_wait(time);
    if (group_->spins && spin(kSpinNs, done)) return check_aborted(call, other);
    std::chrono::nanoseconds left = time;
    for (;;) {
      own_.sleeping.store(1);
      const uint32_t seen = own_.event.load();
      // In this order: what a rank did before it went counts.
      const bool aborted = group_->aborted.load() != 0, gone = group_->of(other).gone.load() != 0, ready = done();
      if (!ready && !aborted && !gone && left.count() != 0) {
        const auto piece = time == kForever ? kPiece : std::min(left, kPiece);
        const Clock::time_point began = Clock::now();
        sleep_on(own_, seen, piece);
        if (time != kForever) left -= std::min(piece, std::chrono::nanoseconds(Clock::now() - began));
        continue;
      }
      own_.sleeping.store(0, std::memory_order_relaxed);
      check_aborted(call, other);
      if (ready) return;
      const std::string why = gone ? "it has gone" : fmt::format("it did not come in {} ms", time.count());
      group_->abort(
          fmt::format("rank {} waited for rank {} in {} of step {}: {}", name(rank_), name(other), call, step, why));
      fail(call, other, why);
    }
  }

  void check_aborted(const char* call, int other) {
    if (group_->aborted.load() == 0) return;
    std::string reason;
    {
      const std::lock_guard lock(group_->mutex);
      reason = group_->reason;
    }
    fail(call, other, reason);
  }

  // All ranks meet: what each wrote before is there for all, and what each has read is read.
  void meet(const char* call) {
    own_.reading.store(0);
    const uint32_t number = ++meetings_;
    own_.arrived.store(number);
    for (int r = 0; r < ranks(); ++r)
      if (r != rank_) group_->wake(group_->of(r));
    for (int r = 0; r < ranks(); ++r) {
      if (r == rank_) continue;
      const RankState& other = group_->of(r);
      await(call, r, deadline, [&] { return static_cast<int32_t>(other.arrived.load() - number) >= 0; });
    }
  }

  // Shows the others what this rank was given, and meets them.
  void begin(const char* call, const void* args) {
    own_.offer = {call, args};
    meet(call);
    // Sequentially consistent, as is the pair of a rank that fails: either we see its abort or it sees that we read.
    own_.reading.store(1);
    check_aborted(call, rank_);
    for (int r = 0; r < ranks(); ++r) {
      const char* theirs = group_->of(r).offer.call;
      if (std::strcmp(theirs, call) != 0) disagree(call, r, fmt::format("it is in {}", theirs));
    }
  }

  [[noreturn]] void disagree(const char* call, int other, const std::string& why) {
    group_->abort(fmt::format("ranks disagree: rank {} in {}, rank {}: {}", name(rank_), call, name(other), why));
    fail(call, other, why);
  }

  template <class T>
  const T& theirs(int r) const {
    return *static_cast<const T*>(group_->of(r).offer.args);
  }

  // Where rank r stages what it gives to this collective. A rank that has come to the next one has read all of this
  // one, so two places in turn are enough.
  std::byte* stage(int r) const { return group_->of(r).staged[collectives_ % 2].get(); }

  void collect(CommKind kind, std::span<const CommBlock> parts, int receivers);
  void add_up(int64_t first, int64_t last, float* out, const char* call);

  const std::shared_ptr<Group> group_;
  const int rank_;
  RankState& own_;
  uint32_t meetings_ = 0;
  uint32_t collectives_ = 0;
};

void LocalComm::collect(CommKind kind, std::span<const CommBlock> parts, int receivers) {
  CHECK(static_cast<int>(parts.size()) == ranks(), "{} parts for {} ranks", parts.size(), ranks());
  static constexpr const char* kCall = "all_gather";
  int64_t most = 0;
  for (const CommBlock& part : parts) most = std::max(most, part.rows * part.bytes);
  const CommBlock& own = parts[static_cast<size_t>(rank_)];
  const auto timed = time_collective(kind, own.rows * own.bytes * receivers);
  ++collectives_;
  if (most <= kStaged) {
    const auto staged = [&](int r, const CommBlock& like) {
      return CommBlock{.data = stage(r), .rows = like.rows, .bytes = like.bytes, .pitch = like.bytes};
    };
    copy_rows(own, staged(rank_, own));
    meet(kCall);
    for (int r = 0; r < ranks(); ++r) {
      const CommBlock& part = parts[static_cast<size_t>(r)];
      if (r != rank_ && part.data != nullptr) copy_rows(staged(r, part), part);
    }
    return;
  }
  begin(kCall, &own);
  for (int r = 0; r < ranks(); ++r) {
    const CommBlock& part = parts[static_cast<size_t>(r)];
    if (r == rank_) continue;
    const CommBlock& given = theirs<CommBlock>(r);
    if (given.rows != part.rows || given.bytes != part.bytes)
      disagree(kCall, r,
               fmt::format("it gives {} x {} bytes, not {} x {}", given.rows, given.bytes, part.rows, part.bytes));
    if (part.data != nullptr) copy_rows(given, part);
  }
  meet(kCall);
}

// The sum of [first, last) of what all ranks offer, in their order.
void LocalComm::add_up(int64_t first, int64_t last, float* out, const char* call) {
  const size_t n = theirs<Reduction>(rank_).n;
  for (int r = 0; r < ranks(); ++r)
    if (theirs<Reduction>(r).n != n)
      disagree(call, r, fmt::format("it has {} values, not {}", theirs<Reduction>(r).n, n));
  for (int64_t i = first; i < last; ++i) {
    float sum = theirs<Reduction>(0).x[i];
    for (int r = 1; r < ranks(); ++r) sum += theirs<Reduction>(r).x[i];
    out[i - first] = sum;
  }
}

// A short sum is made by every rank, of what all have staged: one meeting. Of a long one each rank sums its share in
// place, which no other reads of it, and then takes the others' shares.
void LocalComm::all_reduce(std::span<float> x) {
  static constexpr const char* kCall = "all_reduce";
  const auto timed = time_collective(CommKind::kAllReduce, reduced_bytes(x.size_bytes()));
  ++collectives_;
  if (x.size_bytes() <= kWholeSum) {
    std::copy(x.begin(), x.end(), reinterpret_cast<float*>(stage(rank_)));
    own_.staged_values[collectives_ % 2] = x.size();
    meet(kCall);
    for (int r = 0; r < ranks(); ++r) {
      if (const size_t n = group_->of(r).staged_values[collectives_ % 2]; n != x.size())
        disagree(kCall, r, fmt::format("it has {} values, not {}", n, x.size()));
    }
    std::copy_n(reinterpret_cast<const float*>(stage(0)), x.size(), x.data());
    for (int r = 1; r < ranks(); ++r) {
      const auto* more = reinterpret_cast<const float*>(stage(r));
      for (size_t i = 0; i < x.size(); ++i) x[i] += more[i];
    }
    return;
  }
  const Reduction own{x.data(), x.size()};
  const auto first = [&](int r) { return static_cast<int64_t>(x.size()) * r / ranks(); };
  begin(kCall, &own);
  add_up(first(rank_), first(rank_ + 1), x.data() + first(rank_), kCall);
  meet(kCall);
  own_.reading.store(1);
  check_aborted(kCall, rank_);
  for (int r = 0; r < ranks(); ++r)
    if (r != rank_)
      std::copy(theirs<Reduction>(r).x + first(r), theirs<Reduction>(r).x + first(r + 1), x.data() + first(r));
  meet(kCall);
}

void LocalComm::reduce_scatter(std::span<const float> x, std::span<const int64_t> begins, float* out) {
  static constexpr const char* kCall = "reduce_scatter";
  CHECK(static_cast<int>(begins.size()) == ranks() + 1 && begins.back() <= static_cast<int64_t>(x.size()),
        "{} borders for {} ranks", begins.size(), ranks());
  const auto timed = time_collective(CommKind::kReduceScatter, scattered_bytes(x.size_bytes()));
  ++collectives_;
  const Reduction own{const_cast<float*>(x.data()), x.size()};
  begin(kCall, &own);
  add_up(begins[static_cast<size_t>(rank_)], begins[static_cast<size_t>(rank_) + 1], out, kCall);
  meet(kCall);
}

void LocalComm::all_to_all(std::span<const std::span<const std::byte>> give,
                           std::span<const std::span<std::byte>> got) {
  static constexpr const char* kCall = "all_to_all";
  CHECK(static_cast<int>(give.size()) == ranks() && give.size() == got.size(), "{} and {} parts for {} ranks",
        give.size(), got.size(), ranks());
  const auto timed = time_collective(CommKind::kAllToAll, given_bytes(give));
  ++collectives_;
  begin(kCall, &give);
  for (int r = 0; r < ranks(); ++r) {
    const std::span<const std::byte> from =
        theirs<std::span<const std::span<const std::byte>>>(r)[static_cast<size_t>(rank_)];
    const std::span<std::byte> to = got[static_cast<size_t>(r)];
    if (from.size() != to.size()) disagree(kCall, r, fmt::format("it gives {} bytes, not {}", from.size(), to.size()));
    std::copy(from.begin(), from.end(), to.begin());
  }
  meet(kCall);
}

void LocalComm::broadcast(std::span<std::byte> bytes, int root) {
  static constexpr const char* kCall = "broadcast";
  CHECK(root >= 0 && root < ranks(), "rank {} of {}", root, ranks());
  const auto timed =
      time_collective(CommKind::kBroadcast, rank_ == root ? static_cast<int64_t>(bytes.size()) * (ranks() - 1) : 0);
  ++collectives_;
  begin(kCall, &bytes);
  if (rank_ != root) {
    const std::span<std::byte> from = theirs<std::span<std::byte>>(root);
    if (from.size() != bytes.size())
      disagree(kCall, root, fmt::format("it gives {} bytes, not {}", from.size(), bytes.size()));
    std::copy(from.begin(), from.end(), bytes.begin());
  }
  meet(kCall);
}

void LocalComm::send(std::span<const std::byte> message, int to) {
  RankState& receiver = group_->of(to);
  Mailbox& box = receiver.from[static_cast<size_t>(rank_)];
  await("send", to, deadline, [&] { return box.full.load() == 0; });
  meter.add_bytes(CommKind::kMessage, static_cast<int64_t>(message.size()));
  box.message.assign(message.begin(), message.end());
  box.full.store(1);
  group_->wake(receiver);
}

int64_t LocalComm::recv(std::span<std::byte> into, int from, std::chrono::milliseconds time) {
  Mailbox& box = own_.from[static_cast<size_t>(from)];
  await("recv", from, time, [&] { return box.full.load() != 0; });
  const size_t bytes = box.message.size();
  if (bytes > into.size()) disagree("recv", from, fmt::format("a message of {} bytes, at most {}", bytes, into.size()));
  std::copy(box.message.begin(), box.message.end(), into.begin());
  box.full.store(0);
  group_->wake(group_->of(from));
  return static_cast<int64_t>(bytes);
}

}  // namespace

std::vector<std::unique_ptr<Comm>> make_local_comms(int ranks, bool spins, int first) {
  CHECK(ranks >= 1, "{} ranks", ranks);
  const auto group = std::make_shared<Group>(ranks, spins, first);
  std::vector<std::unique_ptr<Comm>> all;
  for (int r = 0; r < ranks; ++r) all.push_back(std::make_unique<LocalComm>(group, r));
  return all;
}

}  // namespace ingot
