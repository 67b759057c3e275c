#include "comm/mpi_beats.h"

#include <chrono>
#include <utility>

namespace ingot {
namespace {

constexpr auto kEvery = std::chrono::seconds(1);

}  // namespace

MpiBeats::MpiBeats(const IngotMpi& mpi, std::mutex& mutex, int rank, int ranks, int tag)
    : mpi_(mpi),
      mpi_mutex_(mutex),
      rank_(rank),
      tag_(tag),
      heard_(static_cast<size_t>(ranks)),
      sent_(static_cast<size_t>(ranks)),
      out_(rank) {}

void MpiBeats::start() {
  {
    const std::lock_guard lock(mpi_mutex_);
    listens_ = mpi_.recv(&in_, sizeof(in_), -1, tag_, &received_) == 0;
  }
  thread_ = std::thread([this] { run(); });
}

void MpiBeats::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    {
      const std::lock_guard mpi_lock(mpi_mutex_);
      listen();  // nothing heaps up while no step runs
      for (int r = 0; r < static_cast<int>(sent_.size()); ++r)
        if (r != rank_) speak(r);
    }
    wake_.wait_for(lock, kEvery, [this] { return stop_; });
  }
}

// At most one message to each is under way. What fails here fails in the waits of steps too, which say so.
void MpiBeats::speak(int to) {
  Outgoing& out = sent_[static_cast<size_t>(to)];
  if (out.gone) return;
  if (out.under_way) {
    int done = 0;
    int64_t bytes = 0;
    out.gone = mpi_.test(&out.request, &done, &bytes) != 0;
    out.under_way = done == 0;
  }
  if (out.gone || out.under_way) return;
  out.gone = mpi_.send(&out_, sizeof(out_), to, tag_, &out.request) != 0;
  out.under_way = true;
}

void MpiBeats::fall_silent() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void MpiBeats::stop() {
  fall_silent();
  const std::lock_guard lock(mpi_mutex_);
  listen();
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
