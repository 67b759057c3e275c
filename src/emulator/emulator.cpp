#include "emulator/emulator.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "emulator/fiber.h"

namespace ingot::cuda {
namespace emulated {

dim3 g_thread, g_block, g_threads, g_grid;

namespace {

enum class State : uint8_t { kReady, kWaiting, kEnded };

struct Warp {
  int first = 0;      // thread
  int live = 0;       // threads that have not ended
  int arrived = 0;    // at the meeting in progress
  uint64_t turn = 0;  // meetings so far
  Slots slots[2];     // of this meeting and of the one before: somebody may still be reading it
};

struct Meeting {
  int arrived = 0;
  int sum = 0;     // of predicates
  int result = 0;  // of the last one
  uint64_t turn = 0;
};

constexpr int kNamedBarriers = 16;
constexpr int kPatience = 1 << 14;  // rounds in which every thread only looks at memory

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
  bool only_looked = false;    // the thread that ran last waits for memory

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
  void end_thread() {
    Warp& w = warp();
    states[static_cast<size_t>(current)] = State::kEnded;
    --live;
    if (--w.live > 0 && w.arrived == w.live) finish_warp(w);
    if (live > 0 && block.arrived == live) finish(block);
  }
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

std::vector<Late> g_late;
std::mutex g_mutex;  // one grid at a time
Machine* g_machine = nullptr;

// False where it only looked at memory that has not changed.
bool Machine::run_thread(int i) {
  current = i;
  only_looked = false;
  const auto n = static_cast<unsigned>(i);
  g_thread = dim3(n % g_threads.x, n / g_threads.x % g_threads.y, n / (g_threads.x * g_threads.y));
  if (fibers[static_cast<size_t>(i)]->enter()) end_thread();
  return !only_looked;
}

bool Machine::run_warp(Warp& w) {
  bool any = false;
  for (bool again = true; again;) {
    again = false;
    for (int i = w.first; i < std::min(w.first + 32, threads); ++i) {
      if (states[static_cast<size_t>(i)] == State::kReady) again |= run_thread(i);
    }
    any |= again;
  }
  return any;
}

void Machine::prepare(int64_t shared_size) {
  threads = static_cast<int>(g_threads.x * g_threads.y * g_threads.z);
  while (fibers.size() < static_cast<size_t>(threads)) fibers.push_back(std::make_unique<Fiber>());
  states.resize(static_cast<size_t>(threads));
  warps.resize((static_cast<size_t>(threads) + 31) / 32);
  shared_bytes = static_cast<size_t>(shared_size);
  void* memory = nullptr;  // not a byte more, so that an address sanitizer sees what goes beyond it
  CHECK(posix_memalign(&memory, 1024, std::max<size_t>(shared_bytes, 1)) == 0, "no memory");
  shared.reset(static_cast<std::byte*>(memory));
}

void Machine::start_block(const dim3& block_index, const std::function<void()>& body) {
  index = block_index;
  std::memset(shared.get(), 0xff, shared_bytes);
  live = threads;
  more.reset();
  block = {};
  for (Meeting& m : named) m = {};
  for (size_t w = 0; w < warps.size(); ++w) {
    warps[w].first = static_cast<int>(32 * w);
    warps[w].live = std::min(32, threads - warps[w].first);
    warps[w].arrived = 0;
  }
  for (int i = 0; i < threads; ++i) {
    states[static_cast<size_t>(i)] = State::kReady;
    fibers[static_cast<size_t>(i)]->start(&body);
  }
}

// Every thread until it waits. False where all only looked at memory.
bool Machine::run_once() {
  g_machine = this;
  g_block = index;
  bool any = false;
  for (Warp& w : warps) any |= run_warp(w);
  return any;
}

// Until all threads of these blocks have ended.
void run_blocks(std::span<Machine> machines) {
  for (int idle = 0;;) {
    bool any = false;
    int live = 0;
    for (Machine& m : machines) {
      if (m.live > 0) any |= m.run_once();
      live += m.live;
    }
    if (live == 0) return;
    idle = any ? 0 : idle + 1;
    CHECK(idle < kPatience, "block {}: {} threads wait for what nobody does (at the block's barrier {})", g_block.x,
          live, g_machine->block.arrived);
  }
}

template <class F>
void each_block(const dim3& grid, const F& f) {
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) f(dim3(x, y, z));
    }
  }
}

void put_late_back() {
  for (const Late& late : g_late) std::ranges::copy(late.before, late.to);
}

}  // namespace

int lane() { return g_machine->current % 32; }

unsigned live_lanes() {
  unsigned bits = 0;
  const Warp& w = g_machine->warp();
  for (int i = 0; i < 32 && w.first + i < g_machine->threads; ++i) {
    if (g_machine->states[static_cast<size_t>(w.first + i)] != State::kEnded) bits |= 1u << i;
  }
  return bits;
}

const Slots& meet_warp(const void* mine, size_t bytes) {
  Machine& m = *g_machine;
  Warp& w = m.warp();
  const int me = m.current;
  Slots& slots = w.slots[w.turn % 2];
  if (bytes > 0) std::memcpy(slots[me % 32], mine, bytes);
  if (++w.arrived == w.live) {
    m.finish_warp(w);
  } else {
    m.wait(w.turn);
  }
  return slots;
}

void meet_block() { __syncthreads_count(0); }

void meet_some(int id, int count) {
  Machine& m = *g_machine;
  Meeting& meeting = m.named[id];
  if (++meeting.arrived == count) {
    m.finish(meeting);
  } else {
    m.wait(meeting.turn);
  }
}

void arrive_some(int id, int count) {
  Machine& m = *g_machine;
  Meeting& meeting = m.named[id];
  CHECK(meeting.arrived < count, "more than {} threads at barrier {}", count, id);
  if (++meeting.arrived == count) m.finish(meeting);
}

void wait_a_while() {
  Machine& m = *g_machine;
  m.only_looked = true;
  m.fibers[static_cast<size_t>(m.current)]->leave();
}

std::byte* dynamic_shared() { return g_machine->shared.get(); }
size_t dynamic_shared_bytes() { return g_machine->shared_bytes; }
std::shared_ptr<void>& block_state() { return g_machine->more; }

void write_late(void* to, const void* from, size_t bytes) {
  const auto* old_bytes = static_cast<const std::byte*>(to);
  const auto* new_bytes = static_cast<const std::byte*>(from);
  g_late.push_back({static_cast<std::byte*>(to), {old_bytes, old_bytes + bytes}, {new_bytes, new_bytes + bytes}});
}

void run_grid(const dim3& grid, const dim3& threads, int64_t shared, bool together, const std::function<void()>& body) {
  const std::lock_guard lock(g_mutex);
  static std::vector<Machine> machines;
  g_grid = grid;
  g_threads = threads;
  const size_t count = together ? size_t{grid.x} * grid.y * grid.z : 1;
  if (machines.size() < count) machines.resize(count);
  const std::span<Machine> used(machines.data(), count);
  for (Machine& m : used) m.prepare(shared);
  if (together) {
    put_late_back();
    size_t i = 0;
    each_block(grid, [&](const dim3& block) { used[i++].start_block(block, body); });
    run_blocks(used);
  } else {
    each_block(grid, [&](const dim3& block) {
      put_late_back();
      used[0].start_block(block, body);
      run_blocks(used);
    });
  }
  for (Machine& m : used) m.shared.reset();
  for (const Late& late : g_late) std::ranges::copy(late.after, late.to);
  g_late.clear();
}

}  // namespace emulated

void wait_for_inputs() {
  if (emulated::g_late.empty()) return;
  emulated::meet_block();
  for (const emulated::Late& late : emulated::g_late) std::ranges::copy(late.after, late.to);
  emulated::meet_block();
}

unsigned __ballot_sync(unsigned mask, int predicate) {
  const auto [all, lane] = emulated::meet(predicate);
  unsigned bits = 0;
  for (int i = 0; i < 32; ++i) {
    if ((emulated::live_lanes() & mask) >> i & 1) bits |= (emulated::from<int>(all, i) != 0 ? 1u : 0u) << i;
  }
  return bits;
}

float4 take_over_one(float* from) {
  const auto missing = [&](int i) { return __float_as_uint(from[i]) == emulated::kNotHanded; };
  while (missing(0) || missing(1) || missing(2) || missing(3)) emulated::wait_a_while();
  const float4 values = make_float4(from[0], from[1], from[2], from[3]);
  std::fill_n(from, 4, __uint_as_float(emulated::kNotHanded));
  return values;
}

int __syncthreads_count(int predicate) {
  emulated::Machine& m = *emulated::g_machine;
  m.block.sum += predicate != 0;
  if (++m.block.arrived == m.live) {
    m.finish(m.block);
  } else {
    m.wait(m.block.turn);
  }
  return m.block.result;
}

// --- Barriers of copies ---

namespace {

void settle(CopyBarrier* barrier) {
  if (barrier->missing != 0 || barrier->pieces != 0) return;
  barrier->parity ^= 1;
  barrier->missing = barrier->arrivals;
}

}  // namespace

void barrier_init(CopyBarrier* barrier, int arrivals) {
  *barrier = {.parity = 0,
              .arrivals = static_cast<uint16_t>(arrivals),
              .missing = static_cast<uint16_t>(arrivals),
              .pieces = 0};
}

void barrier_arrive(CopyBarrier* barrier) {
  CHECK(barrier->missing > 0, "more arrivals than the barrier has");
  --barrier->missing;
  settle(barrier);
}

void barrier_expect(CopyBarrier* barrier, uint32_t bytes) {
  barrier->pieces = static_cast<int16_t>(barrier->pieces + static_cast<int>(bytes / 16));
  barrier_arrive(barrier);
}

void barrier_wait(CopyBarrier* barrier, uint32_t parity) {
  while (barrier->parity == (parity & 1)) emulated::wait_a_while();
}

void copy_bulk(void* shared, const void* global, uint32_t bytes, CopyBarrier* barrier, bool) {
  CHECK(
      bytes % 16 == 0 && reinterpret_cast<uintptr_t>(shared) % 16 == 0 && reinterpret_cast<uintptr_t>(global) % 16 == 0,
      "a bulk copy of {} bytes that are not aligned", bytes);
  std::memcpy(shared, global, bytes);
  barrier->pieces = static_cast<int16_t>(barrier->pieces - static_cast<int>(bytes / 16));
  settle(barrier);
}

}  // namespace ingot::cuda
