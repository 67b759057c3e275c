#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <numeric>
#include <random>
#include <string_view>
#include <thread>

#include "emulator/emulator_blocks.h"
#include "emulator/emulator_machine.h"
#include "emulator/emulator_peers.h"

namespace ingot::cuda::emulated {

int Cluster::live() const {
  int sum = 0;
  for (const Machine& m : members) sum += m.live;
  return sum;
}

void Cluster::finish() {
  meeting.arrived = 0;
  ++meeting.turn;
  for (Machine& m : members) m.wake(0, m.threads);
}

void Machine::end_thread() {
  Warp& w = warp();
  states[static_cast<size_t>(current)] = State::kEnded;
  --live;
  w.lanes &= ~(1u << current % 32);
  if (--w.live > 0 && w.arrived == w.live) finish_warp(w);
  if (live > 0 && block.arrived == live) finish(block);
  if (cluster->meeting.arrived > 0 && cluster->meeting.arrived == cluster->live()) cluster->finish();
}

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
    warps[w].lanes = warps[w].live == 32 ? ~0u : (1u << warps[w].live) - 1;
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

namespace {

constexpr int kPatience = 1 << 14;       // rounds in which every thread only looks at memory
constexpr int64_t kMostLooks = 1 << 22;  // of threads that found nothing, since a block has published something

std::mutex g_mutex;  // one grid at a time
int64_t g_looks = 0;

enum class Order { kForward, kReverse, kShuffled };

Order wanted_order() {
  const char* name = std::getenv("INGOT_EMULATED_ORDER");
  if (name == nullptr || std::string_view(name) == "forward") return Order::kForward;
  if (std::string_view(name) == "reverse") return Order::kReverse;
  CHECK(std::string_view(name) == "shuffled", "INGOT_EMULATED_ORDER is {}", name);
  return Order::kShuffled;
}

void put_late_back() {
  for (const Late& late : g_late) std::ranges::copy(late.before, late.to);
}

// Gives the blocks of a grid, cluster by cluster, to the machines that are free, and those their turns.
class Turns {
 public:
  // `others`: held while this runs; given up for a moment where all wait for what another grid does. Null: none.
  Turns(std::span<Machine> machines, int cluster, const std::function<void()>& body,
        std::unique_lock<std::mutex>* others = nullptr)
      : order_(wanted_order()), size_(static_cast<size_t>(cluster)), body_(body), others_(others), random_(7) {
    for (size_t i = 0; i + size_ <= machines.size(); i += size_) clusters_.push_back({machines.subspan(i, size_), {}});
    for (Cluster& c : clusters_)
      for (Machine& m : c.members) m.cluster = &c;
    turns_.resize(clusters_.size());
    waiting_.resize(size_t{g_grid.x} * g_grid.y * g_grid.z / size_);
    std::iota(turns_.begin(), turns_.end(), size_t{0});
    std::iota(waiting_.rbegin(), waiting_.rend(), size_t{0});  // the next is the last
    if (order_ == Order::kReverse) std::ranges::reverse(waiting_);
    if (order_ == Order::kShuffled) std::ranges::shuffle(waiting_, random_);
  }

  void run() {
    for (int idle = 0; begin_blocks();) {
      if (order_ == Order::kReverse) std::ranges::reverse(turns_);
      if (order_ == Order::kShuffled) std::ranges::shuffle(turns_, random_);
      bool any = false;
      for (const size_t i : turns_) {
        if (clusters_.size() > 1 && order_ == Order::kShuffled && random_() % 2 == 0) continue;
        for (Machine& m : clusters_[i].members)
          if (m.live > 0) any |= m.run_once();
      }
      if (!any && others_ != nullptr) {
        let_others_run();
        continue;
      }
      idle = any ? 0 : idle + 1;
      CHECK(idle < kPatience, "block {}: threads wait for what nobody does (at the block's barrier {} of {})",
            g_block.x, g_machine->block.arrived, g_machine->live);
    }
  }

 private:
  void let_others_run() {
    const dim3 grid = g_grid, threads = g_threads;
    others_->unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    others_->lock();
    g_grid = grid;
    g_threads = threads;
  }

  // False where all have ended.
  bool begin_blocks() {
    bool running = std::ranges::any_of(clusters_, [](const Cluster& c) { return c.live() > 0; });
    for (Cluster& c : clusters_) {
      if (waiting_.empty() || c.live() > 0) continue;
      if (!running) put_late_back();
      running = true;
      g_looks = 0;
      c.meeting = {};
      const size_t per_row = g_grid.x / size_, next = waiting_.back();
      const auto row = static_cast<unsigned>(next / per_row);
      waiting_.pop_back();
      for (size_t i = 0; i < size_; ++i)
        c.members[i].start_block(dim3(next % per_row * size_ + i, row % g_grid.y, row / g_grid.y), body_);
    }
    return running;
  }

  const Order order_;
  const size_t size_;  // of a cluster
  const std::function<void()>& body_;
  std::unique_lock<std::mutex>* const others_;
  std::mt19937 random_;
  std::vector<Cluster> clusters_;
  std::vector<size_t> turns_;
  std::vector<size_t> waiting_;  // clusters
};

void run(const dim3& grid, const dim3& threads, int64_t shared, size_t resident, int cluster,
         const std::function<void()>& body) {
  const std::lock_guard lock(g_mutex);
  static std::vector<Machine> machines;
  g_grid = grid;
  g_threads = threads;
  if (machines.size() < resident) machines.resize(resident);
  const std::span<Machine> used(machines.data(), resident);
  for (Machine& m : used) m.prepare(shared);
  Turns(used, cluster, body).run();
  for (Machine& m : used) m.shared.reset();
  for (const Late& late : g_late) std::ranges::copy(late.after, late.to);
  g_late.clear();
}

}  // namespace

void run_grid(const dim3& grid, const dim3& threads, int64_t shared, bool together, const std::function<void()>& body) {
  run(grid, threads, shared, together ? size_t{grid.x} * grid.y * grid.z : 1, 1, body);
}

void run_grid_among_peers(const dim3& grid, const dim3& threads, int64_t shared, const std::function<void()>& body) {
  std::unique_lock lock(g_mutex);
  thread_local std::vector<Machine> own(1);  // others' are used while this one waits
  g_grid = grid;
  g_threads = threads;
  own[0].prepare(shared);
  Turns(own, 1, body, &lock).run();
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void run_grid_in_turn(const dim3& grid, const dim3& threads, int64_t shared, int cluster,
                      const std::function<void()>& body) {
  const auto size = static_cast<size_t>(cluster);
  const size_t blocks = size_t{grid.x} * grid.y * grid.z;
  run(grid, threads, shared, std::min(blocks, std::max(size, kResident / size * size)), cluster, body);
}

int cluster_rank() { return static_cast<int>(g_machine - g_machine->cluster->members.data()); }
int cluster_blocks() { return static_cast<int>(g_machine->cluster->members.size()); }

void* of_cluster(void* shared, int rank) {
  const auto offset = static_cast<std::byte*>(shared) - g_machine->shared.get();
  CHECK(offset >= 0 && static_cast<size_t>(offset) < g_machine->shared_bytes, "not in dynamic shared memory");
  CHECK(rank >= 0 && rank < cluster_blocks(), "block {} of a cluster of {}", rank, cluster_blocks());
  const Machine& other = g_machine->cluster->members[static_cast<size_t>(rank)];
  CHECK(other.live > 0, "block {} of the cluster has ended", rank);
  return other.shared.get() + offset;
}

void meet_cluster() {
  Machine& m = *g_machine;
  Cluster& c = *m.cluster;
  if (++c.meeting.arrived == c.live()) {
    c.finish();
  } else {
    m.wait(c.meeting.turn);
  }
}

void published() { g_looks = 0; }

void look_again() {
  CHECK(++g_looks < kMostLooks, "block {} waits for what no block publishes", g_block.x);
  wait_a_while();
}

}  // namespace ingot::cuda::emulated
