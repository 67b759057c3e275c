// CUB's versions of the operators of the ladders, for tools/rivals.py: a library of its own, built on request
// (cmake/cub.cmake), with the headers that nvcc brings. Times are of runs that are recorded as a graph, on operands
// that pass through more than the caches between two uses, as ours.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <cub/cub.cuh>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr size_t kRotation = 200 << 20;  // bytes of operands to pass through between two uses of one
constexpr double kLong = 400e-6;         // seconds of a graph below which it has its runs several times

void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

struct Memory {
  explicit Memory(size_t bytes) { check(cudaMalloc(&data, std::max<size_t>(bytes, 1))); }
  ~Memory() { cudaFree(data); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* data = nullptr;
};

enum class Fill { kBits, kFloats, kBelow, kZeros };

// Random: all bits, floats in [-1, 1), or integers below `below`.
__global__ void fill(uint32_t* to, size_t n, Fill kind, uint32_t below) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < n; i += size_t{gridDim.x} * blockDim.x) {
    uint32_t x = static_cast<uint32_t>(i) * 2654435761u + 1;
    for (int turn = 0; turn < 3; ++turn) x ^= x << 13, x ^= x >> 17, x ^= x << 5;
    if (kind == Fill::kFloats) x = __float_as_uint(static_cast<float>(x >> 8) * 0x1p-23f - 1.0f);
    if (kind == Fill::kBelow) x %= below;
    to[i] = kind == Fill::kZeros ? 0 : x;
  }
}

struct Case {
  std::string op, dtype, variant;
  std::vector<int64_t> size;
};

class Rival {
 public:
  Rival(const Case& c, int device) {
    check(cudaSetDevice(device));
    check(cudaStreamCreate(&stream_));
    check(cudaEventCreate(&begin_));
    check(cudaEventCreate(&end_));
    const size_t bytes = add(c);
    for (size_t i = std::min<size_t>(16, kRotation / std::max<size_t>(bytes, 1)); i > 0; --i) add(c);
    for (const auto& run : runs_) check(run());
    check(cudaStreamSynchronize(stream_));
    record();
    seconds();
    const double all = seconds() * static_cast<double>(recorded_);
    const auto turns = static_cast<size_t>(kLong / std::max(all, 1e-6));
    if (turns > 1) record(std::min<size_t>(turns, 16));
  }
  ~Rival() {
    if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
    if (end_ != nullptr) cudaEventDestroy(end_);
    if (begin_ != nullptr) cudaEventDestroy(begin_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  Rival(const Rival&) = delete;
  Rival& operator=(const Rival&) = delete;

  // Of one run.
  double seconds() {
    check(cudaEventRecord(begin_, stream_));
    check(cudaGraphLaunch(graph_, stream_));
    check(cudaEventRecord(end_, stream_));
    check(cudaEventSynchronize(end_));
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin_, end_));
    return static_cast<double>(ms) * 1e-3 / static_cast<double>(recorded_);
  }

 private:
  void record(size_t turns = 1) {
    if (graph_ != nullptr) check(cudaGraphExecDestroy(graph_));
    graph_ = nullptr;
    cudaGraph_t graph = nullptr;
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    cudaError_t error = cudaSuccess;
    for (size_t t = 0; t < turns; ++t)
      for (const auto& run : runs_) error = error == cudaSuccess ? run() : error;
    const cudaError_t ended = cudaStreamEndCapture(stream_, &graph);
    if (error == cudaSuccess && ended == cudaSuccess) error = cudaGraphInstantiate(&graph_, graph, 0);
    if (graph != nullptr) cudaGraphDestroy(graph);
    check(error);
    check(ended);
    recorded_ = turns * runs_.size();
  }

  template <class T>
  T* room(size_t n) {
    memory_.push_back(std::make_unique<Memory>(n * sizeof(T)));
    return static_cast<T*>(memory_.back()->data);
  }
  template <class T>
  T* operand(size_t n, Fill kind, uint32_t below = 0) {
    const size_t words = (n * sizeof(T) + 3) / 4;
    auto* to = room<uint32_t>(words);
    fill<<<1024, 256, 0, stream_>>>(to, words, kind, below);
    check(cudaGetLastError());
    return reinterpret_cast<T*>(to);
  }
  // call(temporary, bytes) asks for its room where `temporary` is null, as CUB's functions do.
  template <class F>
  void keep(F call) {
    size_t bytes = 0;
    check(call(nullptr, bytes));
    auto* temporary = room<char>(bytes);
    runs_.emplace_back([call, temporary, bytes] {
      size_t room_bytes = bytes;
      return call(temporary, room_bytes);
    });
  }

  // One more run on operands of its own; their bytes.
  size_t add(const Case& c) {
    const auto n = static_cast<size_t>(c.size.at(0));
    cudaStream_t s = stream_;
    if (c.op == "reduce") {
      auto *x = operand<float>(n, Fill::kFloats), *out = room<float>(1);
      keep(
          [=](void* t, size_t& bytes) { return cub::DeviceReduce::Sum(t, bytes, x, out, static_cast<int64_t>(n), s); });
      return 4 * n;
    }
    if (c.op == "scan") {
      auto *x = operand<float>(n, Fill::kFloats), *out = room<float>(n);
      keep([=](void* t, size_t& bytes) {
        return cub::DeviceScan::InclusiveSum(t, bytes, x, out, static_cast<int64_t>(n), s);
      });
      return 8 * n;
    }
    if (c.op == "sort") {
      auto *x = operand<uint32_t>(n, Fill::kBits), *out = room<uint32_t>(n);
      keep([=](void* t, size_t& bytes) {
        return cub::DeviceRadixSort::SortKeys(t, bytes, x, out, static_cast<int64_t>(n), 0, 32, s);
      });
      return 8 * n;
    }
    if (c.op == "route") return add_route(n, static_cast<uint32_t>(c.size.back()));
    if (c.op == "histogram") return add_histogram(n, c);
    throw std::runtime_error("no such operator");
  }
  // The places of every expert, in order: a stable sort of as many bits as their number has.
  size_t add_route(size_t n, uint32_t experts) {
    cudaStream_t s = stream_;
    auto *keys = operand<uint32_t>(n, Fill::kBelow, experts), *places = operand<uint32_t>(n, Fill::kBits);
    auto *sorted = room<uint32_t>(n), *out = room<uint32_t>(n);
    int bits = 1;
    while (bits < 32 && (experts - 1) >> bits != 0) ++bits;
    keep([=](void* t, size_t& bytes) {
      return cub::DeviceRadixSort::SortPairs(t, bytes, keys, sorted, places, out, static_cast<int64_t>(n), 0, bits, s);
    });
    return 16 * n;
  }
  size_t add_histogram(size_t n, const Case& c) {
    cudaStream_t s = stream_;
    auto* counts = room<uint32_t>(256);
    if (c.dtype == "u8") {
      auto* x = operand<uint8_t>(n, Fill::kBits);
      keep([=](void* t, size_t& bytes) {
        return cub::DeviceHistogram::HistogramEven(t, bytes, x, counts, 257, 0, 256, static_cast<int64_t>(n), s);
      });
      return n;
    }
    auto* x = operand<float>(n, c.variant == "one bin" ? Fill::kZeros : Fill::kFloats);
    keep([=](void* t, size_t& bytes) {
      return cub::DeviceHistogram::HistogramEven(t, bytes, x, counts, 257, -1.0f, 1.0f, static_cast<int64_t>(n), s);
    });
    return 4 * n;
  }

  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;
  size_t recorded_ = 0;
  std::vector<std::unique_ptr<Memory>> memory_;
  std::vector<std::function<cudaError_t()>> runs_;
};

template <class F>
bool tell(char* error, int room, F body) {
  try {
    body();
    return true;
  } catch (const std::exception& e) {
    if (room > 0) {
      std::strncpy(error, e.what(), static_cast<size_t>(room - 1));
      error[room - 1] = '\0';
    }
    return false;
  }
}

}  // namespace

extern "C" {

const char* cub_rival_version() {
  static const std::string version = std::to_string(CUB_MAJOR_VERSION) + "." + std::to_string(CUB_MINOR_VERSION) + "." +
                                     std::to_string(CUB_SUBMINOR_VERSION);
  return version.c_str();
}

// Null where it cannot be, with the reason in `error`.
void* cub_rival_open(const char* op, const char* dtype, const char* variant, const int64_t* size, int sizes, int device,
                     char* error, int room) {
  Rival* rival = nullptr;
  tell(error, room, [&] { rival = new Rival({op, dtype, variant, {size, size + sizes}}, device); });
  return rival;
}

// Negative where it failed.
double cub_rival_seconds(void* rival, char* error, int room) {
  double seconds = -1;
  tell(error, room, [&] { seconds = static_cast<Rival*>(rival)->seconds(); });
  return seconds;
}

void cub_rival_close(void* rival) { delete static_cast<Rival*>(rival); }

}  // extern "C"
