// Linear as a product (matmul/cuda/matmul.h).
#include "base/check.h"
#include "matmul/cuda/f8/f8.h"
#include "ops/cuda/ops.h"
#include "ops/kv_write/kv_place.h"
#include "ops/linear/linear_product.h"
#include "ops/router_topk/route.cuh"

namespace ingot::cuda {
namespace {

HeadsEnd heads_of(const HeadsOutput& heads, const int32_t* slot) {
  HeadsEnd end;
  if (!heads) return end;
  const KvLayer& kv = heads.rope.kv;
  CHECK(kv.k_dim == heads.rope.head_dim, "keys of {} values, heads of {}", kv.k_dim, heads.rope.head_dim);
  end.q = Matrix(heads.rope.q);
  end.table = Matrix(heads.rope.table);
  end.slot = slot;
  end.kv = kv_place(kv);
  end.kv_heads = kv.kv_heads;
  end.head_dim = heads.rope.head_dim;
  end.interleaved = heads.rope.interleaved;
  const auto norm = [](const HeadsOutput::Norm& n) {
    return HeadsEnd::Norm{reinterpret_cast<const float*>(n.weight.data), static_cast<int>(n.width), n.eps};
  };
  end.q_norm = norm(heads.q_norm);
  end.k_norm = norm(heads.k_norm);
  return end;
}

DeviceProduct device_product(const Linear& op, Blas* blas, const int32_t* slot) {
  DeviceProduct product;
  static_cast<Product&>(product) = product_of(op);
  product.heads = heads_of(op.heads, slot);
  product.blas = blas;
  product.streamed = op.streamed.get();
  return product;
}

}  // namespace

void prepare(Linear& op, Prepare& p) {
  const DeviceProduct product = device_product(op, p.blas, nullptr);
  check(product);
  DeviceCtx device;
  device.stream = p.stream;
  device.arch = p.arch;
  device.multiprocessors = p.multiprocessors;
  device.batch_invariant = p.batch_invariant;
  const int64_t rows = Shape{.tokens = p.limits.rows, .logits = p.limits.logits}.rows(op.x.rows);
  p.need_scratch(product_scratch(product, rows, p.batch_invariant));
  const bool packed = p.room_for_packed || packs_instead(product);
  if (packed && p.f8_rows && !p.batch_invariant) op.streamed = pack_f8_product(product, device, p.allocate);
  if (op.streamed != nullptr) return;
  measure_product(product, rows, packed, device);
  if (packed && !p.batch_invariant) op.streamed = pack_product(product, device, p.allocate);
}

bool leave_published(Linear& op) {
  if (op.streamed == nullptr || !packs_instead(device_product(op, nullptr, nullptr))) return false;
  for (int i = 0; i < op.n_parts; ++i) {
    Weight& w = op.parts[static_cast<size_t>(i)].weight;
    w.data = packed_data(*op.streamed);  // not read, and not taken for none
    w.scale = nullptr;
  }
  return true;
}

bool link(Linear& first, Linear& second, Prepare& p) {
  if (first.parts[0].out.rows.kind != second.x.rows.kind) return false;
  if (link_shared(first, second, p)) return true;
  return link_products(device_product(first, p.blas, nullptr), device_product(second, p.blas, nullptr), p.allocate);
}

const NormLink* link_input(Linear& op, Prepare& p) {
  return link_rows(device_product(op, p.blas, nullptr), p.allocate);
}

void run(const Linear& op, Ctx& ctx) {
  if (takes_route(op.route, ctx.rows(op.x))) return;
  const int32_t* slot = op.heads ? ctx.batch.groups[op.heads.rope.kv.group].slot : nullptr;
  multiply(device_product(op, ctx.blas, slot), ctx.rows(op.x), ctx);
}

}  // namespace ingot::cuda
