// The named outputs of the step that ran last, in memory of the host whatever device computed them.
#pragma once

#include <string>

#include "tensor/tensor.h"

namespace ingot {

class StepOutputs {
 public:
  virtual ~StepOutputs() = default;
  // REQUIRES: the graph has an output of this name. Valid until the next step.
  virtual const Tensor& output(const std::string& name) const = 0;
};

}  // namespace ingot
