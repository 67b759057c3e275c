#include <algorithm>
#include <chrono>
#include <thread>

#include "cuda/peer_words.h"
#include "devices/gpu_work.h"
#include "graph/cuda/cuda_random.h"
#include "matmul/cuda/matmul.h"
#include "tensor/cuda_peer.h"

namespace ingot {
namespace {

using cuda::DeviceMemory;
using cuda::Event;
using cuda::StreamRef;

constexpr std::chrono::seconds kDeadline{5};
constexpr int kPasses = 5;

// One device's end of a test.
struct Side {
  Side(int index, int64_t bytes) : device(index) {
    cuda::use_device(index);
    cuda::require_kernels();
    stream = std::make_unique<cuda::Stream>();
    memory = DeviceMemory(bytes);
    wrong = DeviceMemory(256);
  }
  StreamRef use() const {
    cuda::use_device(device);
    return stream->ref();
  }

  const int device;
  std::unique_ptr<cuda::Stream> stream;
  DeviceMemory memory, wrong;
};

// Whether all that the stream was given ends in time.
bool ends(StreamRef stream) {
  Event end;
  end.record(stream);
  const auto latest = std::chrono::steady_clock::now() + kDeadline;
  while (!end.done()) {
    if (std::chrono::steady_clock::now() > latest) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

// A kernel of `writer` writes where a kernel of `reader` reads; `right`: it read what was written. False: not in time.
bool carry(const Side& writer, const Side& reader, const DeviceMemory& memory, uint32_t key, bool& right) {
  cuda::write_pattern(memory.data(), memory.bytes(), key, writer.use());
  if (!ends(writer.stream->ref())) return false;
  const StreamRef stream = reader.use();
  uint32_t wrong = 0;
  cuda::fill_bytes(reader.wrong.data(), 0, 4, stream);
  cuda::count_wrong(memory.data(), memory.bytes(), key, reinterpret_cast<uint32_t*>(reader.wrong.data()), stream);
  if (!ends(stream)) return false;  // the copy below waits without a deadline
  cuda::copy_to_host(&wrong, reader.wrong.data(), 4, stream);
  if (!ends(stream)) return false;
  right = wrong == 0;
  return true;
}

// Seconds of what `body` gives to the stream, the best of several.
template <class F>
double best_seconds(StreamRef stream, const F& body) {
  double best = 0;
  for (int pass = 0; pass <= kPasses; ++pass) {
    Event begin, end;
    begin.record(stream);
    body();
    end.record(stream);
    end.synchronize();
    const double seconds = end.seconds_since(begin);
    if (pass > 0 && seconds > 0) best = best > 0 ? std::min(best, seconds) : seconds;  // the first takes the way up
  }
  return best;
}

double gbs(int64_t bytes, double seconds) { return seconds > 0 ? static_cast<double>(bytes) / seconds / 1e9 : 0; }

// By two pieces of pinned memory in turn: one is filled while the other is emptied.
double through_host_seconds(const Side& from, const Side& to) {
  constexpr int64_t kPiece = int64_t{4} << 20;
  const int64_t bytes = from.memory.bytes();
  const cuda::PinnedMemory host[2] = {cuda::PinnedMemory(kPiece), cuda::PinnedMemory(kPiece)};
  from.use();
  Event filled[2];
  to.use();
  Event emptied[2];
  double best = 0;
  for (int pass = 0; pass <= kPasses; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    for (int64_t at = 0, i = 0; at < bytes; at += kPiece, ++i) {
      const int64_t n = std::min(kPiece, bytes - at), turn = i % 2;
      const StreamRef out = from.use();
      if (i >= 2) emptied[turn].hold(out);
      cuda::copy_to_host(host[turn].data(), from.memory.data() + at, n, out);
      filled[turn].record(out);
      const StreamRef in = to.use();
      filled[turn].hold(in);
      cuda::copy_to_device(to.memory.data() + at, host[turn].data(), n, in);
      emptied[turn].record(in);
    }
    from.stream->synchronize();
    to.stream->synchronize();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (pass > 0) best = best > 0 ? std::min(best, seconds) : seconds;
  }
  return best;
}

// The sides outlive a pair that is late: freeing them would wait for it.
void test_pair(const Side& from, const Side& to, GpuPair& pair) {
  const int64_t bytes = from.memory.bytes();
  pair.claimed = cuda::reaches_peer(from.device, to.device);
  if (pair.claimed) {
    from.use();
    cuda::reach_peer(to.device);
    pair.late = !carry(from, to, to.memory, 1 + static_cast<uint32_t>(from.device), pair.wrote) ||
                !carry(to, from, to.memory, 1001 + static_cast<uint32_t>(to.device), pair.read);
    if (pair.late) return;
  }
  if (pair.wrote && pair.read) {
    const StreamRef stream = from.use();
    const auto copy = [&](int64_t n) {
      cuda::copy_to_peer(to.memory.data(), to.device, from.memory.data(), from.device, n, stream);
    };
    pair.direct_gbs = gbs(bytes, best_seconds(stream, [&] { copy(bytes); }));
    constexpr int kCopies = 100;
    pair.direct_us = best_seconds(stream,
                                  [&] {
                                    for (int i = 0; i < kCopies; ++i) copy(16);
                                  }) /
                     kCopies * 1e6;
  }
  pair.through_host_gbs = gbs(bytes, through_host_seconds(from, to));
}

// The product by our own kernels, whose order of additions is fixed: other libraries choose by measuring.
class CudaProduct final : public EqualProduct {
 public:
  CudaProduct(int device, const MatmulSize& size)
      : size_(size),
        stream_((cuda::use_device(device), cuda::require_kernels(), std::make_unique<cuda::Stream>())),
        x_(size.m * size.k * 2),
        w_(size.n * size.k * 2),
        out_(size.m * size.n * 4),
        tickets_(cuda::kTickets * static_cast<int64_t>(sizeof(uint32_t))) {
    const cuda::DeviceFacts facts = cuda::device_facts();
    const StreamRef stream = stream_->ref();
    handed_ = DeviceMemory(cuda::kHandedRoom * facts.multiprocessors);
    cuda::fill_bytes(tickets_.data(), 0, tickets_.bytes(), stream);
    cuda::fill_bytes(handed_.data(), 0xff, handed_.bytes(), stream);  // kNothing
    weight_ = random(w_, size.n, 1);
    random(x_, size.m, 2);
    product_.input.x = matrix(x_, DType::kBF16, size.k);
    product_.parts[0].weight = &weight_;
    product_.parts[0].out = matrix(out_, DType::kF32, size.n);
    ctx_.stream = stream;
    ctx_.multiprocessors = facts.multiprocessors;
    ctx_.arch = facts.major * 10 + facts.minor;
    ctx_.batch_invariant = true;
    scratch_ = DeviceMemory(cuda::product_scratch(product_, size.m, ctx_.batch_invariant));
    ctx_.scratch = scratch_.data();
    ctx_.scratch_bytes = scratch_.bytes();
    ctx_.tickets = reinterpret_cast<uint32_t*>(tickets_.data());
    ctx_.handed = reinterpret_cast<float*>(handed_.data());
  }

  void run() override {
    cuda::multiply(product_, size_.m, ctx_);
    stream_->synchronize();
  }
  std::vector<float> result() override {
    std::vector<float> values(static_cast<size_t>(size_.m * size_.n));
    cuda::copy_to_host(values.data(), out_.data(), out_.bytes(), stream_->ref());
    stream_->synchronize();
    return values;
  }

 private:
  static Matrix matrix(const DeviceMemory& memory, DType dtype, int64_t cols) {
    Matrix m;
    m.data = memory.data();
    m.dtype = dtype;
    m.cols = m.stride = cols;
    return m;
  }
  Weight random(const DeviceMemory& memory, int64_t rows, uint64_t key) const {
    Weight w{.name = "random", .format = Format::kBF16, .rows = rows, .cols = size_.k};
    w.row_bytes = size_.k * 2;
    w.random = {.key = key << 40, .range = 0.05f};
    cuda::fill_random(w, memory.data(), stream_->ref());
    w.data = memory.data();
    return w;
  }

  const MatmulSize size_;
  std::unique_ptr<cuda::Stream> stream_;
  DeviceMemory x_, w_, out_, tickets_, handed_, scratch_;
  Weight weight_;
  cuda::DeviceProduct product_;
  cuda::DeviceCtx ctx_;
};

}  // namespace

std::vector<std::string> cuda_bus_ids() {
  std::vector<std::string> ids;
  if (cuda::is_emulated()) return ids;
  for (int i = 0; i < cuda::device_count(); ++i) ids.push_back(cuda::device_bus_id(i));
  return ids;
}

GpuPair test_gpu_pair(int from, int to, int64_t bytes) {
  GpuPair pair{.from = from, .to = to};
  auto a = std::make_unique<Side>(from, bytes), b = std::make_unique<Side>(to, bytes);
  test_pair(*a, *b, pair);
  if (pair.late) {
    (void)a.release();
    (void)b.release();
  }
  return pair;
}

GpuTest test_gpus(const std::vector<int>& devices, int64_t bytes, const std::function<void(const GpuPair&)>& tell) {
  GpuTest test;
  for (const int device : devices) {
    const Side side(device, bytes);
    const cuda::PinnedMemory host(bytes);
    const StreamRef stream = side.use();
    const auto up = [&] { cuda::copy_to_device(side.memory.data(), host.data(), bytes, stream); };
    const auto down = [&] { cuda::copy_to_host(host.data(), side.memory.data(), bytes, stream); };
    test.to_device_gbs.push_back(gbs(bytes, best_seconds(stream, up)));
    test.to_host_gbs.push_back(gbs(bytes, best_seconds(stream, down)));
  }
  for (const int from : devices) {
    for (const int to : devices) {
      if (from == to) continue;
      test.pairs.push_back(test_gpu_pair(from, to, bytes));
      tell(test.pairs.back());
      if (test.pairs.back().late) return test;
    }
  }
  return test;
}

std::unique_ptr<EqualProduct> make_gpu_product(int device, const MatmulSize& size) {
  return std::make_unique<CudaProduct>(device, size);
}

}  // namespace ingot
