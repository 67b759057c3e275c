#include "base/check.h"
#include "compress/method.h"

namespace ingot {
namespace {

class Nearest : public Rounder {
 public:
  void round(const TensorJob& job, std::span<std::byte> out) const override {
    const int64_t row_bytes = format_row_bytes(job.format, job.cols);
    CHECK(static_cast<int64_t>(out.size()) == job.rows * row_bytes, "{} bytes for {} rows of {}", out.size(), job.rows,
          row_bytes);
    for (int64_t r = 0; r < job.rows; ++r)
      format_encode(job.format, job.values.data() + r * job.cols, out.data() + r * row_bytes, job.cols, job.importance);
  }
};

}  // namespace

std::unique_ptr<Rounder> nearest_rounder() { return std::make_unique<Nearest>(); }

}  // namespace ingot
