// The product on a device: what it is given beside matmul/product.h, what is made once, and the launch. Which kernel
// multiplies is chosen by rows and format (matmul_cuda.cu). Memory of matrices and weights is the device's.
//
// Matrices are f32, bf16 or f16. Gathered rows are copied first, by the launch that makes norms, whichever kernel
// multiplies; the index is read on the device, when the earlier kernels have ended. Outputs are not scattered.
//
// Called by the engine's thread alone. multiply() gives kernels to the stream and returns; it may be recorded.
#pragma once

#include <functional>
#include <memory>

#include "cuda/device_ctx.h"
#include "cuda/kv_place.h"
#include "matmul/product.h"

namespace ingot::cuda {

class Blas;              // cuda_blas.h
struct StreamedProduct;  // parts.cuh
struct NormLink;         // parts.cuh

// The epilogue of three parts, q, k and v, when all of a row are there: RMS norm of the heads of q and of k where they
// have one; then pairs of the first table.cols values of each are rotated, and k and v written to the cache. Outs of k
// and v are not written.
struct HeadsEnd {
  Matrix q;                       // [rows, heads · head_dim] out of the first part
  Matrix table;                   // [rows, rotary] f32: cosines, then sines
  const int32_t* slot = nullptr;  // [rows] where k and v go; below 0: nowhere
  KvPlace kv;
  int kv_heads = 0, head_dim = 0;  // head_dim 0: no such epilogue
  bool interleaved = false;
  struct Norm {
    const float* weight = nullptr;  // [width], or null: none
    int width = 0;
    float eps = 0;
  };
  Norm q_norm, k_norm;

  explicit operator bool() const { return head_dim != 0; }
};

struct DeviceProduct : Product {
  HeadsEnd heads;
  Blas* blas = nullptr;                 // null: own products alone
  StreamedProduct* streamed = nullptr;  // of pack_product(); null: the weights are read as they are published
};

// Once, when matrices and weights have their places. First the bytes of scratch that are enough for every run of up to
// `rows` rows.
int64_t product_scratch(const DeviceProduct& product, int64_t rows, bool batch_invariant);
// Times the algorithms of product.blas for up to `rows` rows, where there is one. `packed`: pack_product() follows.
// Waits for the stream.
void measure_product(const DeviceProduct& product, int64_t rows, bool packed, const DeviceCtx& device);
// A packed copy of the weights for few rows, in memory of the device that allocate(bytes) gives, 256-byte aligned, for
// as long as the copy is used. Null where the device has no kernels for it, or the format.
using Allocate = std::function<std::byte*(int64_t bytes)>;
std::shared_ptr<StreamedProduct> pack_product(const DeviceProduct& product, const DeviceCtx& device,
                                              const Allocate& allocate);
// Whether the packed copy takes the place of the published weights, which are not read again once it is made; else both
// are.
bool packs_instead(const DeviceProduct& product);
const std::byte* packed_data(const StreamedProduct& streamed);
// Where the second runs right after the first, both are packed, and the first's output is the second's x: the norm
// between them is made on the way. False: it is not.
bool link_products(const DeviceProduct& first, const DeviceProduct& second, const Allocate& allocate);

// The same where other rows than a product's come before: the sum that the second norms is made there, up to link.rows
// rows, and left as the link says. Null: the second reads no such link.
const NormLink* link_rows(const DeviceProduct& second, const Allocate& allocate);

// The product for rows [0, rows).
void multiply(const DeviceProduct& product, int64_t rows, const DeviceCtx& ctx);

}  // namespace ingot::cuda
