// Ranks that are processes, through an MPI library. Every message goes through memory of its own, so that one which
// fails leaves nothing behind that MPI may still write. A rank that waits spins for as long as parts of a step lie
// apart, then looks in growing distances: an idle one takes less than a hundredth of a core. The death of a process on
// the same machine is seen at once, of one elsewhere by its silence or the deadline.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "comm/mpi_beats.h"
#include "comm/mpi_plugin.h"

namespace ingot {

struct MpiPeer {
  std::string host;
  int pidfd = -1;  // readable once it has ended; -1: on another machine, or this rank itself
};

class MpiComm final : public Comm {
 public:
  // REQUIRES: mpi.init() has given these numbers. Must not be destroyed once it has failed.
  MpiComm(const IngotMpi& mpi, int rank, int ranks);
  // Another end of a rank, for the ranks [first, first + ranks) among themselves and for one other thread; when one
  // fails all do. Errors, hosts' names and lost() tell of the world's numbers. All ranks make theirs in one order.
  MpiComm(const MpiComm& world, int first, int ranks);
  // From now on all ranks hear once a second that this process lives, and no wait of its ends outlasts the silence of
  // the rank that it is for. The world's end, once; all ranks do.
  void beat();
  // Others hear no more of this process: the world's end, before mpi.abort().
  void fall_silent();
  // Nothing is sent or received any more: the world's end, before mpi.finalize().
  void close();

  // Who the ranks are, for errors and their ends. `spins`: every rank has a core of its own.
  void set_peers(std::vector<MpiPeer> peers, bool spins);
  // "rank 1 on HOST".
  std::string name(int rank) const;

  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(outgoing_.size()); }

  std::string host(int rank) const override { return peer(rank).host; }
  bool alive(int rank) const override;

  void all_gather(std::span<const CommBlock> parts) override;
  void gather(std::span<const CommBlock> parts, int root) override;
  void all_reduce(std::span<float> x) override;
  void reduce_scatter(std::span<const float> x, std::span<const int64_t> begins, float* out) override;
  void all_to_all(std::span<const std::span<const std::byte>> give, std::span<const std::span<std::byte>> got) override;
  void broadcast(std::span<std::byte> bytes, int root) override;
  void send(std::span<const std::byte> message, int to) override;
  int64_t recv(std::span<std::byte> into, int from, std::chrono::milliseconds time) override;
  void abort(const std::string& reason) override;

  // Whether a wait has failed or abort() was called, here or there.
  bool aborted() const { return shared_->aborted.load(); }
  // The rank that this one has lost by itself; -1: none.
  int lost() const { return shared_->lost.load(); }
  // Another has lost this one, which was stopped and goes on: the other says so.
  bool given_up() const { return shared_->given_up.load(); }

 private:
  struct Pending {
    int other = 0;
    bool receives = false;
    uint64_t request = 0;
    int64_t bytes = 0;  // received: at most, then how many came
    bool done = false;
  };
  struct Outgoing {
    std::vector<std::byte> message;
    std::vector<Pending> sent;  // at most one
  };

  // Of the rank that a wait is for; seconds in which this process was stopped count once.
  struct Silence {
    int other = -1;
    uint32_t heard = 0;
    std::chrono::nanoseconds lasts{0}, unlooked{0};
  };
  void check_silence(const char* call, int other, Silence& silence, std::chrono::nanoseconds passed);

  [[noreturn]] void fail(const char* call, int other, const std::string& why);
  [[noreturn]] void lose(const char* call, int other, const std::string& why);
  void check_aborted(const char* call, int other);
  void start(const char* call, Pending one, const std::byte* data, int tag, std::vector<Pending>& pending);
  bool poll(const char* call, std::vector<Pending>& pending);
  void await(const char* call, std::vector<Pending>& pending, std::chrono::milliseconds time);
  int nap(const std::vector<Pending>& pending, std::chrono::nanoseconds time) const;
  void read_note();
  void abort_with(const std::string& reason, int lost);
  void collect(const char* call, std::span<const CommBlock> parts, int root);
  void exchange(const char* call);
  void swap(const char* call, std::span<const std::span<const std::byte>> give);
  void add_up(std::span<const std::byte> own, size_t count, float* out);
  void scatter_sum(const char* call, std::span<const float> x, std::span<const int64_t> begins, float* out);
  std::string describe(int code) const;

  // Why all end: what is sent of it ends with its text.
  struct Note {
    int32_t lost = -1;  // the rank that its writer has lost
    char text[508] = {};
  };

  // What the ends of a process have in common.
  struct Shared {
    const IngotMpi& mpi;
    std::vector<MpiPeer> peers;  // of the world
    bool spins = false;
    int channels = 0;  // ends so far
    std::atomic<bool> aborted{false};
    std::atomic<int> lost{-1};
    std::atomic<bool> given_up{false};
    // Taken for every call of mpi; guards what is below.
    std::mutex mutex;
    std::string reason;
    Note note_in, note_out;
    uint64_t note = 0;  // the request of a reason of others
    std::unique_ptr<MpiBeats> beats;
  };
  MpiComm(std::shared_ptr<Shared> shared, int rank, int first, int ranks);
  const MpiPeer& peer(int rank) const { return shared_->peers[static_cast<size_t>(first_ + rank)]; }

  const std::shared_ptr<Shared> shared_;
  const IngotMpi& mpi_;
  const int rank_, first_;
  const int message_tag_, collective_tag_;
  // Of the collective that runs: what goes to and comes from each rank, in give_memory_ and got_memory_.
  struct Part {
    int64_t at = 0;
    int64_t bytes = -1;  // -1: nothing, not even an empty message
  };
  std::vector<Part> give_, got_;  // [ranks]
  std::vector<std::byte> give_memory_, got_memory_;
  std::vector<Pending> pending_;
  std::vector<Outgoing> outgoing_;  // [ranks]
};

}  // namespace ingot
