// Scales of a KV cache of 8 bits, found while a text passes a model's layers (calibrate.h): of each layer and head, and
// which layers lose most by it.
//
// fp8: the largest magnitude over 448. int8: over 127, or a smaller range where the squared error of a sample of rows
// says so. What a layer loses is measured: the KLD of the model's predictions over 256 tokens when its cache alone has
// 8 bits.
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "compress/calibration_text.h"
#include "compress/layer_runner.h"
#include "weights/kv_scales.h"

namespace ingot {

// The calls come in this order, opened() and passed() for each layer. One thread.
class KvCalibration {
 public:
  // REQUIRES: kFp8 or kInt8.
  explicit KvCalibration(DType format) { scales_.format = format; }

  void begin(LayerRunner& runner, const CalibrationText& text);
  void opened(LayerRunner& runner);
  void passed(LayerRunner& runner);
  void end(LayerRunner& runner, ThreadPool& pool);

  // With the worst layers in 16 bits, as many as so many bits a value in the mean allow. Throws Error where no layer
  // has a cache with scales.
  KvScales scales(double bits) const;
  const std::vector<double>& divergences() const { return divergences_; }  // of each layer

 private:
  struct Side {                              // keys or values
    std::vector<float> largest;              // [kv heads]
    std::vector<std::vector<float>> sample;  // [kv heads], some rows' values
  };
  void gather(Side& side, const Tensor& x, int kv_heads, int dim, int64_t rows) const;
  std::vector<float> choose(const Side& side) const;
  std::vector<float> predictions(LayerRunner& runner, const std::vector<float>& state, ThreadPool& pool) const;

  KvScales scales_;
  Side k_, v_;
  int64_t rows_ = 0;          // of the text that judges
  std::vector<float> clean_;  // [rows_, width]
  std::vector<std::vector<float>>
      states_;  // behind each layer that was passed, the one cache in 8 bits; none: no cache
  std::vector<double> divergences_;
};

}  // namespace ingot
