// What the parts of the emulator share: a block's threads, their meetings, and the grid that is running.
#pragma once

#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "emulator/emulator.h"
#include "emulator/fiber.h"

namespace ingot::cuda::emulated {

enum class State : uint8_t { kReady, kWaiting, kEnded };

struct Warp {
  int first = 0;       // thread
  int live = 0;        // threads that have not ended
  unsigned lanes = 0;  // which of them
  int arrived = 0;     // at the meeting in progress
  uint64_t turn = 0;   // meetings so far
  Slots slots[2];      // of this meeting and of the one before: somebody may still be reading it
};

struct Meeting {
  int arrived = 0;
  int sum = 0;     // of predicates
  int result = 0;  // of the last one
  uint64_t turn = 0;
};

constexpr int kNamedBarriers = 16;

struct Machine;

// Blocks that share their memory.
struct Cluster {
  std::span<Machine> members;
  Meeting meeting;

  int live() const;
  void finish();
};

// Runs one block after another, all with the same fibers; of a grid whose blocks wait for each other each has its own.
struct Machine {
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<State> states;
  std::vector<Warp> warps;
  std::unique_ptr<std::byte, void (*)(void*)> shared{nullptr, std::free};
  size_t shared_bytes = 0;
  dim3 index;  // of the block
  Meeting block;
  Meeting named[kNamedBarriers];
  int threads = 0, live = 0, current = -1;
  std::shared_ptr<void> more;  // of the block
  Cluster* cluster = nullptr;
  bool only_looked = false;  // the thread that ran last waits for memory

  Warp& warp() { return warps[static_cast<size_t>(current) / 32]; }
  void wake(int first, int count) {
    for (int i = first; i < first + count; ++i) {
      if (states[static_cast<size_t>(i)] == State::kWaiting) states[static_cast<size_t>(i)] = State::kReady;
    }
  }
  // Until `turn` has moved on.
  void wait(const uint64_t& turn) {
    const int me = current;
    const uint64_t before = turn;
    while (turn == before) {
      states[static_cast<size_t>(me)] = State::kWaiting;
      fibers[static_cast<size_t>(me)]->leave();
    }
  }
  void finish_warp(Warp& w) {
    w.arrived = 0;
    ++w.turn;
    wake(w.first, 32);
  }
  void finish(Meeting& m) {
    m.arrived = 0;
    m.result = m.sum;
    m.sum = 0;
    ++m.turn;
    wake(0, threads);
  }
  void end_thread();
  bool run_thread(int i);
  bool run_warp(Warp& w);
  void prepare(int64_t shared_size);
  void start_block(const dim3& block_index, const std::function<void()>& body);
  bool run_once();
};

// Memory that the previous kernel has not written yet.
struct Late {
  std::byte* to;
  std::vector<std::byte> before, after;
};

extern std::vector<Late> g_late;
extern Machine* g_machine;  // whose thread runs

}  // namespace ingot::cuda::emulated
