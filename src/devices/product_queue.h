// A queue of equal products that several devices take from: each must give the same bits, and those of one kind about
// the same speed.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "devices/equal_product.h"
#include "devices/matmul_part.h"

namespace ingot {

struct QueueWorker {
  std::string name;
  std::string kind;  // those of one kind are compared
  // Called by the worker's own thread, as the product is.
  std::function<std::unique_ptr<EqualProduct>()> make;
};

// The cores of a device of the CPU as a worker, for products in bf16.
QueueWorker cpu_worker(const std::string& name, const std::vector<int>& cores, const MatmulSize& size);

struct QueueResult {
  std::string name, kind;
  int products = 0;     // that it took
  double median_s = 0;  // of one
  double best_s = 0;
  int wrong = 0;            // that differ from what most of its kind give
  bool slow = false;        // its median is beyond kSlow times the least of its kind
  std::string failed = {};  // what it threw; it took no more then
};
inline constexpr double kSlow = 1.15;

// Takes `products` from the queue with all workers, after one each that does not count. `check` is called by them
// between two products and may throw, which ends all.
std::vector<QueueResult> run_queue(const std::vector<QueueWorker>& workers, int products,
                                   const std::function<void()>& check);

// "cpu:1 is faulty: 3 of 40 products differ", "cuda:2 is slow: …": one line each, none where all is well.
std::vector<std::string> queue_verdicts(const std::vector<QueueResult>& results);

}  // namespace ingot
