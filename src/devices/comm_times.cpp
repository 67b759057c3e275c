#include "devices/comm_times.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/thread_pool.h"
#include "comm/comm_local.h"
#include "tensor/memory.h"

namespace ingot {
namespace {

void run_local(int ranks, const std::function<void(Comm&)>& body) {
  std::vector<std::unique_ptr<Comm>> comms = make_local_comms(ranks, ranks <= available_cores());
  std::mutex mutex;
  std::exception_ptr threw;
  std::vector<std::thread> threads;
  for (const std::unique_ptr<Comm>& comm : comms) {
    threads.emplace_back([&] {
      try {
        body(*comm);
      } catch (const std::exception& error) {
        {
          const std::lock_guard lock(mutex);
          if (!threw) threw = std::current_exception();
        }
        comm->abort(error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (threw) std::rethrow_exception(threw);
}

constexpr std::array kCarriers = {
    CommCarrier{"local", "threads of one process", [] { return std::string(); }, run_local},
};

// One rank's memory and place, for all ops.
struct Bench {
  Bench(Comm& c, int64_t most) : comm(c), mine(Memory::huge(most)), other(Memory::huge(most)) {}

  Comm& comm;
  Memory mine, other;
  int64_t bytes = 0;

  int64_t ranks() const { return comm.ranks(); }
  // Bytes of rank r begin here: whole floats.
  int64_t begin(int64_t r) const { return bytes / 4 * r / ranks() * 4; }
  int64_t part(int64_t r) const { return begin(r + 1) - begin(r); }
  float* floats() const { return reinterpret_cast<float*>(mine.data()); }
  std::span<float> x() const { return {floats(), static_cast<size_t>(bytes / 4)}; }

  // Small whole numbers: sums of them are exact, whatever the order.
  static float value(int64_t rank, int64_t i) { return static_cast<float>((i * 7 + rank * 3) % 32); }
  void fill() const {
    for (int64_t i = 0; i < bytes / 4; ++i) floats()[i] = value(comm.rank(), i);
  }
  float sum(int64_t i) const {
    float all = 0;
    for (int64_t r = 0; r < ranks(); ++r) all += value(r, i);
    return all;
  }
};

struct Operation {
  const char* name;
  void (*run)(Bench&);
  // Of a run after fill(): whether float i of `mine` (or of `other`) is right. Null: not for this rank.
  bool (*right)(const Bench&, int64_t i);
  double (*crossing)(double bytes, double ranks);
};

double all_but_own(double bytes, double ranks) { return bytes * (ranks - 1) / ranks; }

void gather(Bench& b) {
  std::vector<CommBlock> parts;
  for (int64_t r = 0; r < b.ranks(); ++r)
    parts.push_back({.data = b.mine.data() + b.begin(r), .rows = 1, .bytes = b.part(r), .pitch = b.part(r)});
  b.comm.all_gather(parts);
}

void scatter(Bench& b) {
  std::vector<int64_t> begins;
  for (int64_t r = 0; r <= b.ranks(); ++r) begins.push_back(b.begin(r) / 4);
  b.comm.reduce_scatter(b.x(), begins, reinterpret_cast<float*>(b.other.data()));
}

void exchange(Bench& b) {
  const int64_t each = b.bytes / b.ranks() / 4 * 4;
  std::vector<std::span<const std::byte>> give;
  std::vector<std::span<std::byte>> got;
  for (int64_t r = 0; r < b.ranks(); ++r) {
    give.emplace_back(b.mine.data() + r * each, static_cast<size_t>(each));
    got.emplace_back(b.other.data() + r * each, static_cast<size_t>(each));
  }
  b.comm.all_to_all(give, got);
}

// There and back between ranks 0 and 1: twice the time of one message.
void ping(Bench& b) {
  const std::span<std::byte> message(b.mine.data(), static_cast<size_t>(b.bytes));
  const std::span<std::byte> into(b.other.data(), static_cast<size_t>(b.bytes));
  if (b.comm.rank() == 0) {
    b.comm.send(message, 1);
    b.comm.recv(into, 1, b.comm.deadline);
  } else if (b.comm.rank() == 1) {
    b.comm.recv(into, 0, b.comm.deadline);
    b.comm.send(message, 0);
  }
}

float got(const Bench& b, int64_t i) { return reinterpret_cast<const float*>(b.other.data())[i]; }

constexpr Operation kOperations[] = {
    {"all_reduce", [](Bench& b) { b.comm.all_reduce(b.x()); },
     [](const Bench& b, int64_t i) { return b.floats()[i] == b.sum(i); },
     [](double bytes, double ranks) { return 2 * all_but_own(bytes, ranks); }},
    {"all_gather", gather,
     [](const Bench& b, int64_t i) {
       int64_t r = 0;
       while (b.begin(r + 1) <= i * 4) ++r;
       return b.floats()[i] == Bench::value(r, i);
     },
     all_but_own},
    {"reduce_scatter", scatter,
     [](const Bench& b, int64_t i) {
       const int64_t own = b.comm.rank();
       return i * 4 >= b.part(own) || got(b, i) == b.sum(b.begin(own) / 4 + i);
     },
     all_but_own},
    {"all_to_all", exchange,
     [](const Bench& b, int64_t i) {
       const int64_t each = b.bytes / b.ranks() / 4;
       return i >= each * b.ranks() || got(b, i) == Bench::value(i / each, b.comm.rank() * each + i % each);
     },
     all_but_own},
    {"broadcast",
     [](Bench& b) {
       b.comm.broadcast({b.mine.data(), static_cast<size_t>(b.bytes)}, 0);
     },
     [](const Bench& b, int64_t i) { return b.floats()[i] == Bench::value(0, i); },
     [](double bytes, double) { return bytes; }},
    {"send", ping,
     [](const Bench& b, int64_t i) { return b.comm.rank() > 1 || got(b, i) == Bench::value(1 - b.comm.rank(), i); },
     [](double bytes, double) { return 2 * bytes; }},
};

void meet(Comm& comm) {
  float one = 1;
  comm.all_reduce({&one, 1});
}

void check(Bench& b, const Operation& op) {
  b.fill();
  meet(b.comm);
  op.run(b);
  meet(b.comm);
  const int64_t n = b.bytes / 4, step = std::max<int64_t>(1, n / 65536);
  for (int64_t i = 0; i < n; i += step) {
    if (!op.right(b, i))
      throw Error("[comm] {} of {} bytes: float {} of rank {} is wrong", op.name, b.bytes, i, b.comm.rank());
  }
}

double seconds_of(Bench& b, const Operation& op, int64_t times) {
  meet(b.comm);
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < times; ++i) op.run(b);
  meet(b.comm);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / static_cast<double>(times);
}

CommTime measure(Bench& b, const Operation& op, double seconds) {
  constexpr int kBatches = 5;
  // Sums of sums grow beyond all floats when they are made again and again; zeros take as long.
  std::fill_n(b.mine.data(), b.bytes, std::byte{0});
  int64_t times = 1;
  const double first = seconds_of(b, op, 1);
  if (b.comm.rank() == 0) times = std::clamp<int64_t>(static_cast<int64_t>(seconds / kBatches / first), 1, 2000);
  b.comm.broadcast(std::as_writable_bytes(std::span(&times, 1)), 0);
  std::array<double, kBatches> all;
  for (double& one : all) one = seconds_of(b, op, times);
  std::ranges::sort(all);
  const double median = all[kBatches / 2];
  const bool both_ways = op.run == ping;
  const double crossing = op.crossing(static_cast<double>(b.bytes), static_cast<double>(b.ranks()));
  return {
      .op = op.name, .bytes = b.bytes, .us = median * 1e6 / (both_ways ? 2 : 1), .bus_gbs = crossing / median / 1e9};
}

}  // namespace

std::span<const CommCarrier> comm_carriers() { return kCarriers; }

void time_comm(Comm& comm, const CommTimesOptions& options, const std::function<void(const CommTime&)>& tell) {
  Bench b(comm, options.most_bytes);
  for (const Operation& op : kOperations) {
    if (op.run == ping && comm.ranks() < 2) continue;
    for (b.bytes = options.least_bytes; b.bytes <= options.most_bytes; b.bytes *= 4) {
      check(b, op);
      const CommTime time = measure(b, op, options.seconds);
      if (comm.rank() == 0) tell(time);
    }
  }
}

}  // namespace ingot
