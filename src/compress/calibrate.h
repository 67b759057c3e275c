// Runs a model over a text, layer by layer, and gathers what its matrices read: `ingot calibrate`.
#pragma once

#include <functional>
#include <string>

#include "compress/calibration_text.h"
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
};

// Who looks on while a text passes a model's layers, in order.
struct LayerVisitor {
  std::function<void(const std::vector<LayerInput>& inputs)> opened;  // before a layer's first chunk
  InputTap tap;
  std::function<void(const std::vector<LayerInput>& inputs)> passed;  // behind its last
};

// Takes the text through all layers. `model` was loaded with layer_options() of the text's chunks. Throws Error.
void pass_layers(const Model& model, const CalibrateOptions& options, const CalibrationText& text, ThreadPool& pool,
                 const LayerVisitor& visitor);

// The statistics of all layers' matrices; those of embedding and head are not among them. The same for any number of
// threads. Throws Error.
Stats calibrate(const CalibrateOptions& options, const CalibrationText& text);

}  // namespace ingot
