#include "graph/cuda/cuda_weights.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <map>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/mapping_guard.h"
#include "graph/cuda/cuda_random.h"
#include "graph/traits.h"

namespace ingot::cuda {
namespace {

constexpr int64_t kAlign = 256;
constexpr int64_t kPiece = int64_t{8} << 20;
constexpr int kMostThreads = 8;

// One weight, or its scales: bytes of the host that get a place.
struct Source {
  const std::byte* data = nullptr;
  const Weight* weight = nullptr;  // the first that has it; null: scales
  int64_t bytes = 0;
  int64_t offset = 0;      // in the memory of all, or of its node
  size_t node = 0;         // the first that reads it
  bool by_others = false;  // another node reads it too
  bool packed = false;     // read as a matrix of a format that a device packs
  // Whether it lies in the memory of its node, to be given back when the node has packed it.
  bool is_own() const { return packed && !by_others; }
};

// BF16 is read as it is published by products of many rows, but those of experts; F32 always.
bool is_packed(Format format, bool with_bf16) {
  return format != Format::kF32 && (with_bf16 || format != Format::kBF16);
}

int64_t scale_bytes(const Weight& w) { return (w.rows + w.scale_rows - 1) / w.scale_rows * w.scale_stride * 4; }

// In the order of the nodes, each once. The matrices of a node come one after another: where their sizes are multiples
// of kAlign one product can read them as one matrix.
class Sources : public TensorVisitor {
 public:
  explicit Sources(Program& program) {
    for (node_ = 0; node_ < program.nodes.size(); ++node_) {
      Node& node = program.nodes[node_];
      const bool bf16 = packs_bf16(node.op);
      each_matrix(node.op, [&](const Weight& w, const PackedWeight*) { add_weight(w, is_packed(w.format, bf16)); });
      each_tensor(node.op, *this);
    }
    for (Source& source : all_) {
      int64_t& end = source.is_own() ? own_[source.node] : bytes_;
      source.offset = end;
      end += (source.bytes + kAlign - 1) / kAlign * kAlign;
    }
    bytes_ += kAlign;  // vector loads may reach past the last row
    for (auto& [node, bytes] : own_) bytes += kAlign;
  }
  void weight(Weight& w) { add_weight(w, false); }
  const std::vector<Source>& all() const { return all_; }
  int64_t bytes() const { return bytes_; }                       // of what stays
  const std::map<size_t, int64_t>& own() const { return own_; }  // of each node's that it may give back
  int64_t total() const {
    int64_t sum = bytes_;
    for (const auto& [node, bytes] : own_) sum += bytes;
    return sum;
  }

 private:
  void add_weight(const Weight& w, bool packed) {
    add(w.data, w.bytes(), &w, packed);
    if (w.scale != nullptr) add(reinterpret_cast<const std::byte*>(w.scale), scale_bytes(w), nullptr, packed);
  }
  void add(const std::byte* data, int64_t bytes, const Weight* weight, bool packed) {
    const auto [known, first] = index_.try_emplace(data, all_.size());
    if (first) all_.push_back({.data = data, .weight = weight, .node = node_, .packed = packed});
    Source& source = all_[known->second];
    source.bytes = std::max(source.bytes, bytes);
    source.by_others |= source.node != node_;
  }

  std::vector<Source> all_;
  std::map<const std::byte*, size_t> index_;
  std::map<size_t, int64_t> own_;
  size_t node_ = 0;
  int64_t bytes_ = 0;
};

struct Piece {
  const std::byte* from;
  std::byte* to;
  int64_t bytes;
  const Weight* permuted = nullptr;  // its rows from `first` on, in order; null: as the bytes lie
  int64_t first = 0;
};

// Pages that are not there yet are mapped in one call: a fault for each would cost more than the copy.
void populate(const std::byte* from, int64_t bytes) {
#ifdef MADV_POPULATE_READ
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(from) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(from) + static_cast<uintptr_t>(bytes);
  (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_READ);  // advice: a fault serves as well
#else
  (void)from, (void)bytes;
#endif
}

void read_piece(const Piece& piece, std::byte* out) {
  if (piece.permuted == nullptr) {
    std::memcpy(out, piece.from, static_cast<size_t>(piece.bytes));
    return;
  }
  const auto row_bytes = static_cast<size_t>(piece.permuted->row_bytes);
  int64_t row = piece.first;
  for (std::byte* end = out + piece.bytes; out != end; out += row_bytes)
    std::memcpy(out, piece.permuted->row(row++), row_bytes);
}

// Pieces of at most kPiece, of whole rows where their order changes.
void cut(const Source& source, std::byte* to, std::vector<Piece>& pieces) {
  const bool permuted = source.weight != nullptr && source.weight->head_rows != 0;
  const int64_t row = permuted ? source.weight->row_bytes : 1;
  if (row > kPiece)
    throw Error("[weights] '{}': rows of {} bytes, at most {} on a device", source.weight->name, row, kPiece);
  const int64_t step = kPiece / row * row;
  for (int64_t at = 0; at < source.bytes; at += step) {
    pieces.push_back({.from = source.data + at,
                      .to = to + at,
                      .bytes = std::min(step, source.bytes - at),
                      .permuted = permuted ? source.weight : nullptr,
                      .first = at / row});
  }
}

// Takes pieces until there are none: one is copied to the device while the next is read.
void copy_pieces(const std::vector<Piece>& pieces, std::atomic<size_t>& next, int device) {
  use_device(device);
  const Stream stream;
  struct Staging {
    PinnedMemory memory{kPiece};
    Event free;
    bool used = false;
  } stagings[2];
  for (int turn = 0;; turn = 1 - turn) {
    const size_t i = next.fetch_add(1);
    if (i >= pieces.size()) break;
    Staging& staging = stagings[turn];
    if (staging.used) staging.free.synchronize();
    populate(pieces[i].from, pieces[i].bytes);
    read_piece(pieces[i], staging.memory.data());
    copy_to_device(pieces[i].to, staging.memory.data(), pieces[i].bytes, stream.ref());
    staging.free.record(stream.ref());
    staging.used = true;
  }
  stream.synchronize();
}

void copy_all(const std::vector<Piece>& pieces, int device, int threads) {
  std::atomic<size_t> next{0};
  const auto n =
      static_cast<int>(std::min<size_t>(static_cast<size_t>(std::clamp(threads, 1, kMostThreads)), pieces.size()));
  if (is_emulated() || n <= 1) return copy_pieces(pieces, next, device);
  std::vector<std::exception_ptr> threw(static_cast<size_t>(n));
  {
    std::vector<std::jthread> readers;
    for (std::exception_ptr& mine : threw) {
      readers.emplace_back([&] {
        try {
          copy_pieces(pieces, next, device);
        } catch (...) {
          mine = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& one : threw) {
    if (one) std::rethrow_exception(one);
  }
}

// Where each weight, or its scales, lies on the device, by its place on the host. Rows are in order there.
using Places = std::map<const std::byte*, const std::byte*>;

struct Move : TensorVisitor {
  const Places& places;
  explicit Move(const Places& p) : places(p) {}
  void weight(Weight& w) {
    w.data = places.at(w.data);
    w.head_rows = 0;
    if (w.scale == nullptr) return;
    w.scale = reinterpret_cast<const float*>(places.at(reinterpret_cast<const std::byte*>(w.scale)));
  }
};

}  // namespace

int64_t device_weight_bytes(Program& program) { return Sources(program).total(); }

DeviceWeights::DeviceWeights(Program& program, int device, int threads) {
  const Sources sources(program);
  memory_ = DeviceMemory(sources.bytes());
  for (const auto& [node, bytes] : sources.own()) own_[node] = DeviceMemory(bytes);
  Places places;
  std::vector<Piece> pieces;
  const Stream stream;
  for (const Source& source : sources.all()) {
    std::byte* to = (source.is_own() ? own_.at(source.node) : memory_).data() + source.offset;
    places[source.data] = to;
    if (source.weight != nullptr && source.weight->random) {
      fill_random(*source.weight, to, stream.ref());
      continue;
    }
    cut(source, to, pieces);
  }
  std::ranges::sort(pieces, {}, &Piece::from);  // files are read from front to back
  copy_all(pieces, device, threads);
  stream.synchronize();
  if (mapping_damaged()) throw Error("[model] a file was cut short while it was read");
  for (Node& node : program.nodes) each_tensor(node.op, Move(places));
}

int64_t DeviceWeights::bytes() const {
  int64_t sum = memory_.bytes();
  for (const auto& [node, memory] : own_) sum += memory.bytes();
  return sum;
}

}  // namespace ingot::cuda
