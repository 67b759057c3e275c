// What tests of ops share that ranks on devices run together.
#pragma once

#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "comm/comm_local.h"
#include "comm/from_all.h"
#include "ops/cuda/cuda_test_support.h"
#include "ops/cuda/peer_memory.h"
#include "tensor/device_place.h"

namespace ingot {

// Devices that do not reach each other's memory.
struct Apart {
  explicit Apart(bool apart) {
    if (apart) setenv("INGOT_EMULATED_PEERS", "none", 1);
  }
  ~Apart() { unsetenv("INGOT_EMULATED_PEERS"); }
};

// Where the ranks of a test compute: each on a device of its own in the emulator, else on a part of one.
inline cuda::DevicePlace place_of(int rank, int ranks) {
  if (cuda::is_emulated()) return {.index = rank % cuda::device_count()};
  return {.part = ranks > 1 ? rank : 0, .parts = ranks};
}

// body(comm, memory) by a thread for each rank, with its device in use.
template <class Body>
void on_ranks(int ranks, std::chrono::nanoseconds deadline, Body&& body) {
  const auto comms = make_local_comms(ranks, false);
  std::vector<std::thread> threads;
  for (const auto& comm : comms)
    threads.emplace_back([&, ranks] {
      const cuda::DevicePlace place = place_of(comm->rank(), ranks);
      cuda::use_device(place);
      cuda::PeerMemory memory(*comm, place.index, deadline);
      body(*comm, memory);
    });
  for (std::thread& thread : threads) thread.join();
}

inline void meet(Comm& comm) { from_all<char>(comm, 0); }

}  // namespace ingot
