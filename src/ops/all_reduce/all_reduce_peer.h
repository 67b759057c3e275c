// For benches of ops that ranks run together: the other rank of two, on a thread, which sums as many floats again and
// again until this one has gone.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "comm/comm_local.h"

namespace ingot::op_bench {

class ReducePeer {
 public:
  explicit ReducePeer(int64_t count) : comms_(make_local_comms(2, true)), values_(static_cast<size_t>(count)) {
    thread_ = std::thread([this] {
      try {
        for (;;) comms_[1]->all_reduce(values_);
      } catch (const CommError&) {
        // The bench has ended.
      }
    });
  }
  ~ReducePeer() {
    comms_[0].reset();
    thread_.join();
  }
  ReducePeer(const ReducePeer&) = delete;
  ReducePeer& operator=(const ReducePeer&) = delete;

  Comm* comm() { return comms_[0].get(); }

 private:
  std::vector<std::unique_ptr<Comm>> comms_;
  std::vector<float> values_;
  std::thread thread_;
};

}  // namespace ingot::op_bench
