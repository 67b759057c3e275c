#include "comm/comm_mpi.h"

#include <poll.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <ctime>

#include "base/check.h"
#include "base/spin.h"

namespace ingot {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// As comm_local's: parts of a step lie some ten microseconds apart, two steps 0.1 ms.
constexpr int64_t kSpinNs = 200'000;
// A nap wakes 60 µs late. In a step a rank that sleeps holds up the others; between steps 125 looks a second are 0.4 %
// of a core.
constexpr std::chrono::nanoseconds kFirstNap = 20us, kLongestNapOfStep = 250us, kLongestNap = 8ms;
// More than this between two looks is counted as this: a process that was stopped goes on.
constexpr std::chrono::nanoseconds kPiece = 1s;
// How often a wait looks whether the other was heard of.
constexpr std::chrono::nanoseconds kLookForLife = 100ms;
// Until the end of a rank's first step, which may take the machine's memory and threads away from the one that beats:
// eight beats. Later kStepWait, which is four.
constexpr std::chrono::milliseconds kLoadingSilence = 8'000ms;

constexpr int kNoteTag = 1, kBeatTag = 2, kEndTag = 3;  // each end has two, from there on

void copy_rows(const CommBlock& from, const CommBlock& to) {
  for (int64_t i = 0; i < to.rows; ++i)
    std::memcpy(to.data + i * to.pitch, from.data + i * from.pitch, static_cast<size_t>(to.bytes));
}

CommBlock packed(std::byte* data, const CommBlock& like) {
  return {.data = data, .rows = like.rows, .bytes = like.bytes, .pitch = like.bytes};
}

void grow(std::vector<std::byte>& memory, int64_t bytes) {
  if (memory.size() < static_cast<size_t>(bytes)) memory.resize(static_cast<size_t>(bytes));
}

}  // namespace

MpiComm::MpiComm(std::shared_ptr<Shared> shared, int rank, int first, int ranks)
    : shared_(std::move(shared)),
      mpi_(shared_->mpi),
      rank_(rank),
      first_(first),
      message_tag_(kEndTag + 2 * shared_->channels),
      collective_tag_(message_tag_ + 1),
      give_(static_cast<size_t>(ranks)),
      got_(give_.size()),
      outgoing_(give_.size()) {
  ++shared_->channels;
}

MpiComm::MpiComm(const IngotMpi& mpi, int rank, int ranks)
    : MpiComm(std::make_shared<Shared>(mpi, std::vector<MpiPeer>(static_cast<size_t>(ranks))), rank, 0, ranks) {
  mpi_.recv(&shared_->note_in, sizeof(Note), -1, kNoteTag, &shared_->note);
}

MpiComm::MpiComm(const MpiComm& world, int first, int ranks)
    : MpiComm(world.shared_, world.rank_ - first, first, ranks) {
  CHECK(world.first_ == 0 && rank_ >= 0 && rank_ < ranks && first + ranks <= world.ranks(), "rank {} of [{}, {})",
        world.rank_, first, first + ranks);
}

void MpiComm::beat() {
  CHECK(message_tag_ == kEndTag && !shared_->beats, "not of the world, or again");
  shared_->beats = std::make_unique<MpiBeats>(mpi_, shared_->mutex, rank_, ranks(), kBeatTag);
  shared_->beats->start();
}

void MpiComm::fall_silent() {
  if (shared_->beats) shared_->beats->fall_silent();
}

void MpiComm::close() {
  if (shared_->beats) shared_->beats->stop();
  const std::lock_guard lock(shared_->mutex);
  mpi_.cancel(&shared_->note);
}

void MpiComm::set_peers(std::vector<MpiPeer> peers, bool spins) {
  CHECK(peers.size() == shared_->peers.size(), "{} peers of {}", peers.size(), shared_->peers.size());
  shared_->peers = std::move(peers);
  shared_->spins = spins;
}

std::string MpiComm::name(int rank) const {
  const std::string& host = peer(rank).host;
  return host.empty() ? fmt::format("rank {}", first_ + rank) : fmt::format("rank {} on {}", first_ + rank, host);
}

std::string MpiComm::describe(int code) const {
  char text[256] = "";
  mpi_.describe(code, text, sizeof(text));
  return text;
}

void MpiComm::fail(const char* call, int other, const std::string& why) {
  throw CommError("[comm] {}, step {}: in {}, for {}: {}", name(rank_), step, call, name(other), why);
}

// This rank is the one that noticed: the others are told.
void MpiComm::lose(const char* call, int other, const std::string& why) {
  if (!aborted()) shared_->lost.store(first_ + other);
  abort_with(fmt::format("{} waited for {} in {} of step {}: {}", name(rank_), name(other), call, step, why),
             first_ + other);
  fail(call, other, why);
}

void MpiComm::check_aborted(const char* call, int other) {
  if (!aborted()) return;
  std::string reason;
  {
    const std::lock_guard lock(shared_->mutex);
    reason = shared_->reason;
  }
  fail(call, other, reason);
}

void MpiComm::abort(const std::string& reason) { abort_with(fmt::format("{}: {}", name(rank_), reason), -1); }

void MpiComm::abort_with(const std::string& reason, int lost) {
  const std::lock_guard lock(shared_->mutex);
  if (aborted()) return;
  shared_->reason = reason;
  shared_->aborted.store(true);
  Note& note = shared_->note_out;
  note.lost = lost;
  const size_t length = std::min(reason.size(), sizeof(note.text));
  std::copy_n(reason.data(), length, note.text);
  const auto bytes = static_cast<int64_t>(offsetof(Note, text) + length);
  for (int r = 0; r < static_cast<int>(shared_->peers.size()); ++r) {
    uint64_t request = 0;
    if (r != first_ + rank_) mpi_.send(&note, bytes, r, kNoteTag, &request);
  }
}

void MpiComm::read_note() {
  const std::lock_guard lock(shared_->mutex);
  int done = 0;
  int64_t bytes = 0;
  if (aborted() || mpi_.test(&shared_->note, &done, &bytes) != 0 || done == 0) return;
  const Note& note = shared_->note_in;
  const auto length = bytes - static_cast<int64_t>(offsetof(Note, text));
  shared_->reason.assign(note.text, static_cast<size_t>(std::clamp<int64_t>(length, 0, sizeof(note.text))));
  shared_->given_up.store(note.lost == first_ + rank_);
  shared_->aborted.store(true);
}

void MpiComm::start(const char* call, Pending one, const std::byte* data, int tag, std::vector<Pending>& pending) {
  int code = 0;
  {
    const std::lock_guard lock(shared_->mutex);
    const int other = first_ + one.other;
    code = one.receives ? mpi_.recv(const_cast<std::byte*>(data), one.bytes, other, tag, &one.request)
                        : mpi_.send(data, one.bytes, other, tag, &one.request);
  }
  if (code != 0) lose(call, one.other, describe(code));
  pending.push_back(one);
}

bool MpiComm::poll(const char* call, std::vector<Pending>& pending) {
  bool all = true;
  for (Pending& one : pending) {
    if (one.done) continue;
    int done = 0, code = 0;
    int64_t bytes = 0;
    {
      const std::lock_guard lock(shared_->mutex);
      code = mpi_.test(&one.request, &done, &bytes);
    }
    if (code != 0) lose(call, one.other, describe(code));
    one.done = done != 0;
    if (one.done && one.receives) one.bytes = bytes;
    all &= one.done;
  }
  return all;
}

// Sleeps for `time`, or until the process of one that is waited for has ended: then that rank, else -1.
int MpiComm::nap(const std::vector<Pending>& pending, std::chrono::nanoseconds time) const {
  constexpr size_t kMost = 64;
  pollfd ends[kMost];
  int of[kMost];
  nfds_t n = 0;
  for (const Pending& one : pending) {
    const int pidfd = peer(one.other).pidfd;
    if (one.done || pidfd < 0 || n == kMost) continue;
    of[n] = one.other;
    ends[n++] = {.fd = pidfd, .events = POLLIN, .revents = 0};
  }
  const timespec spec{.tv_sec = time.count() / 1'000'000'000, .tv_nsec = time.count() % 1'000'000'000};
  if (::ppoll(ends, n, &spec, nullptr) <= 0) return -1;
  for (nfds_t i = 0; i < n; ++i)
    if (ends[i].revents != 0) return of[i];
  return -1;
}

void MpiComm::await(const char* call, std::vector<Pending>& pending, std::chrono::milliseconds time) {
  const auto done = [&] { return poll(call, pending); };
  if (done()) return;
  const auto timed = time_wait(time);
  // Where ranks share a core, one that spins keeps it from the one that it waits for.
  if (spin(shared_->spins ? kSpinNs : 0, done)) return;
  std::chrono::nanoseconds left = time, napped = kFirstNap;
  Silence silence;
  Clock::time_point looked = Clock::now();
  int gone = -1;
  for (;;) {
    read_note();
    const bool ready = done();
    const auto waits = std::ranges::find_if(pending, [](const Pending& one) { return !one.done; });
    const int other = waits == pending.end() ? pending.front().other : waits->other;
    check_aborted(call, other);
    if (ready) break;
    if (gone >= 0) lose(call, gone, "its process has ended");
    if (time != kForever && left.count() <= 0) lose(call, other, fmt::format("it did not come in {} ms", time.count()));
    gone = nap(pending, napped);
    napped = std::min(napped * 2, time == kForever ? kLongestNap : kLongestNapOfStep);
    const Clock::time_point now = Clock::now();
    const auto passed = std::min(kPiece, std::chrono::nanoseconds(now - looked));
    left -= passed;
    looked = now;
    if (shared_->beats) check_silence(call, other, silence, passed);
  }
}

void MpiComm::check_silence(const char* call, int other, Silence& silence, std::chrono::nanoseconds passed) {
  silence.unlooked += passed;
  if (silence.unlooked < kLookForLife) return;
  const uint32_t heard = shared_->beats->heard(first_ + other);
  const bool same = other == silence.other && heard == silence.heard;
  silence = {.other = other, .heard = heard, .lasts = same ? silence.lasts + silence.unlooked : 0ns};
  const auto most = step <= 1 ? kLoadingSilence : kStepWait;
  if (silence.lasts > most) lose(call, other, fmt::format("it was not heard of in {} ms", most.count()));
}

// Sends and receives what give_ and got_ say. got_[r].bytes must be known; got_[r].at is set here.
void MpiComm::exchange(const char* call) {
  check_aborted(call, rank_);
  int64_t bytes = 0;
  for (Part& part : got_) {
    part.at = bytes;
    bytes += std::max<int64_t>(part.bytes, 0);
  }
  grow(got_memory_, bytes);
  pending_.clear();
  for (int r = 0; r < ranks(); ++r) {
    const Part& part = got_[static_cast<size_t>(r)];
    if (r == rank_ || part.bytes < 0) continue;
    start(call, {.other = r, .receives = true, .bytes = part.bytes}, got_memory_.data() + part.at, collective_tag_,
          pending_);
  }
  for (int i = 1; i < ranks(); ++i) {
    const int r = (rank_ + i) % ranks();  // not all to the same one at once
    const Part& part = give_[static_cast<size_t>(r)];
    if (part.bytes < 0) continue;
    start(call, {.other = r, .bytes = part.bytes}, give_memory_.data() + part.at, collective_tag_, pending_);
  }
  if (pending_.empty()) return;
  await(call, pending_, deadline);
  for (const Pending& one : pending_) {
    const int64_t want = got_[static_cast<size_t>(one.other)].bytes;
    if (one.receives && one.bytes != want)
      lose(call, one.other, fmt::format("ranks disagree: it gives {} bytes, not {}", one.bytes, want));
  }
}

bool MpiComm::alive(int rank) const {
  pollfd end{.fd = peer(rank).pidfd, .events = POLLIN, .revents = 0};
  const timespec now{};
  return first_ + rank != lost() && ::ppoll(&end, 1, &now, nullptr) <= 0;
}

void MpiComm::all_gather(std::span<const CommBlock> parts) {
  const CommBlock& own = parts[static_cast<size_t>(rank_)];
  const auto timed = time_collective(CommKind::kAllGather, own.rows * own.bytes * (ranks() - 1));
  collect("all_gather", parts, -1);
}

void MpiComm::gather(std::span<const CommBlock> parts, int root) {
  const CommBlock& own = parts[static_cast<size_t>(rank_)];
  const auto timed = time_collective(CommKind::kGather, rank_ == root ? 0 : own.rows * own.bytes);
  collect("gather", parts, root);
}

void MpiComm::collect(const char* call, std::span<const CommBlock> parts, int root) {
  CHECK(static_cast<int>(parts.size()) == ranks(), "{} parts for {} ranks", parts.size(), ranks());
  const CommBlock& own = parts[static_cast<size_t>(rank_)];
  for (int r = 0; r < ranks(); ++r) {
    const CommBlock& part = parts[static_cast<size_t>(r)];
    give_[static_cast<size_t>(r)] = {.bytes = r != rank_ && (root < 0 || root == r) ? own.rows * own.bytes : -1};
    got_[static_cast<size_t>(r)] = {.bytes = r != rank_ && (root < 0 || root == rank_) ? part.rows * part.bytes : -1};
  }
  grow(give_memory_, own.rows * own.bytes);
  copy_rows(own, packed(give_memory_.data(), own));
  exchange(call);
  for (int r = 0; r < ranks(); ++r) {
    const CommBlock& part = parts[static_cast<size_t>(r)];
    const Part& got = got_[static_cast<size_t>(r)];
    if (got.bytes > 0 && part.data != nullptr) copy_rows(packed(got_memory_.data() + got.at, part), part);
  }
}

// give[r] to rank r; what they give lies in got_memory_. REQUIRES: got_[r].bytes is set.
void MpiComm::swap(const char* call, std::span<const std::span<const std::byte>> give) {
  int64_t bytes = 0;
  for (size_t r = 0; r < give.size(); ++r) {
    give_[r] = {.at = bytes, .bytes = static_cast<int64_t>(give[r].size())};
    bytes += give_[r].bytes;
  }
  grow(give_memory_, bytes);
  for (size_t r = 0; r < give.size(); ++r)
    std::ranges::copy(give[r], give_memory_.begin() + static_cast<ptrdiff_t>(give_[r].at));
  exchange(call);
}

void MpiComm::all_to_all(std::span<const std::span<const std::byte>> give, std::span<const std::span<std::byte>> got) {
  CHECK(static_cast<int>(give.size()) == ranks() && give.size() == got.size(), "{} and {} parts for {} ranks",
        give.size(), got.size(), ranks());
  const auto own = static_cast<size_t>(rank_);
  CHECK(give[own].size() == got[own].size(), "{} bytes, not {}", give[own].size(), got[own].size());
  const auto timed = time_collective(CommKind::kAllToAll, given_bytes(give));
  for (size_t r = 0; r < got.size(); ++r) got_[r] = {.bytes = static_cast<int64_t>(got[r].size())};
  swap("all_to_all", give);
  for (size_t r = 0; r < got.size(); ++r) {
    if (r == own)
      std::ranges::copy(give[r], got[r].begin());
    else
      std::copy_n(got_memory_.begin() + static_cast<ptrdiff_t>(got_[r].at), got[r].size(), got[r].begin());
  }
}

// The sum of the `count` floats that each rank gave, in the order of ranks.
void MpiComm::add_up(std::span<const std::byte> own, size_t count, float* out) {
  std::ranges::copy(own, got_memory_.begin() + static_cast<ptrdiff_t>(got_[static_cast<size_t>(rank_)].at));
  const auto value = [&](size_t r, size_t i) {
    float v = 0;
    std::memcpy(&v, got_memory_.data() + got_[r].at + i * sizeof(float), sizeof(float));
    return v;
  };
  for (size_t i = 0; i < count; ++i) {
    float sum = value(0, i);
    for (size_t r = 1; r < outgoing_.size(); ++r) sum += value(r, i);
    out[i] = sum;
  }
}

// Everyone sends everyone its part, which is then summed.
void MpiComm::scatter_sum(const char* call, std::span<const float> x, std::span<const int64_t> begins, float* out) {
  const auto own = static_cast<size_t>(rank_);
  const auto count = static_cast<size_t>(begins[own + 1] - begins[own]);
  std::vector<std::span<const std::byte>> give;
  for (size_t r = 0; r < outgoing_.size(); ++r) {
    give.push_back(
        std::as_bytes(x.subspan(static_cast<size_t>(begins[r]), static_cast<size_t>(begins[r + 1] - begins[r]))));
    got_[r] = {.bytes = static_cast<int64_t>(count * sizeof(float))};
  }
  swap(call, give);
  add_up(give[own], count, out);
}

void MpiComm::reduce_scatter(std::span<const float> x, std::span<const int64_t> begins, float* out) {
  CHECK(static_cast<int>(begins.size()) == ranks() + 1 && begins.back() <= static_cast<int64_t>(x.size()),
        "{} borders for {} ranks", begins.size(), ranks());
  const auto timed = time_collective(CommKind::kReduceScatter, scattered_bytes(x.size_bytes()));
  scatter_sum("reduce_scatter", x, begins, out);
}

void MpiComm::all_reduce(std::span<float> x) {
  const auto timed = time_collective(CommKind::kAllReduce, reduced_bytes(x.size_bytes()));
  if (x.size_bytes() <= kWholeSum) {
    for (Part& part : got_) part = {.bytes = static_cast<int64_t>(x.size_bytes())};
    const std::vector<std::span<const std::byte>> give(outgoing_.size(), std::as_bytes(x));
    swap("all_reduce", give);
    return add_up(give[static_cast<size_t>(rank_)], x.size(), x.data());
  }
  std::vector<int64_t> begins;
  for (int r = 0; r <= ranks(); ++r) begins.push_back(static_cast<int64_t>(x.size()) * r / ranks());
  const auto first = static_cast<size_t>(begins[static_cast<size_t>(rank_)]);
  scatter_sum("all_reduce", x, begins, x.data() + first);
  std::vector<CommBlock> parts;
  for (size_t r = 0; r + 1 < begins.size(); ++r)
    parts.push_back({.data = reinterpret_cast<std::byte*>(x.data() + begins[r]),
                     .bytes = (begins[r + 1] - begins[r]) * static_cast<int64_t>(sizeof(float))});
  collect("all_reduce", parts, -1);
}

void MpiComm::broadcast(std::span<std::byte> bytes, int root) {
  CHECK(root >= 0 && root < ranks(), "rank {} of {}", root, ranks());
  const auto length = static_cast<int64_t>(bytes.size());
  const auto timed = time_collective(CommKind::kBroadcast, rank_ == root ? length * (ranks() - 1) : 0);
  for (int r = 0; r < ranks(); ++r) {
    give_[static_cast<size_t>(r)] = {.bytes = rank_ == root ? length : -1};
    got_[static_cast<size_t>(r)] = {.bytes = r == root ? length : -1};
  }
  grow(give_memory_, length);
  if (rank_ == root) std::ranges::copy(bytes, give_memory_.begin());
  exchange("broadcast");
  if (rank_ != root) std::copy_n(got_memory_.begin(), bytes.size(), bytes.begin());
}

void MpiComm::send(std::span<const std::byte> message, int to) {
  Outgoing& out = outgoing_[static_cast<size_t>(to)];
  check_aborted("send", to);
  if (!out.sent.empty()) await("send", out.sent, deadline);
  out.sent.clear();
  meter.add_bytes(CommKind::kMessage, static_cast<int64_t>(message.size()));
  out.message.assign(message.begin(), message.end());
  start("send", {.other = to, .bytes = static_cast<int64_t>(message.size())}, out.message.data(), message_tag_,
        out.sent);
}

int64_t MpiComm::recv(std::span<std::byte> into, int from, std::chrono::milliseconds time) {
  check_aborted("recv", from);
  grow(got_memory_, static_cast<int64_t>(into.size()));
  pending_.clear();
  start("recv", {.other = from, .receives = true, .bytes = static_cast<int64_t>(into.size())}, got_memory_.data(),
        message_tag_, pending_);
  await("recv", pending_, time);
  std::copy_n(got_memory_.begin(), pending_.front().bytes, into.begin());
  return pending_.front().bytes;
}

}  // namespace ingot
