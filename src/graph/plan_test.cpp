#include "graph/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "graph/fuse.h"

namespace ingot {
namespace {

constexpr StepLimits kLimits{.rows = 8, .seqs = 1, .logits = 4, .context = 64, .page_rows = 16};

// What each node reads and writes, and whether it may write over what it reads.
struct Uses : TensorVisitor {
  std::vector<int32_t> reads, writes;
  std::vector<std::pair<int32_t, int32_t>> aliases;
  void in(Tensor& t) { reads.push_back(t.value); }
  void out(Tensor& t) { writes.push_back(t.value); }
  void inout(Tensor& t) {
    reads.push_back(t.value);
    writes.push_back(t.value);
  }
  void alias(Tensor& out, Tensor& in) { aliases.emplace_back(out.value, in.value); }
};

// Runs the graph over labels instead of numbers: every byte remembers which value wrote it last, and a read must find
// its own value everywhere.
void check_no_overlap(Program& program) {
  std::vector<int32_t> owner(static_cast<size_t>(program.arena_bytes), -1);
  const auto place = [&](int32_t value) {
    const int64_t begin = program.offsets[static_cast<size_t>(value)];
    return std::pair(begin, begin + value_bytes(program.values[static_cast<size_t>(value)], kLimits));
  };
  const auto each_byte = [&](int32_t value, auto&& f) {
    const auto [begin, end] = place(value);
    ASSERT_LE(end, program.arena_bytes);
    for (int64_t b = begin; b < end; ++b) f(owner[static_cast<size_t>(b)]);
  };
  const auto run = [&](size_t begin, size_t end) {
    for (size_t n = begin; n < end; ++n) {
      Uses uses;
      each_tensor(program.nodes[n].op, uses);
      for (const int32_t v : uses.reads) each_byte(v, [&](int32_t o) { ASSERT_EQ(o, v) << "node " << n; });
      for (const int32_t w : uses.writes) {
        for (const int32_t r : uses.reads) {
          if (r == w || std::ranges::find(uses.aliases, std::pair(w, r)) != uses.aliases.end()) continue;
          const auto a = place(w), b = place(r);
          ASSERT_TRUE(a.second <= b.first || b.second <= a.first) << "node " << n << " writes over what it reads";
        }
        each_byte(w, [&](int32_t& o) { o = w; });
      }
    }
  };
  run(0, program.head_begin);
  for (int piece = 0; piece < 3; ++piece) run(program.head_begin, program.nodes.size());
  for (const auto& [name, tensor] : program.outputs) {
    each_byte(tensor.value, [&](int32_t o) { ASSERT_EQ(o, tensor.value) << name; });
  }
}

Node node(Op op) { return {.op = std::move(op), .label = "", .made_by = {}}; }

// A random list of element-wise ops over random earlier values, then a head.
Graph random_graph(unsigned seed) {
  std::mt19937 random(seed);
  Graph graph;
  std::vector<Tensor> values;
  Embedding embedding;
  embedding.out = graph.add_value(kTokenRows, 8);
  values.push_back(embedding.out);
  graph.nodes.push_back(node(embedding));
  const auto pick = [&] { return values[values.size() - 1 - random() % std::min<size_t>(values.size(), 4)]; };
  for (int i = 0; i < 30; ++i) {
    const Tensor out = graph.add_value(kTokenRows, 8);
    switch (random() % 3) {
      case 0:
        graph.nodes.push_back(node(Add{.a = pick(), .b = pick(), .out = out}));
        break;
      case 1:
        graph.nodes.push_back(node(Scale{.x = pick(), .out = out, .factor = 2}));
        break;
      default:
        graph.nodes.push_back(node(GatherRows{.x = pick(), .out = out}));  // never in place
        break;
    }
    values.push_back(out);
    if (random() % 8 == 0) {
      graph.values[static_cast<size_t>(out.value)].keep = true;
      graph.outputs["v" + std::to_string(i)] = out;
    }
  }
  graph.head_begin = graph.nodes.size();
  const Tensor gathered = graph.add_value(kLogitRows, 8), logits = graph.add_value(kLogitRows, 8);
  graph.nodes.push_back(node(GatherRows{.x = pick(), .out = gathered}));
  graph.nodes.push_back(node(Scale{.x = gathered, .out = logits, .factor = 3}));
  graph.values[static_cast<size_t>(logits.value)].keep = true;
  graph.outputs["logits"] = logits;
  return graph;
}

TEST(Plan, NoTwoLiveValuesOverlap) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    Program program = compile(random_graph(seed), {.limits = kLimits});
    check_no_overlap(program);
    if (HasFatalFailure()) FAIL() << "seed " << seed;
  }
}

TEST(Plan, MemoryIsReused) {
  Graph graph;
  Embedding embedding;
  embedding.out = graph.add_value(kTokenRows, 16);
  graph.nodes.push_back(node(embedding));
  Tensor x = embedding.out;
  for (int i = 0; i < 50; ++i) {
    const Tensor out = graph.add_value(kTokenRows, 16);
    graph.nodes.push_back(node(GatherRows{.x = x, .out = out}));
    x = out;
  }
  graph.head_begin = graph.nodes.size();
  EXPECT_EQ(compile(graph, {.limits = kLimits}).arena_bytes, 2 * 8 * 16 * 4);  // two buffers in turn
}

TEST(Plan, OutputTakesThePlaceOfADyingInput) {
  Graph graph;
  Embedding embedding;
  embedding.out = graph.add_value(kTokenRows, 16);
  graph.nodes.push_back(node(embedding));
  const Tensor out = graph.add_value(kTokenRows, 16);
  graph.nodes.push_back(node(Scale{.x = embedding.out, .out = out, .factor = 2}));
  graph.head_begin = graph.nodes.size();
  const Program program = compile(graph, {.limits = kLimits});
  EXPECT_EQ(program.offsets[0], program.offsets[1]);
}

// x + linear(x): the sum may not lie on x, which the product still reads.
TEST(Plan, AnInputReadTwiceIsNotOverwritten) {
  Graph graph;
  Embedding embedding;
  embedding.out = graph.add_value(kTokenRows, 16);
  graph.nodes.push_back(node(embedding));
  Linear linear;
  linear.x = linear.residual = embedding.out;
  linear.parts[0].out = graph.add_value(kTokenRows, 16);
  graph.nodes.push_back(node(linear));
  graph.head_begin = graph.nodes.size();
  const Program program = compile(graph, {.limits = kLimits});
  EXPECT_NE(program.offsets[0], program.offsets[1]);
}

// A norm right behind a linear that took two norms in: the list is two nodes shorter then, and none may be passed over.
TEST(Fuse, NoNodeIsSkippedBehindTwoFoldedNorms) {
  static const float ones[16] = {};
  Graph graph;
  const auto value = [&] { return graph.add_value(kTokenRows, 16); };
  Weight weight;
  weight.data = reinterpret_cast<const std::byte*>(ones);
  const auto norm = [&](const Tensor& x, const Tensor& out) {
    RmsNorm op;
    op.x = x;
    op.weight = weight;
    op.out = out;
    op.width = 16;
    graph.nodes.push_back(node(op));
  };
  const auto linear = [&](const Tensor& x, const Tensor& out) {
    Linear op;
    op.x = x;
    op.parts[0].out = out;
    graph.nodes.push_back(node(op));
  };
  Embedding embedding;
  embedding.out = value();
  graph.nodes.push_back(node(embedding));
  const Tensor y = value(), a = value(), sum = value(), b = value(), c = value(), d = value();
  linear(embedding.out, y);
  norm(y, a);
  Add add;
  add.a = embedding.out;
  add.b = a;
  add.out = sum;
  graph.nodes.push_back(node(add));
  norm(sum, b);
  linear(b, c);
  norm(c, d);
  linear(d, value());
  graph.head_begin = graph.nodes.size();
  EXPECT_EQ(fuse(graph)["norm_prologue"], 2);
  EXPECT_EQ(graph.nodes.size(), 4u);  // the embedding and three linears
}

TEST(Fuse, UnknownRuleIsAnError) {
  Graph graph;
  EXPECT_THROW(fuse(graph, {"no_such_rule"}), std::exception);
  EXPECT_NO_THROW(fuse(graph, {"all"}));
}

}  // namespace
}  // namespace ingot
