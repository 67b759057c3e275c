// Readers of the forms in which a model's tensors go into a file (model_tensors.h).
#pragma once

#include <cstdint>
#include <vector>

#include "compress/model_tensors.h"
#include "quant/weight.h"

namespace ingot {

// Row r of a file whose heads are in the order of interleaved rotation, in the order of a model.
int64_t rotated_row(int64_t r, int64_t head_rows);

// Matrices of one shape, one behind the other; `head_rows` > 0: heads of so many rows, which the file has in the order
// of interleaved rotation. What the weights point to must stay until done().
RowReader read_weights(std::vector<Weight> parts, int64_t head_rows);

// Rows of `cols` values.
RowReader read_floats(std::vector<float> values, int64_t cols);

}  // namespace ingot
