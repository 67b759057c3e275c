// Products of bf16 by NVIDIA's cuBLASLt, loaded at run time where the machine has it: nothing is linked. Its algorithm
// is chosen by measuring a few once for each shape, and kept in a file of the user's cache. Called by the engine's
// thread alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "tensor/cuda.h"

namespace ingot::cuda {

class Blas {
 public:
  // out = x · Wᵀ (+ add), with sums in f32. Rows are 16-byte aligned. The three have strides in elements.
  struct Product {
    const void* x = nullptr;  // [rows, cols] bf16
    int64_t x_stride = 0;
    const void* weights = nullptr;  // [n, cols] bf16, without gaps
    void* out = nullptr;            // [rows, n] f32 or bf16
    int64_t out_stride = 0;
    bool out_f32 = false;
    const void* add = nullptr;  // of out's type and stride, may be out; null: none
    int64_t rows = 0, n = 0, cols = 0;
    // Several products of one shape: elements from one's x and out to the next one's; weights follow one another.
    // Without `add`, and never measured.
    int batch = 1;
    int64_t x_apart = 0, out_apart = 0;
  };

  // Of the device in use. Null where there is no such library, and `why` says so in one line.
  static std::unique_ptr<Blas> load(std::string* why);
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  // Measures algorithms for this shape, where that has not been done: gives work to the stream and waits for it. Not
  // while a graph is recorded. `product` names weights alone, or not even them; x and out are made here.
  // Row counts up to a power of two share one choice. Where there is no memory to measure in, nothing happens.
  void measure(const Product& product, StreamRef stream);
  // Gives the product to the stream, by the algorithm that was measured or else by the library's first choice. False
  // where the library has none: nothing was done.
  bool run(const Product& product, StreamRef stream);
  // What was measured, to the file.
  void save() const;

 private:
  struct Library;
  struct Algorithm {
    uint64_t data[8];  // as the library calls it
  };
  // rows (a power of two), n, cols, out_f32, add
  using Key = std::tuple<int64_t, int64_t, int64_t, bool, bool>;
  // rows, batch
  using Exact = std::tuple<int64_t, int, Key>;

  Blas(std::unique_ptr<Library> library, std::string cache_file);
  static Key key_of(const Product& product);
  void read_cache();

  std::unique_ptr<Library> library_;
  DeviceMemory workspace_;
  std::string cache_file_;  // empty: none
  std::map<Key, Algorithm> measured_;
  // Choices for exact shapes that nobody measured.
  std::map<Exact, Algorithm> chosen_;
  bool changed_ = false;
};

}  // namespace ingot::cuda
