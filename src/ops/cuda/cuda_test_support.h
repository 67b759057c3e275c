// What the tests of CUDA versions share: an op whose tensors are in the host's memory runs on the device (real or
// emulated), and what it wrote comes back to where the tensors lie.
#pragma once

#include <tuple>
#include <utility>

#include "cuda/device_test_support.h"
#include "ops/cuda/ops.h"
#include "ops/ops_test_support.h"

namespace ingot::test {

// The batch with the pages of every group `first` further into the cache.
inline Batch with_pages_from(Batch batch, int first, int page_rows = 16) {
  for (Batch::Group& group : batch.groups) {
    for (int32_t& page : group.page_table)
      if (page >= 0) page += first;
    for (int32_t& slot : group.slot)
      if (slot >= 0) slot += first * page_rows;
  }
  return batch;
}

// A device with a batch on it. Rows and seqs are padded to a bucket that may be larger than the batch.
class DeviceRig : public TestDevice {
 public:
  struct Options {
    int more_rows = 0, more_seqs = 0;  // of the bucket
    bool batch_invariant = false;
    bool overlap = true;
    int q_rows = 0;  // 0: the longest seq's
    int page_rows = 16;
    int arch = 0;             // 0: the device's own; an older one's kernels run too
    int multiprocessors = 0;  // 0: the device's own
    bool f8_rows = false;
  };

  explicit DeviceRig(const Batch& batch) : DeviceRig(batch, Options{}) {}
  DeviceRig(const Batch& batch, const Options& options)
      : TestDevice({.batch_invariant = options.batch_invariant,
                    .overlap = options.overlap,
                    .arch = options.arch,
                    .multiprocessors = options.multiprocessors}),
        host_(batch),
        options_(options) {
    fill_batch();
  }

  // A KV cache on the device for `pages` pages: the layer points to it afterwards.
  void place_kv(KvLayer& layer, int64_t pages) {
    const int64_t slots = pages * layer.page_rows * layer.kv_heads;
    layer.k = allocate(slots * layer.k_bytes());
    layer.v = allocate(slots * layer.v_bytes());
  }

  // A host tensor's twin on the device, and back again into the host's.
  Tensor to_device(const Tensor& t) {
    Tensor twin = t;
    const int64_t rows = padded().rows(t.rows), used = host_shape().rows(t.rows);
    const int64_t row_bytes = t.stride * dtype_bytes(t.dtype), bytes = t.cols * dtype_bytes(t.dtype);
    std::byte* place = place_of(t.data, rows * row_bytes);
    std::vector<std::byte> image(static_cast<size_t>(rows * row_bytes), std::byte{0});
    for (int64_t r = 0; r < used; ++r)
      std::memcpy(image.data() + r * row_bytes, t.data + r * row_bytes, static_cast<size_t>(bytes));
    cuda::copy_to_device(place, image.data(), rows * row_bytes, stream());
    synchronize();
    twin.data = place;
    return twin;
  }
  void to_host(const Tensor& t, const Tensor& twin) {
    const int64_t used = host_shape().rows(t.rows);
    const int64_t row_bytes = t.stride * dtype_bytes(t.dtype), bytes = t.cols * dtype_bytes(t.dtype);
    for (int64_t r = 0; r < used; ++r) download(t.data + r * row_bytes, twin.data + r * row_bytes, bytes);
  }
  Weight to_device(const Weight& w) {
    Weight twin = w;
    if (!w) return twin;
    twin.data = upload(w.data, w.bytes());
    if (w.scale != nullptr) {
      const int64_t n = (w.rows + w.scale_rows - 1) / w.scale_rows * w.scale_stride;
      twin.scale = reinterpret_cast<const float*>(upload(w.scale, n * 4));
    }
    return twin;
  }

  // Prepares the op on the device, runs it `times` times, and brings back what it wrote. KV layers must be placed.
  // in_front(ctx, op) is called before the runs; the op's tensors are the device's.
  template <class Op, class F>
  void run(const Op& host_op, int times, F&& in_front) {
    Op op = host_op;
    std::vector<std::pair<Tensor, Tensor>> written;
    op.each(Mover{*this, written});
    cuda::Prepare prepare = preparation();
    cuda::prepare(op, prepare);
    run_prepared(prepare, written, [&](cuda::Ctx& c) {
      in_front(c, op);
      for (int i = 0; i < times; ++i) cuda::run(op, c);
    });
  }
  template <class Op>
  void run(const Op& host_op, int times = 1) {
    run(host_op, times, [](const cuda::Ctx&, const Op&) {});
  }

  // Ops one right after the other. Returns how many pairs of neighbours were linked.
  template <class... Ops>
  int run_chain(const Ops&... host_ops) {
    std::tuple<Ops...> ops(host_ops...);
    std::vector<std::pair<Tensor, Tensor>> written;
    std::apply([&](auto&... op) { (op.each(Mover{*this, written}), ...); }, ops);
    cuda::Prepare prepare = preparation();
    std::apply([&](auto&... op) { (cuda::prepare(op, prepare), ...); }, ops);
    const int linked = link_neighbours(ops, prepare, std::make_index_sequence<sizeof...(Ops) - 1>());
    run_prepared(prepare, written,
                 [&](cuda::Ctx& c) { std::apply([&](const auto&... op) { (cuda::run(op, c), ...); }, ops); });
    return linked;
  }
  template <class First, class Second>
  bool run_linked(const First& first, const Second& second) {
    return run_chain(first, second) == 1;
  }

  cuda::Prepare preparation() {
    const cuda::DeviceCtx device = TestDevice::ctx();
    StepLimits limits = limits_of(host_, options_.page_rows);
    limits.rows += options_.more_rows;
    limits.logits += options_.more_rows;
    limits.seqs += options_.more_seqs;
    return {.limits = limits,
            .stream = device.stream,
            .multiprocessors = device.multiprocessors,
            .arch = device.arch,
            .batch_invariant = device.batch_invariant,
            .f8_rows = options_.f8_rows,
            .allocate = [this](int64_t bytes) { return allocate(bytes); }};
  }
  cuda::Ctx ctx() {
    int longest = 1;
    for (size_t s = 0; s < static_cast<size_t>(host_.n_seqs); ++s)
      longest = std::max(longest, host_.q_start[s + 1] - host_.q_start[s]);
    cuda::Ctx c;
    static_cast<cuda::DeviceCtx&>(c) = TestDevice::ctx();
    c.batch = device_;
    c.shape = padded();
    c.seqs = host_.n_seqs + options_.more_seqs;
    c.q_rows = options_.q_rows != 0 ? options_.q_rows : longest;
    return c;
  }

 private:
  template <class Tuple, size_t... I>
  static int link_neighbours(Tuple& ops, cuda::Prepare& prepare, std::index_sequence<I...>) {
    return (0 + ... + (cuda::link(std::get<I>(ops), std::get<I + 1>(ops), prepare) ? 1 : 0));
  }

  // Tensors and weights of an op to the device, for Op::each().
  struct Mover {
    DeviceRig& rig;
    std::vector<std::pair<Tensor, Tensor>>& written;
    void in(Tensor& t) { t = rig.to_device(t); }
    void out(Tensor& t) {
      const Tensor host = t;
      t = rig.to_device(t);
      written.emplace_back(host, t);
    }
    void inout(Tensor& t) { out(t); }
    void weight(Weight& w) { w = rig.to_device(w); }
    void alias(Tensor&, Tensor&) {}
  };

  // body(ctx) with the scratch that was asked for; then what was written is brought back.
  template <class F>
  void run_prepared(const cuda::Prepare& prepare, const std::vector<std::pair<Tensor, Tensor>>& written, F&& body) {
    cuda::DeviceMemory scratch(prepare.scratch_bytes);
    cuda::Ctx c = ctx();
    c.scratch = scratch.data();
    c.scratch_bytes = prepare.scratch_bytes;
    body(c);
    synchronize();
    for (const auto& [host, twin] : written) to_host(host, twin);
    expect_nothing_left();
  }

  Shape host_shape() const { return {.tokens = host_.n_rows, .logits = host_.n_logits}; }
  Shape padded() const {
    return {.tokens = host_.n_rows + options_.more_rows, .logits = host_.n_logits + options_.more_rows};
  }
  const int32_t* put(std::vector<int32_t> values, size_t used, size_t size, int32_t padding) {
    values.resize(used);
    values.resize(std::max(size, size_t{1}), padding);
    kept_.push_back(std::move(values));
    const auto bytes = static_cast<int64_t>(kept_.back().size() * 4);
    std::byte* to = allocate(bytes);
    cuda::copy_to_device(to, kept_.back().data(), bytes, stream());
    return reinterpret_cast<const int32_t*>(to);
  }
  void fill_batch() {
    const auto rows = static_cast<size_t>(host_.n_rows), seqs = static_cast<size_t>(host_.n_seqs);
    const auto logits = static_cast<size_t>(host_.n_logits);
    const size_t more = static_cast<size_t>(options_.more_rows), more_seqs = static_cast<size_t>(options_.more_seqs);
    device_.counts = put({host_.n_rows, host_.n_seqs, host_.n_logits}, 3, 3, 0);
    device_.token = put(host_.token, rows, rows + more, 0);
    device_.position = put(host_.position, rows, rows + more, 0);
    device_.seq = put(host_.seq, rows, rows + more, 0);
    device_.q_start = put(host_.q_start, seqs + 1, seqs + 1 + more_seqs, host_.n_rows);
    device_.kv_len = put(host_.kv_len, seqs, seqs + more_seqs, 0);
    device_.logit_row = put(host_.logit_row, logits, logits + more, 0);
    device_.pages_per_seq = host_.pages_per_seq;
    for (size_t g = 0; g < host_.groups.size(); ++g) {
      const auto per_seq = static_cast<size_t>(host_.pages_per_seq);
      device_.groups[g].page_table = put(host_.groups[g].page_table, seqs * per_seq, (seqs + more_seqs) * per_seq, -1);
      device_.groups[g].slot = put(host_.groups[g].slot, rows, rows + more, -1);
    }
    synchronize();
  }

  const Batch& host_;
  const Options options_;
  cuda::DeviceBatch device_;
  std::vector<std::vector<int32_t>> kept_;
};

}  // namespace ingot::test
