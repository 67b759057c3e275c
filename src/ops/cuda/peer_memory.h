// The memory by which the devices of several ranks meet (cuda/peers.h). Ranks are threads of one process.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/comm.h"
#include "cuda/peers.h"
#include "tensor/cuda.h"

namespace ingot::cuda {

class PeerMemory {
 public:
  // All ranks at the same time, each with its device in use. Where each device reaches the others' memory, and words
  // written each way were read back, they meet there, else in the host's memory. Throws Error where they were not read
  // in time; CommError where a rank is missing.
  // `deadline` is that of each meeting; 0: half a second less than clients wait for.
  PeerMemory(Comm& comm, int device, std::chrono::nanoseconds deadline = {});
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  const Peers& peers() const { return peers_; }
  // Throws CommError where a rank did not come to a meeting of this one's work. REQUIRES: that work is done.
  void check() const;
  // On no rank's device anybody waits for others any more. Any thread.
  void give_up();
  int64_t bytes() const;

 private:
  struct Board;
  using Boards = std::vector<std::shared_ptr<Board>>;
  std::shared_ptr<Board> make_board(bool direct) const;
  // Whether devices reach each other, as far as their driver says.
  bool reaches_all();
  bool words_arrive();
  void share(std::shared_ptr<Board> own);

  Comm& comm_;
  std::vector<int> devices_;  // [ranks]
  Boards boards_;             // [ranks] of all: a device that failed may be written to until the last rank has gone
  Peers peers_;
};

}  // namespace ingot::cuda
