// Where weights come from: a GGUF file, safetensors, or a generator of random ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "quant/weight.h"
#include "tensor/memory.h"
#include "weights/names.h"

namespace ingot {

struct ModelFiles;

// A tensor as it is stored, under its canonical name. The source owns the memory.
struct StoredWeight {
  std::string name;
  Format format = Format::kF32;
  std::vector<int64_t> shape;  // row-major: [experts, rows, cols], [rows, cols], [n], or [] for a scalar
  const std::byte* data = nullptr;
  bool mapped = false;       // `data` is a mapped file
  bool bytes = false;        // plain bytes or integers, part of another weight: no format
  std::string dtype = {};    // what a safetensors file calls it: "I32"
  int64_t stored_bytes = 0;  // in a safetensors file
  RandomValues random = {};

  int64_t values() const;  // of its shape
};

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // The weight, or nullptr. `wanted` is the shape that the model asks for: a generator makes what is asked,
  // a file gives what it has.
  virtual const StoredWeight* find(const std::string& name, const std::vector<int64_t>& wanted) = 0;
  virtual bool has(const std::string& name) const = 0;
  // The names of all stored weights; empty for a generator.
  virtual std::vector<std::string> names() const = 0;
  // Whether it makes whatever is asked for, in place of reading files.
  virtual bool generates() const { return false; }
  // Whether q and k rows are stored in the order of interleaved rotation.
  virtual bool permuted_qk() const { return false; }
  // Frees what it made of stored tensors and of which `done` says that nobody reads it any more.
  virtual void release(const std::function<bool(const std::byte*)>& done) { static_cast<void>(done); }
};

// `files` must outlive the source. Throws Error for a tensor whose type is not a weight format, unless it is
// ignorable, and for two tensors of one canonical name.
std::unique_ptr<WeightSource> open_source(const ModelFiles& files, const ArchNames& names);

// The format of a weight by its canonical name, for random models.
using FormatChoice = std::function<Format(const std::string& name)>;

// When random matrices get their values.
enum class RandomFill : uint8_t {
  kAtOnce,
  kDevice,  // those in BF16 and F32 on the device that computes with them
  kAsked,   // rows by fill_rows(); what is never asked for stays zero, and takes no memory
};

// Random weights of a fixed seed, made when asked for: matrices in the chosen format (F32 where a row is no whole
// number of blocks), vectors around 1 in F32. Keeps them for as long as it lives.
class RandomSource : public WeightSource {
 public:
  explicit RandomSource(FormatChoice format, RandomFill when = RandomFill::kAtOnce)
      : format_(std::move(format)), when_(when) {}
  // With kAsked: the rows in [data, data + bytes) get their values. Nothing for what it has not made.
  void fill_rows(const std::byte* data, int64_t bytes);
  const StoredWeight* find(const std::string& name, const std::vector<int64_t>& wanted) override;
  bool has(const std::string&) const override { return false; }
  std::vector<std::string> names() const override { return {}; }
  bool generates() const override { return true; }
  // In the order in which they were asked for.
  const std::vector<std::unique_ptr<StoredWeight>>& made() const { return made_; }

 private:
  struct Unfilled {
    const StoredWeight* weight;
    RandomValues random;
    std::byte* data;
    int64_t bytes;
  };
  void fill(const StoredWeight& weight, const RandomValues& random, std::byte* out, int64_t first, int64_t end) const;

  const FormatChoice format_;
  const RandomFill when_;
  std::vector<std::unique_ptr<StoredWeight>> made_;
  std::vector<Memory> memory_;
  std::vector<Unfilled> unfilled_;
};

}  // namespace ingot
