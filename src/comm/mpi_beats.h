// Signs of life between processes: a stage of a model takes as long as its rows need, so how long its next one may wait
// for them says nothing; a process that has not been heard of for some seconds has stopped, or its machine is not
// reached any more.
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

  // From now on others are heard, and rank `to`, unless it is negative, hears of this process once a second: by a
  // thread that does nothing else.
  void start(int to);
  // No message is under way any more.
  void stop();

  // How often rank `from` was heard so far.
  uint32_t heard(int from);

 private:
  void run(int to);
  void listen();

  const IngotMpi& mpi_;
  std::mutex& mpi_mutex_;
  const int32_t rank_;
  const int tag_;
  // Guarded by mpi_mutex_, up to `listens_`.
  std::vector<uint32_t> heard_;  // [ranks]
  int32_t in_ = -1, out_ = -1;   // who is heard, who speaks
  uint64_t received_ = 0, sent_ = 0;
  bool listens_ = false;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace ingot
