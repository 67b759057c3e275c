#include "base/check.h"
#include "compress/method.h"

namespace ingot {
namespace {

class Nearest : public Rounder {
 public:
  void round(const TensorJob& job, std::span<std::byte> out) const override {
    CHECK(static_cast<int64_t>(out.size()) == job.rows * job.row_bytes(), "{} bytes for {} rows of {}", out.size(),
          job.rows, job.row_bytes());
    const int64_t segment = job.segment(), bytes = format_row_bytes(job.format, segment);
    StoredScales scales(job.format, job.scales, segment);
    for (int64_t r = 0; r < job.rows; ++r) {
      for (int64_t k = 0; k < job.cols; k += segment) {
        const float* importance = job.importance != nullptr ? job.importance + k : nullptr;
        const float* values = job.values.data() + r * job.cols + k;
        std::byte* to = out.data() + r * job.row_bytes() + k / segment * bytes;
        format_encode(job.format, values, to, segment, importance);
        scales.fit(values, importance, to);
      }
    }
  }
};

}  // namespace

std::unique_ptr<Rounder> nearest_rounder() { return std::make_unique<Nearest>(); }

}  // namespace ingot
