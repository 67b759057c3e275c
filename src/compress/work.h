// The work of compressing: slabs of rows over threads, tensor by tensor, into files that a killed run can go on with.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compress/method.h"
#include "compress/model_tensors.h"
#include "files/part_files.h"

namespace ingot {

struct WorkTensor {
  const ModelTensor* source = nullptr;
  Format format = Format::kF32;  // what it becomes
  bool copied = false;           // its bytes are those of the source, one range of them
  PartItem ranges;               // where it lies in the files; the first has the rows
  int64_t group = 0;             // as TensorJob has it
  int64_t slab_multiple = 1;     // of the rows of a slab
  // In place of rounding a slab and writing its rows to the first range: any thread. `values` may be changed.
  std::function<void(const TensorJob& job, std::span<float> values, const Rounder& rounder, const PartFiles& files)>
      make = {};
};

struct WorkOptions {
  int threads = 1;
  Importances importances = {};
  // Called now and then on the caller's thread with the values done; false: stop.
  std::function<bool(int64_t done, int64_t skipped)> progress = {};
};

// Makes every tensor that the files do not have yet. Item i of `files` is tensor i. False: `progress` stopped it.
// Throws Error for a value that is not finite, and where a file cannot be written.
bool run_work(const std::vector<WorkTensor>& tensors, PartFiles& files, Rounder& rounder, const WorkOptions& options);

// Values of all tensors, which is what progress counts.
int64_t work_values(const std::vector<WorkTensor>& tensors);

// Seconds that the rounding will take, by a sample of each format.
double estimate_seconds(const std::vector<WorkTensor>& tensors, const Rounder& rounder, int threads);

}  // namespace ingot
