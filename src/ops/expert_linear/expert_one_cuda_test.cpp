// All that experts do for one row in one launch, on a device, real or emulated, against the reference.
#include <tuple>
#include <utility>
#include <vector>

#include "ops/cuda/cuda_test_support.h"
#include "ops/expert_linear/expert_linear_test_support.h"

namespace ingot {
namespace {

using namespace test;

struct OneCase {
  Format up = Format::kBF16, down = Format::kBF16;
  int64_t count = 9, used = 3, hidden = 128, ffn = 32;
  bool normed = true, linked = true;
  RouterSpec spec = {.renormalize = true};
  bool choice_bias = false, bad = false;
};

// Norm, router, choice, gate and up, down, and the linear after them, which adds the residual.
class OneChain {
 public:
  explicit OneChain(const OneCase& c)
      : random_(static_cast<uint64_t>(c.count * 100 + c.hidden)),
        first({.format = c.up, .count = c.count, .used = c.used, .out = c.ffn, .cols = c.hidden, .glu = true}),
        second({.format = c.down,
                .count = c.count,
                .used = c.used,
                .out = c.hidden,
                .cols = c.ffn,
                .by_place = true,
                .sum = true},
               2),
        x(1, c.hidden),
        logits(1, c.count),
        weights(1, c.used),
        sum(1, c.hidden),
        out(1, kOut),
        router_(random_, Format::kF32, c.count, c.hidden),
        next_(random_, Format::kBF16, kOut, c.hidden),
        norm_weight_(normal_values(random_, c.hidden)),
        next_norm_(normal_values(random_, c.hidden)),
        bias_(normal_values(random_, c.count)) {
    x.fill([&] { return random_.normal(); });
    if (c.bad) x.at(0, 3) = NAN;
    norm = {
        .x = x.tensor(), .weight = f32_weight(norm_weight_), .out = first.x.tensor(), .width = c.hidden, .eps = 1e-5f};
    router.x = c.normed ? first.x.tensor() : x.tensor();
    router.parts[0].weight = router_.weight();
    router.parts[0].bias = f32_weight(bias_);
    router.parts[0].out = logits.tensor();
    topk = {.logits = logits.tensor(),
            .bias = c.choice_bias ? f32_weight(bias_) : Weight{},
            .experts = first.experts.tensor(),
            .weights = weights.tensor(),
            .spec = c.spec};
    first.op.x = router.x;
    second.op.x = first.op.places;
    second.op.experts = first.op.experts;
    second.op.weights = weights.tensor();
    next.x = x.tensor();
    next.input.weight = f32_weight(next_norm_);
    next.input.eps = 1e-5f;
    next.input.add = second.out.tensor();
    next.input.sum = sum.tensor();
    next.parts[0].weight = next_.weight();
    next.parts[0].out = out.tensor();
  }

  static constexpr int64_t kOut = 48;

 private:
  Random random_;

 public:
  ExpertOperands first, second;
  Buffer x, logits, weights, sum, out;
  RmsNorm norm;
  Linear router, next;
  RouterTopk topk;

 private:
  TestWeight router_, next_;
  std::vector<float> norm_weight_, next_norm_, bias_;
};

double allowed(const std::vector<float>& want) {
  double norm = 0;
  for (const float v : want) norm += static_cast<double>(v) * v;
  return 2e-2 * std::sqrt(norm / static_cast<double>(want.size()) + 1e-12);
}

// Tensors and weights of an op to the device, for Op::each().
struct Mover {
  DeviceRig& rig;
  std::vector<std::pair<Tensor, Tensor>>& written;
  void in(Tensor& t) { t = rig.to_device(t); }
  void out(Tensor& t) {
    written.emplace_back(t, rig.to_device(t));
    t = written.back().second;
  }
  void inout(Tensor& t) { out(t); }
  void weight(Weight& w) { w = rig.to_device(w); }
  void alias(Tensor&, Tensor&) {}
};

// The ops three times, as the steps of one program: launches take turns with what they hand over. Returns how many
// neighbours were linked.
template <class... Ops>
int run_steps(DeviceRig& rig, const Ops&... host_ops) {
  std::tuple<Ops...> ops(host_ops...);
  std::vector<std::pair<Tensor, Tensor>> written;
  cuda::Prepare prepare = rig.preparation();
  std::apply([&](auto&... op) { (op.each(Mover{rig, written}), ...); }, ops);
  std::apply([&](auto&... op) { (cuda::prepare(op, prepare), ...); }, ops);
  const auto link_all = [&]<size_t... I>(std::index_sequence<I...>) {
    return (0 + ... + (cuda::link(std::get<I>(ops), std::get<I + 1>(ops), prepare) ? 1 : 0));
  };
  const int linked = link_all(std::make_index_sequence<sizeof...(Ops) - 1>());
  cuda::DeviceMemory scratch(prepare.scratch_bytes);
  cuda::Ctx c = rig.ctx();
  c.scratch = scratch.data();
  c.scratch_bytes = prepare.scratch_bytes;
  for (int i = 0; i < 3; ++i) std::apply([&](const auto&... op) { (cuda::run(op, c), ...); }, ops);
  rig.synchronize();
  for (const auto& [host, twin] : written) rig.to_host(host, twin);
  rig.expect_nothing_left();
  return linked;
}

// Without the last linear there is no residual.
int run_chain(DeviceRig& rig, OneChain& chain, const OneCase& c) {
  if (!c.normed) return run_steps(rig, chain.router, chain.topk, chain.first.op, chain.second.op, chain.next);
  if (!c.linked) return run_steps(rig, chain.norm, chain.router, chain.topk, chain.first.op, chain.second.op);
  return run_steps(rig, chain.norm, chain.router, chain.topk, chain.first.op, chain.second.op, chain.next);
}

void check_one(const OneCase& c, int multiprocessors = 0) {
  SCOPED_TRACE(std::string(format_name(c.up)) + ", " + format_name(c.down).data() + ", " + std::to_string(c.count) +
               " experts");
  OneChain chain(c);
  const Batch batch = rows_batch(1);
  if (c.normed) run_ref(chain.norm, batch);
  run_ref(chain.router, batch);
  run_ref(chain.topk, batch);
  run_ref(chain.first.op, batch);
  run_ref(chain.second.op, batch);
  run_ref(chain.next, batch);
  const std::vector<float> chosen = chain.first.experts.values(), weighed = chain.weights.values();
  const std::vector<float> want = chain.second.out.values(), added = chain.sum.values(), after = chain.out.values();
  chain.first.experts.poison();
  for (Buffer* b : {&chain.weights, &chain.second.out, &chain.sum, &chain.out, &chain.first.places,
                    &chain.second.places, &chain.logits})
    b->poison();
  DeviceRig rig(batch, {.multiprocessors = multiprocessors});
  EXPECT_EQ(run_chain(rig, chain, c), c.normed && c.linked ? 5 : 4);
  expect_same_bits(chain.first.experts.values(), chosen, "chosen experts");
  // One launch: what lies between the parts was never written.
  EXPECT_TRUE(std::isnan(chain.second.places.values()[0]));
  if (c.bad) {
    EXPECT_TRUE(std::isnan(chain.sum.values()[0]));
    return;
  }
  expect_near(chain.weights.values(), weighed, c.used, relative(64, 1e-5), "weights");
  if (!c.linked) return expect_near(chain.second.out.values(), want, c.hidden, relative(64, allowed(want)), "experts");
  expect_near(chain.sum.values(), added, c.hidden, relative(64, allowed(want)), "the sum");
  expect_near(chain.out.values(), after, OneChain::kOut, relative(64, allowed(after)), "the linear after it");
}

TEST(ExpertOneCuda, IsWhatTheReferenceGives) {
  INGOT_NEEDS_DEVICE();
  const int blocks = 4;
  check_one({}, blocks);
  check_one({.linked = false}, blocks);
  check_one({.normed = false}, blocks);
  // More and fewer experts than blocks, odd shares of gate and up, one expert of all.
  check_one({.count = 130, .used = 8, .hidden = 192, .ffn = 96}, blocks);
  check_one({.count = 3, .used = 1, .hidden = 128, .ffn = 224}, blocks);
  check_one({.count = 16, .used = 6, .hidden = 544, .ffn = 64}, blocks);
  check_one({.bad = true}, blocks);
  check_one({.spec = {.score = RouterScore::kSigmoid, .renormalize = true, .scale = 2.5f}, .choice_bias = true},
            blocks);
}

// What every row meets beside them: gate and up, and down with the experts' sum as its residual.
TEST(ExpertOneCuda, WhatEveryRowMeetsIsInTheSameLaunch) {
  INGOT_NEEDS_DEVICE();
  for (const int64_t ffn : {32, 160}) {
    const OneCase c{.count = 8, .used = 2, .hidden = 192, .ffn = 96};
    OneChain chain(c);
    Random random(4);
    const TestWeight gate(random, Format::kBF16, ffn, c.hidden), up(random, Format::kBF16, ffn, c.hidden);
    const TestWeight back(random, Format::kBF16, c.hidden, ffn);
    Buffer met(1, ffn), none(1, ffn), all(1, c.hidden);
    Linear glu, down;
    glu.x = chain.first.x.tensor();
    glu.n_parts = 2;
    glu.glu = ActivationKind::kSilu;
    glu.parts[0].weight = gate.weight();
    glu.parts[1].weight = up.weight();
    glu.parts[0].out = met.tensor();
    glu.parts[1].out = none.tensor();
    down.x = met.tensor();
    down.parts[0].weight = back.weight();
    down.parts[0].out = all.tensor();
    down.residual = chain.second.out.tensor();
    const Batch batch = rows_batch(1);
    run_ref(chain.norm, batch);
    run_ref(chain.router, batch);
    run_ref(chain.topk, batch);
    run_ref(chain.first.op, batch);
    run_ref(chain.second.op, batch);
    run_ref(glu, batch);
    run_ref(down, batch);
    const std::vector<float> want = all.values();
    for (Buffer* b : {&met, &all, &chain.second.out, &chain.weights}) b->poison();
    DeviceRig rig(batch, {.multiprocessors = 4});
    EXPECT_EQ(run_steps(rig, chain.norm, chain.router, chain.topk, chain.first.op, chain.second.op, glu, down), 6);
    EXPECT_TRUE(std::isnan(met.values()[0]));
    expect_near(all.values(), want, c.hidden, relative(64, allowed(want)), "experts and what every row meets");
  }
}

TEST(ExpertOneCuda, FormatsOfCodes) {
  INGOT_NEEDS_DEVICE();
  for (const Format down : {Format::kQ4_K, Format::kQ6_K})
    check_one({.up = Format::kQ4_K, .down = down, .count = 5, .used = 2, .hidden = 512, .ffn = 256}, 4);
}

}  // namespace
}  // namespace ingot
