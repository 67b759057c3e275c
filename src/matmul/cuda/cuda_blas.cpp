#include "matmul/cuda/cuda_blas.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "base/error.h"

namespace ingot::cuda {
namespace {

// The part of cublasLt.h that is used, so that a build needs no such header. These numbers have been the same since
// CUDA 11.
using Status = int;
using Handle = void*;
constexpr int kF32 = 0, kBF16 = 14;                // cudaDataType
constexpr int kCompute32F = 68;                    // cublasComputeType_t: f32, not TF32
constexpr int kDescTransA = 3;                     // cublasLtMatmulDescAttributes_t
constexpr int kLayoutBatch = 5, kLayoutApart = 6;  // cublasLtMatrixLayoutAttribute_t
constexpr int kPreferWorkspace = 1;                // cublasLtMatmulPreferenceAttributes_t
constexpr int32_t kTransposed = 1;                 // cublasOperation_t
constexpr int64_t kWorkspace = 64ll << 20;         // what Hopper's kernels want at most is 32 MB
constexpr int kCandidates = 12;
constexpr int64_t kMostMeasuredRows = 2048;  // beyond it the library's first choice was as good

struct Heuristic {
  uint64_t algorithm[8];
  size_t workspace;
  Status state;
  float waves;
  int reserved[4];
};

}  // namespace

struct Blas::Library {
  void* file = nullptr;
  Handle handle = nullptr;
  size_t (*version)() = nullptr;
  Status (*create)(Handle*) = nullptr;
  Status (*destroy)(Handle) = nullptr;
  Status (*desc_create)(Handle*, int, int) = nullptr;
  Status (*desc_set)(Handle, int, const void*, size_t) = nullptr;
  Status (*desc_destroy)(Handle) = nullptr;
  Status (*layout_create)(Handle*, int, uint64_t, uint64_t, int64_t) = nullptr;
  Status (*layout_set)(Handle, int, const void*, size_t) = nullptr;
  Status (*layout_destroy)(Handle) = nullptr;
  Status (*prefer_create)(Handle*) = nullptr;
  Status (*prefer_set)(Handle, int, const void*, size_t) = nullptr;
  Status (*prefer_destroy)(Handle) = nullptr;
  Status (*heuristic)(Handle, Handle, Handle, Handle, Handle, Handle, Handle, int, Heuristic*, int*) = nullptr;
  Status (*check)(Handle, Handle, Handle, Handle, Handle, Handle, const void*, Heuristic*) = nullptr;
  Status (*matmul)(Handle, Handle, const void*, const void*, Handle, const void*, Handle, const void*, const void*,
                   Handle, void*, Handle, const void*, void*, size_t, StreamRef) = nullptr;

  ~Library() {
    if (handle != nullptr) destroy(handle);
    if (file != nullptr) dlclose(file);
  }

  // False where a name is missing.
  template <class F>
  bool find(F*& function, const char* name) {
    function = std::bit_cast<F*>(dlsym(file, name));
    return function != nullptr;
  }
  bool find_all() {
    return find(version, "cublasLtGetVersion") && find(create, "cublasLtCreate") && find(destroy, "cublasLtDestroy") &&
           find(desc_create, "cublasLtMatmulDescCreate") && find(desc_set, "cublasLtMatmulDescSetAttribute") &&
           find(desc_destroy, "cublasLtMatmulDescDestroy") && find(layout_create, "cublasLtMatrixLayoutCreate") &&
           find(layout_set, "cublasLtMatrixLayoutSetAttribute") &&
           find(layout_destroy, "cublasLtMatrixLayoutDestroy") &&
           find(prefer_create, "cublasLtMatmulPreferenceCreate") &&
           find(prefer_set, "cublasLtMatmulPreferenceSetAttribute") &&
           find(prefer_destroy, "cublasLtMatmulPreferenceDestroy") &&
           find(heuristic, "cublasLtMatmulAlgoGetHeuristic") && find(check, "cublasLtMatmulAlgoCheck") &&
           find(matmul, "cublasLtMatmul");
  }
};

namespace {

// The library thinks in columns: our row-major out [rows, n] is its n × rows, and its A is our W, transposed.
template <class Library>
class Shape {
 public:
  Shape(const Library& library, const Blas::Product& p) : library_(library) {
    const int out_type = p.out_f32 ? kF32 : kBF16;
    const auto n = static_cast<uint64_t>(p.n), rows = static_cast<uint64_t>(p.rows),
               cols = static_cast<uint64_t>(p.cols);
    ok_ = library.desc_create(&desc_, kCompute32F, kF32) == 0 &&
          library.desc_set(desc_, kDescTransA, &kTransposed, sizeof(kTransposed)) == 0 &&
          library.layout_create(&a_, kBF16, cols, n, p.cols) == 0 &&
          library.layout_create(&b_, kBF16, cols, rows, p.x_stride) == 0 &&
          library.layout_create(&c_, out_type, n, rows, p.out_stride) == 0 &&
          (p.batch == 1 ||
           (repeat(a_, p.batch, p.n * p.cols) && repeat(b_, p.batch, p.x_apart) && repeat(c_, p.batch, p.out_apart)));
  }
  ~Shape() {
    for (Handle layout : {a_, b_, c_})
      if (layout != nullptr) library_.layout_destroy(layout);
    if (desc_ != nullptr) library_.desc_destroy(desc_);
  }
  Shape(const Shape&) = delete;
  Shape& operator=(const Shape&) = delete;

  // At most `most` algorithms, what the library thinks the best first.
  std::vector<Heuristic> candidates(int most) const {
    std::vector<Heuristic> found(static_cast<size_t>(most));
    Handle preference = nullptr;
    int n = 0;
    const uint64_t workspace = kWorkspace;
    if (ok_ && library_.prefer_create(&preference) == 0 &&
        library_.prefer_set(preference, kPreferWorkspace, &workspace, sizeof(workspace)) == 0 &&
        library_.heuristic(library_.handle, desc_, a_, b_, c_, c_, preference, most, found.data(), &n) != 0)
      n = 0;
    if (preference != nullptr) library_.prefer_destroy(preference);
    found.resize(static_cast<size_t>(n));
    std::erase_if(found, [](const Heuristic& h) { return h.state != 0; });
    return found;
  }
  bool takes(const uint64_t* algorithm) const {
    Heuristic result = {};
    return ok_ && library_.check(library_.handle, desc_, a_, b_, c_, c_, algorithm, &result) == 0 &&
           result.state == 0 && result.workspace <= static_cast<size_t>(kWorkspace);
  }
  bool run(const Blas::Product& p, const uint64_t* algorithm, void* workspace, StreamRef stream) const {
    const float one = 1, zero = 0;
    const void* c = p.add != nullptr ? p.add : p.out;
    return ok_ && library_.matmul(library_.handle, desc_, &one, p.weights, a_, p.x, b_, p.add != nullptr ? &one : &zero,
                                  c, c_, p.out, c_, algorithm, workspace, static_cast<size_t>(kWorkspace), stream) == 0;
  }

 private:
  bool repeat(Handle layout, int32_t batch, int64_t apart) const {
    return library_.layout_set(layout, kLayoutBatch, &batch, sizeof(batch)) == 0 &&
           library_.layout_set(layout, kLayoutApart, &apart, sizeof(apart)) == 0;
  }

  const Library& library_;
  Handle desc_ = nullptr, a_ = nullptr, b_ = nullptr, c_ = nullptr;
  bool ok_ = false;
};

// $XDG_CACHE_HOME or ~/.cache, then ingot/; the name says which device and library the choices hold for.
std::string cache_path(size_t version) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  std::string folder;
  if (cache != nullptr && *cache == '/') {
    folder = cache;
  } else if (home != nullptr && *home == '/') {
    folder = std::string(home) + "/.cache";
  } else {
    return {};
  }
  std::string name = device_facts().name;
  for (char& c : name)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))) c = '_';
  return fmt::format("{}/ingot/products-{}-{}.txt", folder, name, version);
}

}  // namespace

std::unique_ptr<Blas> Blas::load(std::string* why) {
  if (is_emulated()) {
    *why = "the device is emulated";
    return nullptr;
  }
  auto library = std::make_unique<Library>();
  for (const char* name : {"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13", "libcublasLt.so.12",
                           "/usr/local/cuda/lib64/libcublasLt.so.12"}) {
    library->file = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library->file != nullptr) break;
  }
  if (library->file == nullptr) {
    *why = "libcublasLt.so.13 or .12 was not found (LD_LIBRARY_PATH names other folders)";
    return nullptr;
  }
  if (!library->find_all() || library->create(&library->handle) != 0) {
    *why = "libcublasLt does not work here";
    library->handle = nullptr;
    return nullptr;
  }
  std::string path = cache_path(library->version());
  std::unique_ptr<Blas> blas(new Blas(std::move(library), std::move(path)));
  blas->read_cache();
  return blas;
}

Blas::Blas(std::unique_ptr<Library> library, std::string cache_file)
    : library_(std::move(library)), workspace_(kWorkspace), cache_file_(std::move(cache_file)) {}

Blas::~Blas() = default;

Blas::Key Blas::key_of(const Product& p) {
  const auto rows = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(p.rows)));
  return {rows, p.n, p.cols, p.out_f32, p.add != nullptr};
}

void Blas::measure(const Product& product, StreamRef stream) {
  const Key key = key_of(product);
  if (product.rows > kMostMeasuredRows || measured_.contains(key)) return;
  Product p = product;
  p.rows = std::get<0>(key);
  p.x_stride = p.cols;
  p.out_stride = p.n;
  DeviceMemory x, out, weights;
  try {
    if (p.weights == nullptr) weights = DeviceMemory(p.n * p.cols * 2);
    x = DeviceMemory(p.rows * p.cols * 2);
    out = DeviceMemory(p.rows * p.n * 4);
  } catch (const Error&) {
    return;
  }
  if (p.weights == nullptr) {
    fill_bytes(weights.data(), 0x3c, weights.bytes(), stream);
    p.weights = weights.data();
  }
  fill_bytes(x.data(), 0x3d, x.bytes(), stream);  // 0.046 each
  fill_bytes(out.data(), 0, out.bytes(), stream);
  p.x = x.data();
  p.out = out.data();
  if (p.add != nullptr) p.add = out.data();
  const Shape<Library> shape(*library_, p);
  const Heuristic* best = nullptr;
  double least = 0;
  const std::vector<Heuristic> candidates = shape.candidates(kCandidates);
  for (const Heuristic& candidate : candidates) {
    if (!shape.run(p, candidate.algorithm, workspace_.data(), stream)) continue;
    constexpr int kRuns = 4;
    Event begin, end;
    begin.record(stream);
    for (int i = 0; i < kRuns; ++i) shape.run(p, candidate.algorithm, workspace_.data(), stream);
    end.record(stream);
    end.synchronize();
    const double seconds = end.seconds_since(begin);
    if (best != nullptr && seconds >= least) continue;
    best = &candidate;
    least = seconds;
  }
  if (best == nullptr) return;
  measured_[key] = std::bit_cast<Algorithm>(best->algorithm);
  changed_ = true;
}

bool Blas::run(const Product& product, StreamRef stream) {
  const Shape<Library> shape(*library_, product);
  const Key key = key_of(product);
  const Exact at(product.rows, product.batch, key);
  auto chosen = chosen_.find(at);
  if (chosen == chosen_.end()) {
    const auto found = measured_.find(key);
    Algorithm algorithm;
    if (product.batch == 1 && found != measured_.end() && shape.takes(found->second.data)) {
      algorithm = found->second;
    } else {
      const std::vector<Heuristic> first = shape.candidates(1);
      if (first.empty()) return false;
      algorithm = std::bit_cast<Algorithm>(first[0].algorithm);
    }
    chosen = chosen_.emplace(at, algorithm).first;
  }
  return shape.run(product, chosen->second.data, workspace_.data(), stream);
}

// One line for each shape: rows n cols f32 add, then eight words of the algorithm.
void Blas::read_cache() {
  std::ifstream in(cache_file_);
  std::string line;
  while (!cache_file_.empty() && std::getline(in, line)) {
    std::istringstream words(line);
    int64_t rows = 0, n = 0, cols = 0;
    bool f32 = false, add = false;
    Algorithm algorithm = {};
    words >> rows >> n >> cols >> f32 >> add >> std::hex;
    for (uint64_t& word : algorithm.data) words >> word;
    if (words) measured_[{rows, n, cols, f32, add}] = algorithm;  // run() asks the library whether it takes it
  }
}

void Blas::save() const {
  if (!changed_ || cache_file_.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(cache_file_).parent_path(), ignored);
  const std::string part = fmt::format("{}.{}", cache_file_, static_cast<const void*>(this));
  {
    std::ofstream out(part);
    for (const auto& [key, algorithm] : measured_) {
      const auto& [rows, n, cols, f32, add] = key;
      out << fmt::format("{} {} {} {:d} {:d}", rows, n, cols, f32, add);
      for (const uint64_t word : algorithm.data) out << fmt::format(" {:x}", word);
      out << '\n';
    }
    if (!out) return;
  }
  std::filesystem::rename(part, cache_file_, ignored);
}

}  // namespace ingot::cuda
