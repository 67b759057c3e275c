#include "devices/product_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "devices/device_list.h"
#include "tensor/memory.h"

namespace ingot {
namespace {

using Bits = std::string;  // of a result

class CpuProduct final : public EqualProduct {
 public:
  CpuProduct(const std::vector<int>& cores, const MatmulSize& size)
      : size_(size),
        pool_((stay_on(cores), static_cast<int>(cores.size())), Pinning::kOff),
        matmul_(pool_, Format::kBF16, whole_part(size)),
        out_(Memory::huge(size.m * size.n * 4)) {}

  void run() override { matmul_.run(0, size_.n, reinterpret_cast<float*>(out_.data()), size_.n); }
  std::vector<float> result() override {
    const auto* out = reinterpret_cast<const float*>(out_.data());
    return {out, out + size_.m * size_.n};
  }

 private:
  const MatmulSize size_;
  ThreadPool pool_;
  CpuMatmul matmul_;
  Memory out_;
};

// What a worker did: the seconds of each product and a number for its bits.
struct Log {
  std::vector<double> seconds;
  std::vector<size_t> bits;
  std::string failed;
};

// The same bits have the same number.
class BitsSeen {
 public:
  size_t number(const std::vector<float>& values) {
    const std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    const std::lock_guard lock(mutex_);
    return numbers_.try_emplace(Bits(bytes), numbers_.size()).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<Bits, size_t> numbers_;
};

struct Queue {
  explicit Queue(size_t workers) : all_ready(static_cast<std::ptrdiff_t>(workers)) {}

  // Whether there is another product to take; waits for those under way, which may fail and come back.
  bool take() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return left > 0 || under_way == 0; });
    if (left == 0) return false;
    --left;
    ++under_way;
    return true;
  }
  // `again`: it failed, and somebody else shall take it.
  void end(bool again) {
    const std::lock_guard lock(mutex);
    --under_way;
    if (again && !stopped) ++left;
    changed.notify_all();
  }
  void stop(std::exception_ptr why) {
    const std::lock_guard lock(mutex);
    if (!stopped) stopped = std::move(why);
    left = 0;
  }

  std::barrier<> all_ready;
  BitsSeen seen;
  std::mutex mutex;
  std::condition_variable changed;
  int left = 0, under_way = 0;
  std::exception_ptr stopped;  // what `check` threw first
};

void work(const QueueWorker& worker, Queue& queue, const std::function<void()>& check, Log& log) {
  std::unique_ptr<EqualProduct> product;
  try {
    product = worker.make();
    product->run();  // warms caches and clocks
  } catch (const std::exception& error) {
    log.failed = error.what();
  }
  queue.all_ready.arrive_and_wait();
  while (log.failed.empty() && queue.take()) {
    try {
      check();
    } catch (...) {
      queue.stop(std::current_exception());
      return queue.end(false);
    }
    try {
      const auto start = std::chrono::steady_clock::now();
      product->run();
      log.seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      log.bits.push_back(queue.seen.number(product->result()));
    } catch (const std::exception& error) {
      log.failed = error.what();
    }
    queue.end(!log.failed.empty());
  }
}

// What most products of a kind gave; of equally many the first.
std::map<std::string, size_t> usual_bits(const std::vector<QueueWorker>& workers, const std::vector<Log>& logs) {
  std::map<std::string, std::map<size_t, int>> votes;
  for (size_t i = 0; i < workers.size(); ++i)
    for (const size_t bits : logs[i].bits) ++votes[workers[i].kind][bits];
  std::map<std::string, size_t> usual;
  for (const auto& [kind, counts] : votes)
    usual[kind] = std::ranges::max_element(counts, {}, [](const auto& c) { return c.second; })->first;
  return usual;
}

}  // namespace

QueueWorker cpu_worker(const std::string& name, const std::vector<int>& cores, const MatmulSize& size) {
  // Parts with more cores are faster, and no fault of those with fewer.
  return {.name = name, .kind = fmt::format("cpu, {} cores", cores.size()), .make = [cores, size] {
            return std::make_unique<CpuProduct>(cores, size);
          }};
}

std::vector<QueueResult> run_queue(const std::vector<QueueWorker>& workers, int products,
                                   const std::function<void()>& check) {
  Queue queue(workers.size());
  queue.left = products;
  std::vector<Log> logs(workers.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < workers.size(); ++i) threads.emplace_back([&, i] { work(workers[i], queue, check, logs[i]); });
  for (std::thread& thread : threads) thread.join();
  if (queue.stopped) std::rethrow_exception(queue.stopped);

  std::map<std::string, size_t> usual = usual_bits(workers, logs);
  std::map<std::string, double> least;
  std::vector<QueueResult> results;
  for (size_t i = 0; i < workers.size(); ++i) {
    Log& log = logs[i];
    QueueResult r{.name = workers[i].name, .kind = workers[i].kind, .failed = log.failed};
    r.products = static_cast<int>(log.seconds.size());
    if (r.products > 0) {
      std::ranges::sort(log.seconds);
      r.best_s = log.seconds.front();
      r.median_s = log.seconds[log.seconds.size() / 2];
      const auto known = least.try_emplace(r.kind, r.median_s).first;
      known->second = std::min(known->second, r.median_s);
    }
    r.wrong = static_cast<int>(std::ranges::count_if(log.bits, [&](size_t bits) { return bits != usual[r.kind]; }));
    results.push_back(std::move(r));
  }
  for (QueueResult& r : results) r.slow = r.products > 0 && r.median_s > kSlow * least[r.kind];
  return results;
}

std::vector<std::string> queue_verdicts(const std::vector<QueueResult>& results) {
  std::vector<std::string> lines;
  for (const QueueResult& r : results) {
    if (!r.failed.empty()) lines.push_back(fmt::format("{} failed: {}", r.name, r.failed));
    if (r.wrong > 0)
      lines.push_back(fmt::format("{} is faulty: {} of {} products differ", r.name, r.wrong, r.products));
    if (!r.slow) continue;
    double least = r.median_s;
    for (const QueueResult& other : results)
      if (other.kind == r.kind && other.products > 0) least = std::min(least, other.median_s);
    lines.push_back(fmt::format("{} is slow: {:.2f} ms a product, {:.2f} x the fastest", r.name, r.median_s * 1e3,
                                r.median_s / least));
  }
  return lines;
}

}  // namespace ingot
