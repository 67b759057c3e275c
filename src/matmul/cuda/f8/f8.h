// Products whose weights and rows are e4m3: for who prepares them. All else is as in matmul.h.
#pragma once

#include "matmul/cuda/matmul.h"

namespace ingot::cuda {

// As pack_product(), for weights of e4m3 whose rows are to be rounded to e4m3 (f8_rows.cuh), whatever their number.
// Null where the device, the format or the number of columns has no kernel for that.
std::shared_ptr<StreamedProduct> pack_f8_product(const DeviceProduct& product, const DeviceCtx& device,
                                                 const Allocate& allocate);

}  // namespace ingot::cuda
