// One product of fixed values on one device, again and again: the work of the queue. Used by one thread.
#pragma once

#include <vector>

namespace ingot {

class EqualProduct {
 public:
  virtual ~EqualProduct() = default;
  // Computes it once; the calling thread waits.
  virtual void run() = 0;
  // What the last run gave.
  virtual std::vector<float> result() = 0;
};

}  // namespace ingot
