// Signs of life between processes, from their meeting on: how long another loads a model, or waits for its next step,
// says nothing; a process that has not been heard of for some seconds has stopped, or its machine is not reached any
// more.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/mpi_plugin.h"

namespace ingot {

class MpiBeats {
 public:
  // `mutex` is taken for every call of mpi. All numbers are the world's.
  MpiBeats(const IngotMpi& mpi, std::mutex& mutex, int rank, int ranks, int tag);
  ~MpiBeats() { stop(); }
  MpiBeats(const MpiBeats&) = delete;
  MpiBeats& operator=(const MpiBeats&) = delete;

  // From now on others are heard, and all of them hear of this process once a second: by a thread that does nothing
  // else. No call of mpi waits, so nobody keeps it from `mutex` for long.
  void start();
  // Others hear no more of this process.
  void fall_silent();
  // The same, and no message is under way any more.
  void stop();

  // How often rank `from` was heard so far.
  uint32_t heard(int from);

 private:
  struct Outgoing {
    uint64_t request = 0;
    bool under_way = false;
    bool gone = false;  // a message to it has failed
  };
  void run();
  void speak(int to);
  void listen();

  const IngotMpi& mpi_;
  std::mutex& mpi_mutex_;
  const int32_t rank_;
  const int tag_;
  // Guarded by mpi_mutex_, up to `listens_`.
  std::vector<uint32_t> heard_;  // [ranks]
  std::vector<Outgoing> sent_;   // [ranks]
  int32_t in_ = -1, out_ = -1;   // who is heard, who speaks
  uint64_t received_ = 0;
  bool listens_ = false;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace ingot
