#include "graph/plan.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "ops/ctx.h"

namespace ingot {
namespace {

constexpr size_t kForever = std::numeric_limits<size_t>::max();

// A piece of the arena that one value, or several in turn, live in.
struct Buffer {
  int64_t bytes = 0;
  size_t first = kForever;  // node that writes it first
  size_t last = 0;          // node that reads it last
  int64_t offset = -1;

  bool used() const { return first != kForever; }
  bool overlaps(const Buffer& o) const { return first <= o.last && o.first <= last; }
};

// First and last use of each value.
struct Lifetimes : TensorVisitor {
  std::vector<Buffer>& buffers;
  size_t node = 0;
  explicit Lifetimes(std::vector<Buffer>& b) : buffers(b) {}

  void touch(const Tensor& t) {
    Buffer& buffer = buffers[static_cast<size_t>(t.value)];
    buffer.first = std::min(buffer.first, node);
    buffer.last = std::max(buffer.last, node);
  }
  void in(Tensor& t) {
    CHECK(buffers[static_cast<size_t>(t.value)].used(), "node {} reads value {} before it is written", node, t.value);
    touch(t);
  }
  void out(Tensor& t) { touch(t); }
  void inout(Tensor& t) { in(t); }
};

// Which value's buffer a value lives in, after outputs took the place of inputs.
struct Aliases : TensorVisitor {
  std::vector<Buffer>& buffers;
  std::vector<int32_t>& home;
  size_t node = 0;
  std::vector<int32_t> read;  // homes of what the node reads
  Aliases(std::vector<Buffer>& b, std::vector<int32_t>& h) : buffers(b), home(h) {}

  void begin(size_t n) {
    node = n;
    read.clear();
  }
  void in(Tensor& t) { read.push_back(home[static_cast<size_t>(t.value)]); }
  void inout(Tensor& t) { in(t); }
  void alias(Tensor& out, Tensor& in) {
    const auto o = static_cast<size_t>(out.value), i = static_cast<size_t>(in.value);
    const int32_t home_of_in = home[i];
    Buffer& target = buffers[static_cast<size_t>(home_of_in)];
    const bool whole = in.offset == 0 && in.stride == in.cols && out.offset == 0 && out.stride == out.cols;
    const bool first_write = buffers[o].first == node && home[o] == out.value;
    // A kept value may take a dying one's place, but nobody may take a kept one's: its end is kForever.
    if (!whole || !first_write || o == i || target.last != node || buffers[i].last != node) return;
    // Only the pair's own elements may meet: x + linear(x) still reads other columns of x while it writes.
    if (buffers[o].bytes > target.bytes || std::ranges::count(read, home_of_in) != 1) return;
    home[o] = home_of_in;
    target.last = buffers[o].last;
  }
};

void extend_kept(Program& program, std::vector<Buffer>& buffers) {
  struct HeadReads : TensorVisitor {
    std::vector<Buffer>& buffers;
    const Program& program;
    HeadReads(std::vector<Buffer>& b, const Program& p) : buffers(b), program(p) {}
    void in(Tensor& t) {
      Buffer& buffer = buffers[static_cast<size_t>(t.value)];
      const bool of_body = buffer.first < program.head_begin || program.values[static_cast<size_t>(t.value)].given;
      if (of_body) buffer.last = kForever;
    }
    void inout(Tensor& t) { in(t); }
  };
  for (size_t n = program.head_begin; n < program.nodes.size(); ++n) {
    each_tensor(program.nodes[n].op, HeadReads(buffers, program));
  }
  for (size_t v = 0; v < buffers.size(); ++v) {
    if (program.values[v].keep && buffers[v].used()) buffers[v].last = kForever;
  }
}

// Places the largest first, each at the lowest address that is free for its lifetime.
int64_t place(std::vector<Buffer*> order) {
  std::ranges::stable_sort(order, [](const Buffer* a, const Buffer* b) { return a->bytes > b->bytes; });
  std::vector<const Buffer*> placed;  // by offset
  int64_t total = 0;
  for (Buffer* buffer : order) {
    int64_t offset = 0;
    for (const Buffer* other : placed) {
      if (!buffer->overlaps(*other)) continue;
      if (offset + buffer->bytes <= other->offset) break;
      offset = std::max(offset, other->offset + other->bytes);
    }
    buffer->offset = offset;
    total = std::max(total, offset + buffer->bytes);
    placed.insert(std::ranges::upper_bound(placed, offset, {}, [](const Buffer* b) { return b->offset; }), buffer);
  }
  return total;
}

}  // namespace

int64_t value_bytes(const Value& value, const StepLimits& limits) {
  const Shape largest{.tokens = limits.rows, .logits = limits.logits};
  const int64_t bytes = largest.rows(value.rows) * value.cols * dtype_bytes(value.dtype);
  return (bytes + 63) / 64 * 64;
}

void plan(Program& program) {
  std::vector<Buffer> buffers(program.values.size());
  for (size_t v = 0; v < buffers.size(); ++v) buffers[v].bytes = value_bytes(program.values[v], program.limits);
  for (size_t v = 0; v < buffers.size(); ++v)
    if (program.values[v].given) buffers[v].first = 0;
  Lifetimes lifetimes(buffers);
  for (size_t n = 0; n < program.nodes.size(); ++n) {
    lifetimes.node = n;
    each_tensor(program.nodes[n].op, lifetimes);
  }
  extend_kept(program, buffers);

  std::vector<int32_t> home(buffers.size());
  for (size_t v = 0; v < home.size(); ++v) home[v] = static_cast<int32_t>(v);
  Aliases aliases(buffers, home);
  for (size_t n = 0; n < program.nodes.size(); ++n) {
    aliases.begin(n);
    each_tensor(program.nodes[n].op, aliases);
  }

  std::vector<Buffer*> own;
  for (size_t v = 0; v < buffers.size(); ++v) {
    if (buffers[v].used() && home[v] == static_cast<int32_t>(v)) own.push_back(&buffers[v]);
  }
  program.arena_bytes = place(std::move(own));
  program.offsets.clear();
  for (const int32_t h : home) program.offsets.push_back(buffers[static_cast<size_t>(h)].offset);
}

}  // namespace ingot
