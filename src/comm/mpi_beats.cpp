#include "comm/mpi_beats.h"

#include <chrono>
#include <utility>

namespace ingot {
namespace {

constexpr auto kEvery = std::chrono::seconds(1);

}  // namespace

MpiBeats::MpiBeats(const IngotMpi& mpi, std::mutex& mutex, int rank, int ranks, int tag)
    : mpi_(mpi), mpi_mutex_(mutex), rank_(rank), tag_(tag), heard_(static_cast<size_t>(ranks)), out_(rank) {}

void MpiBeats::start(int to) {
  {
    const std::lock_guard lock(mpi_mutex_);
    listens_ = mpi_.recv(&in_, sizeof(in_), -1, tag_, &received_) == 0;
  }
  thread_ = std::thread([this, to] { run(to); });
}

void MpiBeats::run(int to) {
  bool under_way = false;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    {
      const std::lock_guard mpi_lock(mpi_mutex_);
      listen();  // nothing heaps up while no step runs
      int done = 1;
      int64_t bytes = 0;
      // What fails here fails in the waits of steps too, which say so.
      if (under_way && mpi_.test(&sent_, &done, &bytes) != 0) return;
      if (to >= 0 && done != 0 && mpi_.send(&out_, sizeof(out_), to, tag_, &sent_) != 0) return;
      under_way = to >= 0;
    }
    wake_.wait_for(lock, kEvery, [this] { return stop_; });
  }
}

void MpiBeats::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  const std::lock_guard lock(mpi_mutex_);
  if (std::exchange(listens_, false)) mpi_.cancel(&received_);
}

void MpiBeats::listen() {
  int done = 1;
  int64_t bytes = 0;
  while (listens_ && mpi_.test(&received_, &done, &bytes) == 0 && done != 0) {
    if (bytes == sizeof(in_) && in_ >= 0 && static_cast<size_t>(in_) < heard_.size())
      ++heard_[static_cast<size_t>(in_)];
    listens_ = mpi_.recv(&in_, sizeof(in_), -1, tag_, &received_) == 0;
  }
}

uint32_t MpiBeats::heard(int from) {
  const std::lock_guard lock(mpi_mutex_);
  listen();
  return heard_[static_cast<size_t>(from)];
}

}  // namespace ingot
