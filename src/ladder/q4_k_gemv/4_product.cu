// What serves: the streaming kernel. Packed codes come by bulk copies and are operands of matrix instructions.
#include "ladder/cuda_step.cuh"
#include "ladder/q4_k_gemv/q4_k_gemv.cuh"
#include "matmul/cuda/matmul.h"

namespace ingot::cuda {

struct PackedQ4K {
  DeviceMemory memory;
  std::shared_ptr<StreamedProduct> product;
};

namespace INGOT_STEP {
namespace {

DeviceProduct product_of(const Q4KGemv& op) {
  DeviceProduct product;
  product.input.x = Matrix(op.x);
  product.parts[0].weight = &op.weight;
  product.parts[0].out = Matrix(op.out);
  return product;
}

}  // namespace

void run(const Q4KGemv& op, Ctx& ctx) {
  if (op.weight.rows == 0) return;
  if (!(*op.packed)->product) return q4_k_gemv_3_split_k::run(op, ctx);  // below compute capability 9.0, and from 12.0
  DeviceProduct product = product_of(op);
  product.streamed = (*op.packed)->product.get();
  multiply(product, 1, ctx);
}

}  // namespace INGOT_STEP
}  // namespace ingot::cuda

template <>
void ingot::ladder::prepare(const Q4KGemv& op, cuda::Ctx& ctx) {
  auto packed = std::make_shared<cuda::PackedQ4K>();
  if (op.weight.rows > 0)
    packed->product = cuda::pack_product(cuda::INGOT_STEP::product_of(op), ctx, [&](int64_t bytes) {
      packed->memory = cuda::DeviceMemory(bytes);
      return packed->memory.data();
    });
  *op.packed = packed;
}
