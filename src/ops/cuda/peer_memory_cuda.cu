#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/check.h"
#include "base/error.h"
#include "comm/from_all.h"
#include "cuda/peer_board.h"
#include "cuda/peer_words.h"
#include "cuda/peers.cuh"
#include "ops/cuda/peer_memory.h"
#include "tensor/cuda_peer.h"

namespace ingot::cuda {
namespace {

// Words that each writes to another at the start.
constexpr int64_t kProbeBytes = kPeerStageBytes / kMostPeers;
constexpr std::chrono::seconds kProbeDeadline{5};

constexpr std::chrono::nanoseconds kDeadline = Comm::kStepWait - std::chrono::milliseconds(500);
// The host plays devices one after another, far slower.
constexpr std::chrono::nanoseconds kEmulatedDeadline = std::chrono::minutes(5);

bool all_of(Comm& comm, bool own) {
  return std::ranges::all_of(from_all<char>(comm, own ? 1 : 0), [](char yes) { return yes != 0; });
}

bool ends_in_time(StreamRef stream) {
  Event end;
  end.record(stream);
  const auto latest = std::chrono::steady_clock::now() + kProbeDeadline;
  while (!end.done()) {
    if (std::chrono::steady_clock::now() > latest) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

uint32_t key_of(int from, int to) { return static_cast<uint32_t>(1 + from * kMostPeers + to); }

}  // namespace

struct PeerMemory::Board {
  DeviceMemory device;
  PinnedMemory host;     // one of the two
  PinnedMemory lost{4};  // Peers::lost of its rank

  std::byte* data() const { return device.data() != nullptr ? device.data() : host.data(); }
};

PeerMemory::PeerMemory(Comm& comm, int device, std::chrono::nanoseconds deadline)
    : comm_(comm), devices_(from_all(comm, device)) {
  if (comm.ranks() > kMostPeers) throw Error("[tp] {} ranks on GPUs, at most {}", comm.ranks(), kMostPeers);
  peers_.rank = comm.rank();
  peers_.ranks = comm.ranks();
  peers_.stage_bytes = kPeerStageBytes;
  if (deadline.count() == 0) deadline = is_emulated() ? kEmulatedDeadline : kDeadline;
  peers_.deadline_ns = deadline.count();
  peers_.direct = reaches_all();
  share(make_board(peers_.direct));
  if (!peers_.direct || words_arrive()) return;
  peers_.direct = false;
  share(make_board(false));
}

PeerMemory::~PeerMemory() = default;

int64_t PeerMemory::bytes() const { return boards_[static_cast<size_t>(peers_.rank)]->device.bytes(); }

bool PeerMemory::reaches_all() {
  const int own = devices_[static_cast<size_t>(comm_.rank())];
  bool reaches = true;
  for (const int other : devices_) reaches = reaches && reaches_peer(own, other);
  if (!all_of(comm_, reaches)) return false;
  try {
    for (const int other : devices_) reach_peer(other);
  } catch (const Error&) {
    reaches = false;  // the driver claims what it does not do: the host's memory serves as well
  }
  return all_of(comm_, reaches);
}

std::shared_ptr<PeerMemory::Board> PeerMemory::make_board(bool direct) const {
  auto board = std::make_shared<Board>();
  std::memset(board->lost.data(), 0, 4);
  if (!direct) {
    board->host = PinnedMemory(kPeerBoardBytes);
    std::memset(board->host.data(), 0, static_cast<size_t>(kPeerHandsAt));
    std::memset(board->host.data() + kPeerHandsAt, 0xff, static_cast<size_t>(2 * kPeerHandBytes));  // kNothing
    return board;
  }
  board->device = DeviceMemory(kPeerBoardBytes);
  const Stream stream;
  fill_bytes(board->device.data(), 0, kPeerHandsAt, stream.ref());
  fill_bytes(board->device.data() + kPeerHandsAt, 0xff, 2 * kPeerHandBytes, stream.ref());  // kNothing
  stream.synchronize();
  return board;
}

void PeerMemory::share(std::shared_ptr<Board> own) {
  const std::vector<const std::shared_ptr<Board>*> places = from_all<const std::shared_ptr<Board>*>(comm_, &own);
  Boards boards;
  for (const std::shared_ptr<Board>* place : places) boards.push_back(*place);
  from_all<char>(comm_, 0);  // all have copied
  boards_ = std::move(boards);
  for (size_t r = 0; r < boards_.size(); ++r) {
    peers_.flags[r] = reinterpret_cast<uint32_t*>(boards_[r]->data());
    peers_.stage[r] = boards_[r]->data() + kPeerStageAt;
  }
  peers_.lost = reinterpret_cast<uint32_t*>(own->lost.data());
  peers_.meetings = reinterpret_cast<uint32_t*>(own->data() + kPeerMeetingsAt);
}

// Each writes to a place of its own in the memory of each other device, whose kernels then count what came wrong.
bool PeerMemory::words_arrive() {
  auto stream = std::make_unique<Stream>();
  auto wrong = std::make_unique<DeviceMemory>(256);
  const int own = comm_.rank();
  const auto place = [&](int owner, int writer) { return peers_.stage[owner] + writer * kProbeBytes; };
  const auto expect_in_time = [&] {
    const bool late = !ends_in_time(stream->ref());
    if (late) {
      (void)stream.release();  // to free what it works on would wait for it
      (void)wrong.release();
    }
    if (late) comm_.abort("words written to another GPU were not there in time");
    if (late || !all_of(comm_, true)) throw Error("[tp] words that one GPU wrote to another were not there in 5 s");
  };
  for (int r = 0; r < comm_.ranks(); ++r)
    if (r != own) write_pattern(place(r, own), kProbeBytes, key_of(own, r), stream->ref());
  expect_in_time();
  fill_bytes(wrong->data(), 0, 4, stream->ref());
  for (int r = 0; r < comm_.ranks(); ++r) {
    if (r == own) continue;
    count_wrong(place(own, r), kProbeBytes, key_of(r, own), reinterpret_cast<uint32_t*>(wrong->data()), stream->ref());
  }
  expect_in_time();
  uint32_t count = 0;
  copy_to_host(&count, wrong->data(), 4, stream->ref());
  stream->synchronize();
  return all_of(comm_, count == 0);
}

void PeerMemory::give_up() {
  for (const std::shared_ptr<Board>& board : boards_)
    std::atomic_ref(*reinterpret_cast<uint32_t*>(board->lost.data())).store(kNobody);
}

void PeerMemory::check() const {
  const uint32_t lost = std::atomic_ref(*peers_.lost).load();
  if (lost == 0) return;
  if (lost == kNobody) from_all<char>(comm_, 0);  // throws why: who gave up has told the host's threads before
  throw CommError("[comm] rank {}, step {}: in a collective of the device, for rank {}: it did not come in {} ms",
                  peers_.rank, comm_.step, lost - 1, peers_.deadline_ns / 1'000'000);
}

}  // namespace ingot::cuda
