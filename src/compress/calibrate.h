// Runs a model over a text, layer by layer, and gathers what its matrices read: `ingot calibrate`.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "compress/calibration_text.h"
#include "compress/kv_calibration.h"
#include "compress/layer_runner.h"
#include "compress/stats.h"

namespace ingot {

// Called as work goes on, with the part of it that is done, 0…1.
using WorkProgress = std::function<void(double done)>;

struct CalibrateOptions {
  std::string model;    // a path
  std::string scratch;  // where the private file of hidden states goes, for as long as it runs
  int threads = 1;
  WorkProgress progress = {};
  std::optional<DType> kv = {};  // also scales for a KV cache of this type, kFp8 or kInt8
  double kv_bits = 8;            // of a value of the cache in the mean: more keeps the worst layers in 16
};

// Who looks on while a text passes a model's layers, in order.
struct LayerVisitor {
  std::function<void(const std::vector<LayerInput>& inputs)> opened;  // before a layer's first chunk
  InputTap tap;
  std::function<void(const std::vector<LayerInput>& inputs)> passed;  // behind its last
  bool head = false;                                                  // the head comes as a layer behind the last
  KvCalibration* kv = nullptr;                                        // looks on, too
};

// Takes the text through all layers. `model` was loaded with layer_options() of the text's chunks. Throws Error.
void pass_layers(const Model& model, const CalibrateOptions& options, const CalibrationText& text, ThreadPool& pool,
                 const LayerVisitor& visitor);

// Takes note of how many rows an input had, without its squares.
void count_rows(const LayerInput& input, double rows, Stats& stats);

// The statistics of all layers' matrices and of the head's, which are the embedding's where it is the head. The same
// for any number of threads. Throws Error.
Stats calibrate(const CalibrateOptions& options, const CalibrationText& text);

}  // namespace ingot
