#include "compress/work.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <map>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "quant/finite.h"

namespace ingot {
namespace {

// 256 KiB of floats, which stay in a core's own cache from decoding to encoding, and enough work to make taking it
// cheap.
constexpr int64_t kSlabValues = int64_t{1} << 16;
constexpr int64_t kRowsTogether = 16;  // that a method may take side by side
constexpr int64_t kCopyBytes = int64_t{4} << 20;

// What a thread works in, kept from slab to slab.
struct Buffers {
  std::vector<float> values;
  std::vector<std::byte> encoded;
};

struct Slab {
  size_t tensor = 0;            // of those of the layer
  int64_t first = 0, rows = 0;  // of the tensor; of a copy bytes
};

// One layer's tensors, opened.
class Layer {
 public:
  Layer(const std::vector<WorkTensor>& all, std::vector<size_t> items, PartFiles& files, const Rounder& rounder,
        const WorkOptions& options)
      : all_(all), items_(std::move(items)), files_(files), rounder_(rounder), options_(options) {
    for (size_t i = 0; i < items_.size(); ++i) {
      readers_.push_back(all_[items_[i]].source->open());
      cut(i);
    }
    left_ = std::vector<std::atomic<int64_t>>(items_.size());
    for (const Slab& slab : slabs_) ++left_[slab.tensor];
    for (size_t i = 0; i < items_.size(); ++i) {
      if (left_[i] == 0) finish(i);  // a tensor without values
    }
  }

  // Makes what is due and was not made yet. Throws what a thread threw. False: stopped.
  bool run(ThreadPool& pool, std::atomic<int64_t>& done, int64_t skipped) {
    std::vector<Buffers> buffers(static_cast<size_t>(pool.threads()));
    const auto later = std::ranges::stable_partition(slabs_, [&](const Slab& slab) {
      return rounder_.due(all_[items_[slab.tensor]].source->canonical, expert_of(slab));
    });
    pool.run(later.begin() - slabs_.begin(), [&](int64_t s, int thread) {
      if (stop_.load(std::memory_order_relaxed)) return;
      const Slab& slab = slabs_[static_cast<size_t>(s)];
      try {
        done += make(slab, buffers[static_cast<size_t>(thread)]);
        if (--left_[slab.tensor] == 0) finish(slab.tensor);
        if (thread == 0 && options_.progress && !options_.progress(done, skipped)) stop_ = true;
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!thrown_) thrown_ = std::current_exception();
        stop_ = true;
      }
    });
    if (thrown_) std::rethrow_exception(thrown_);
    slabs_.erase(slabs_.begin(), later.begin());
    return !stop_;
  }
  bool whole() const { return slabs_.empty(); }

 private:
  // All of a tensor is written.
  void finish(size_t i) {
    const std::lock_guard lock(mutex_);
    if (readers_[i].done) readers_[i].done();
    files_.finish(items_[i]);
  }

  void cut(size_t i) {
    const WorkTensor& work = all_[items_[i]];
    if (work.copied) {
      const auto bytes = static_cast<int64_t>(work.ranges[0].bytes);
      for (int64_t at = 0; at < bytes; at += kCopyBytes) slabs_.push_back({i, at, std::min(kCopyBytes, bytes - at)});
      return;
    }
    // A slab's rows are all of one expert.
    const int64_t rows = work.source->rows(), each = work.source->expert_rows(), multiple = work.slab_multiple;
    int64_t fit = kSlabValues / std::max<int64_t>(1, work.source->cols());
    if (fit > kRowsTogether) fit -= fit % kRowsTogether;
    const int64_t slab = std::max<int64_t>(1, fit / multiple) * multiple;
    for (int64_t e = 0; e < rows; e += each) {
      for (int64_t at = 0; at < each; at += slab) slabs_.push_back({i, e + at, std::min(slab, each - at)});
    }
  }

  int expert_of(const Slab& slab) const {
    const ModelTensor& source = *all_[items_[slab.tensor]].source;
    if (all_[items_[slab.tensor]].copied || source.shape.size() < 3) return -1;
    return static_cast<int>(slab.first / source.expert_rows());
  }

  // The number of values made.
  int64_t make(const Slab& slab, Buffers& buffers) {
    const WorkTensor& work = all_[items_[slab.tensor]];
    const ModelTensor& source = *work.source;
    if (work.copied) {
      files_.write(work.ranges[0].file, work.ranges[0].offset + static_cast<uint64_t>(slab.first),
                   {readers_[slab.tensor].stored + slab.first, static_cast<size_t>(slab.rows)});
      const int64_t whole = source.rows() * source.cols(), bytes = static_cast<int64_t>(work.ranges[0].bytes);
      const double share = static_cast<double>(whole) / static_cast<double>(bytes);
      return static_cast<int64_t>(static_cast<double>(slab.rows) * share);
    }
    const int64_t cols = source.cols();
    std::vector<float>& values = buffers.values;
    values.resize(static_cast<size_t>(slab.rows * cols));
    readers_[slab.tensor].read(slab.first, slab.rows, values.data());
    check_finite(source, slab, values);
    TensorJob job;
    job.name = source.canonical;
    job.layer = source.layer;
    job.expert = expert_of(slab);
    job.format = work.format;
    job.first_row = slab.first % source.expert_rows();
    job.rows = slab.rows;
    job.cols = cols;
    job.values = values;
    if (options_.importances) {
      const std::span<const float> found = options_.importances(job.name, job.expert);
      if (static_cast<int64_t>(found.size()) == cols) job.importance = found.data();
    }
    if (work.make) {
      work.make(job, values, rounder_, files_);
      return slab.rows * cols;
    }
    const int64_t row_bytes = format_row_bytes(work.format, cols);
    std::vector<std::byte>& out = buffers.encoded;
    out.resize(static_cast<size_t>(slab.rows * row_bytes));
    rounder_.round(job, out);
    files_.write(work.ranges[0].file, work.ranges[0].offset + static_cast<uint64_t>(slab.first * row_bytes), out);
    return slab.rows * cols;
  }

  static void check_finite(const ModelTensor& source, const Slab& slab, const std::vector<float>& values) {
    const int64_t at = first_not_finite(values);
    if (at < 0) return;
    throw Error("[quantize] '{}' has a value that is not finite, in row {}, column {}", source.name,
                slab.first + at / source.cols(), at % source.cols());
  }

  const std::vector<WorkTensor>& all_;
  const std::vector<size_t> items_;
  PartFiles& files_;
  const Rounder& rounder_;
  const WorkOptions& options_;
  std::vector<RowReader> readers_;
  std::vector<Slab> slabs_;
  std::vector<std::atomic<int64_t>> left_;  // slabs of each tensor
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::exception_ptr thrown_;
};

EncodedLookup lookup_of(const std::vector<WorkTensor>& tensors, const PartFiles& files) {
  return [&](std::string_view name) -> EncodedTensor {
    for (const WorkTensor& work : tensors) {
      if (work.source->canonical != name || work.make || work.copied) continue;
      const PartRange& range = work.ranges[0];
      return {work.format, work.source->rows(), work.source->cols(), files.view(range.file, range.offset, range.bytes)};
    }
    return {};
  };
}

}  // namespace

int64_t work_values(const std::vector<WorkTensor>& tensors) {
  int64_t values = 0;
  for (const WorkTensor& work : tensors) values += work.source->rows() * work.source->cols();
  return values;
}

bool run_work(const std::vector<WorkTensor>& tensors, PartFiles& files, Rounder& rounder, const WorkOptions& options) {
  ThreadPool pool(options.threads, Pinning::kOff);
  // Layers in order, what lies in none last.
  std::map<std::pair<bool, int>, std::vector<size_t>> layers;
  const auto values_of = [&](size_t i) { return tensors[i].source->rows() * tensors[i].source->cols(); };
  int64_t skipped = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int layer = tensors[i].source->layer;
    layers[{layer < 0, layer}].push_back(i);
    if (files.finished(i)) skipped += values_of(i);
  }
  std::atomic<int64_t> done{skipped};
  const EncodedLookup lookup = lookup_of(tensors, files);
  for (auto& [key, items] : layers) {
    const bool again = rounder.again(key.second);
    for (const size_t i : items)
      if (again && files.finished(i)) done -= values_of(i);
    if (!again) std::erase_if(items, [&](size_t i) { return files.finished(i); });
    rounder.prepare(key.second);
    Layer layer(tensors, items, files, rounder, options);
    do {
      if (!layer.run(pool, done, skipped)) return false;
    } while (rounder.prepare_next(key.second));
    CHECK(layer.whole(), "layer {}: matrices are due in no part", key.second);
    rounder.finish(key.second, lookup);
    if (options.progress && !options.progress(done, skipped)) return false;
  }
  return true;
}

double estimate_seconds(const std::vector<WorkTensor>& tensors, const Rounder& rounder, int threads) {
  std::map<Format, std::pair<const WorkTensor*, double>> formats;  // a tensor of it, and the values of all
  for (const WorkTensor& work : tensors) {
    if (work.copied) continue;
    auto& [sample, values] = formats[work.format];
    if (sample == nullptr || sample->source->cols() < work.source->cols()) sample = &work;
    values += static_cast<double>(work.source->rows() * work.source->cols());
  }
  double seconds = 0;
  for (const auto& [format, found] : formats) {
    const ModelTensor& source = *found.first->source;
    const int64_t cols = source.cols();
    const int64_t rows = std::min(source.expert_rows(), std::max<int64_t>(1, kSlabValues / cols));
    std::vector<float> values(static_cast<size_t>(rows * cols));
    const auto start = std::chrono::steady_clock::now();
    const RowReader reader = source.open();
    reader.read(0, rows, values.data());
    TensorJob job;
    job.name = source.canonical;
    job.format = format;
    job.rows = rows;
    job.cols = cols;
    job.values = values;
    std::vector<std::byte> out(static_cast<size_t>(rows * format_row_bytes(format, cols)));
    rounder.round(job, out);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    seconds += taken.count() * found.second / static_cast<double>(rows * cols);
  }
  return seconds / std::max(1, threads);
}

}  // namespace ingot
