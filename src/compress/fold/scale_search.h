// The methods awq and smooth: factors of columns, chosen group by group (scale_groups.h) by what rounding then does to
// the outputs of a sample of rows, while a text passes the model once.
#pragma once

#include <memory>

#include "compress/calibrate.h"
#include "compress/fold/fold.h"
#include "compress/quantize.h"

namespace ingot {

enum class ScaleMethod : uint8_t {
  kAwq,     // the best of 21 powers of mean |x|; weights alone are rounded
  kSmooth,  // SmoothQuant's factors, or none where those do more harm; x is rounded to int8, too
};

struct ScaledModel {
  std::shared_ptr<const Fold> fold;
  Importances importances;  // of the columns as they are scaled
  int groups = 0, scaled = 0;
  std::vector<std::string> hardly_met;  // as Stats has it
};

// Throws Error: the residual stream is read with no norm before it, a model whose layers cannot be run one by one. The
// same for any number of threads. `formats`: what matrices will be rounded to; those that are not there stay as they
// are.
ScaledModel search_scales(ScaleMethod method, const CalibrateOptions& options, const CalibrationText& text,
                          const PlannedFormats& formats);

}  // namespace ingot
