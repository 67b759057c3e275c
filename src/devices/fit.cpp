#include "devices/fit.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "graph/kv_store.h"
#include "graph/program.h"
#include "graph/shard.h"
#include "graph/traits.h"
#include "weights/source.h"

namespace ingot {
namespace {

constexpr int kPageRows = 64;
// A CUDA context with our kernels takes 0.5 GB of an H200, scratch and recorded steps the rest; a process of the CPU
// needs little beside what is counted.
constexpr int64_t kGpuReserve = int64_t{1} << 30, kCpuReserve = int64_t{256} << 20;
// Assumed, for the order of layouts alone: a meeting of ranks by NVLink, by PCIe, by the memory of one machine, and
// what a CPU node reads where nobody measured it.
constexpr double kNvlinkUs = 8, kPcieUs = 25, kCpuUs = 3, kCpuGbs = 50;
constexpr int kMeetings = 4;  // of ranks in a layer (docs/multi-device.md)

// Weights of the right size without values: addresses that nobody reads.
class SizeSource final : public WeightSource {
 public:
  explicit SizeSource(FormatChoice format) : format_(std::move(format)) {}

  const StoredWeight* find(const std::string& name, const std::vector<int64_t>& wanted) override {
    if (const auto known = made_.find(name); known != made_.end()) return &known->second;
    const int64_t cols = wanted.empty() ? 1 : wanted.back();
    const bool vector = wanted.size() < 2 || name.ends_with(".bias");
    StoredWeight weight;
    weight.name = name;
    weight.format = vector ? Format::kF32 : format_(name);
    if (cols % format_block(weight.format) != 0) weight.format = Format::kF32;
    weight.shape = wanted;
    const int64_t rows = cols > 0 ? weight.values() / cols : 0;
    memory_.emplace_back(rows * format_row_bytes(weight.format, cols));
    weight.data = memory_.back().data();
    return &made_.emplace(name, std::move(weight)).first->second;
  }
  bool has(const std::string&) const override { return false; }
  std::vector<std::string> names() const override { return {}; }
  bool generates() const override { return true; }

 private:
  const FormatChoice format_;
  std::map<std::string, StoredWeight> made_;
  std::vector<Memory> memory_;
};

// The layer of a node by its label, "model.layers.3.mlp"; -1: it names none.
int layer_of(std::string_view label) {
  for (size_t at = label.find('.'); at != std::string_view::npos; at = label.find('.', at + 1)) {
    int layer = -1;
    const char* end = label.data() + label.size();
    const auto [rest, error] = std::from_chars(label.data() + at + 1, end, layer);
    if (error == std::errc() && (rest == end || *rest == '.')) return layer;
  }
  return -1;
}

// Collects what the nodes of a stage keep.
struct StageBytes : TensorVisitor {
  std::set<const std::byte*> seen, read;  // a tied weight is kept once, and read by the node that needs all of it
  int64_t weights = 0;
  double step = 0;  // of them, what a step of one row reads
  std::set<std::pair<int, int>> kv_layers;
  double share = 1;

  void weight(Weight& w) {
    if (!w) return;
    if (seen.insert(w.data).second) weights += w.bytes();
    if (share > 0 && read.insert(w.data).second) step += share * static_cast<double>(w.bytes());
  }
};

// [pp] of one rank's graph.
std::vector<StageBytes> stages_of(const Graph& graph, int layers, int pp) {
  std::vector<StageBytes> stages(static_cast<size_t>(pp));
  int layer = 0;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    Node node = graph.nodes[n];
    if (const int named = layer_of(node.label); named >= 0) layer = std::min(named, layers - 1);
    if (n >= graph.head_begin) layer = layers - 1;
    // Layer l is in stage s where s · layers / pp <= l.
    int s = pp - 1;
    while (int64_t{s} * layers / pp > layer) --s;
    StageBytes& stage = stages[static_cast<size_t>(s)];
    stage.share = matrix_share(node.op, 1);
    bool table = false;
    each_table(node.op, [&](const Weight&) { table = true; });
    if (table) stage.share = 0;  // one row of it
    each_tensor(node.op, stage);
    each_kv(node.op, [&](const KvLayer& kv) { stage.kv_layers.emplace(kv.group, kv.index); });
  }
  return stages;
}

int64_t kv_bytes(const Graph& graph, const StageBytes& stage, const FitOptions& options, int context) {
  int64_t bytes = 0;
  for (size_t g = 0; g < graph.kv_groups.size(); ++g) {
    KvGroupSpec group = graph.kv_groups[g];
    group.dtype = options.kv;
    group.n_layers = static_cast<int>(
        std::ranges::count_if(stage.kv_layers, [&](const auto& layer) { return layer.first == static_cast<int>(g); }));
    if (group.n_layers == 0) continue;
    const int rows = group.window > 0 ? std::min(context, group.window + options.step_rows) : context;
    bytes += int64_t{options.seqs} * ((rows + kPageRows - 1) / kPageRows) * kv_page_bytes(group, kPageRows);
  }
  return bytes;
}

// The worst link between any two of them, in words, and what a meeting over it costs.
std::pair<std::string, double> links_of(const Machine& machine, const std::vector<Device>& devices) {
  if (devices.size() < 2) return {"", 0};
  if (devices[0].gpu < 0) {
    const bool one = std::ranges::all_of(devices, [&](const Device& d) { return d.node == devices[0].node; });
    return {one ? "memory" : "memory of other nodes", kCpuUs};
  }
  int least = 1 << 30;
  PciPath worst = PciPath::kSame;
  for (const Device& a : devices) {
    for (const Device& b : devices) {
      if (a.gpu == b.gpu) continue;
      const GpuLink& link = machine.links[static_cast<size_t>(a.gpu)][static_cast<size_t>(b.gpu)];
      least = std::min(least, link.nvlinks);
      worst = std::max(worst, link.path);
    }
  }
  if (least > 0) return {fmt::format("NVLink x{}", least), kNvlinkUs};
  return {fmt::format("PCIe, {}", pci_path_text(worst)), kPcieUs};
}

double memory_gbs(const Machine& machine, const Device& device) {
  const double gbs = device.gpu >= 0 ? machine.gpus[static_cast<size_t>(device.gpu)].memory_gbs() : 0;
  return gbs > 0 ? gbs : kCpuGbs;
}

std::string gb(int64_t bytes) { return fmt::format("{:.2f} GB", static_cast<double>(bytes) / 1e9); }

// What the ranks of `cut` keep and how long they take, for one number of stages.
Layout layout_of(const std::vector<Graph>& cut, int pp, const SizedModel& model, const Machine& machine,
                 const std::vector<Device>& devices, const FitOptions& options) {
  const size_t tp = cut.size();
  Layout layout{.tp = static_cast<int>(tp), .pp = pp};
  layout.ranks.resize(tp * static_cast<size_t>(pp));
  std::vector<double> stage_ms(static_cast<size_t>(pp));
  const StepLimits limits{.rows = options.step_rows,
                          .seqs = options.seqs,
                          .logits = std::min(options.seqs, options.step_rows),
                          .context = model.context(),
                          .page_rows = kPageRows};
  for (size_t r = 0; r < tp; ++r) {
    const std::vector<StageBytes> stages = stages_of(cut[r], model.numbers().layers, pp);
    const int64_t arena = compile(cut[r], {.limits = limits, .kv = options.kv}).arena_bytes;
    for (size_t s = 0; s < stages.size(); ++s) {
      const Device& device = devices[s * tp + r];
      RankBytes& rank = layout.ranks[s * tp + r];
      rank = {.weights = stages[s].weights,
              .kv = kv_bytes(cut[r], stages[s], options, model.context()),
              .activations = arena,
              .reserve = device.gpu >= 0 ? kGpuReserve : kCpuReserve};
      stage_ms[s] = std::max(stage_ms[s], stages[s].step / memory_gbs(machine, device) / 1e6);
      if (rank.total() - device.free_bytes > layout.missing) {
        layout.missing = rank.total() - device.free_bytes;
        layout.refusal = fmt::format(
            "rank {} on {} needs {} ({} of weights, {} of KV cache, {} of activations, {} reserved) and {} are free: "
            "{} "
            "are missing",
            s * tp + r, device.name, gb(rank.total()), gb(rank.weights), gb(rank.kv), gb(rank.activations),
            gb(rank.reserve), gb(device.free_bytes), gb(layout.missing));
      }
    }
  }
  const auto [links, carry_us] = links_of(machine, {devices.begin(), devices.begin() + static_cast<int64_t>(tp)});
  layout.links = links;
  const auto between =
      links_of(machine, {devices.begin(), devices.begin() + static_cast<int64_t>(layout.ranks.size())});
  for (const double ms : stage_ms) layout.step_ms += ms;
  layout.step_ms += 1e-3 * (carry_us * kMeetings * model.numbers().layers + (pp - 1) * between.second);
  // Each takes as many devices as follow the last one's.
  for (size_t first = 0; first + layout.ranks.size() <= devices.size(); first += layout.ranks.size()) {
    bool room = true;
    for (size_t r = 0; r < layout.ranks.size(); ++r)
      room = room && layout.ranks[r].total() <= devices[first + r].free_bytes;
    layout.replicas += room;
  }
  return layout;
}

void check_counts(const SizedModel& model, size_t devices, int tp, int pp) {
  const Hparams& hp = model.numbers();
  if (pp > hp.layers) throw Error("[plan] {} stages for {} layers: each needs one", pp, hp.layers);
  if (tp > hp.heads) throw Error("[plan] {} ranks for {} heads of attention: each needs one", tp, hp.heads);
  if (static_cast<size_t>(tp) * static_cast<size_t>(pp) > devices) {
    throw Error("[plan] --tp {} and --pp {} need {} devices; there are {}", tp, pp, tp * pp, devices);
  }
}

}  // namespace

SizedModel SizedModel::of_files(const std::string& path, const FitOptions& options) {
  SizedModel sized;
  // As the model wrote it: it is cut before it is fused.
  sized.model_ = Model::load(path, {.context = options.context, .kv = options.kv, .fuse_off = {"all"}});
  return sized;
}

SizedModel SizedModel::of_shape(const Hparams& hp, FormatChoice format, const FitOptions& options) {
  SizedModel sized;
  Model& model = sized.model_;
  const auto& all = architectures();
  const auto arch = std::ranges::find_if(all, [&](const Architecture* a) { return hp.arch == a->name; });
  CHECK(arch != all.end(), "architecture {}", hp.arch);
  model.arch = *arch;
  model.hp = hp;
  if (options.context > hp.context)
    throw Error("[plan] a context of {} is asked for, the shape has {}", options.context, hp.context);
  model.context = options.context > 0 ? options.context : hp.context;
  model.weights = std::make_unique<Weights>(std::make_unique<SizeSource>(std::move(format)));
  Build build(model.graph, *model.weights, {.context = model.context, .kv = options.kv});
  model.arch->build(build, model.hp);
  model.weights->finish();
  return sized;
}

int64_t SizedModel::weight_bytes() const { return stages_of(model_.graph, model_.hp.layers, 1)[0].weights; }

std::vector<Graph> SizedModel::cut(int tp) {
  if (tp == 1) return {model_.graph};
  std::vector<Graph> ranks;
  for (int r = 0; r < tp; ++r) ranks.push_back(shard(model_.graph, *model_.weights, r, {.ranks = tp}));
  return ranks;
}

std::vector<Layout> find_layouts(SizedModel& model, const Machine& machine, const std::vector<Device>& devices,
                                 const FitOptions& options) {
  std::vector<Layout> layouts;
  const auto most = static_cast<int>(devices.size());
  for (int tp = 1; tp <= std::min(most, model.numbers().heads); ++tp) {
    const std::vector<Graph> cut = model.cut(tp);
    for (int pp = 1; pp * tp <= most && pp <= model.numbers().layers; ++pp) {
      layouts.push_back(layout_of(cut, pp, model, machine, devices, options));
    }
  }
  return layouts;
}

Layout make_layout(SizedModel& model, const Machine& machine, const std::vector<Device>& devices,
                   const FitOptions& options, int tp, int pp) {
  check_counts(model, devices.size(), tp, pp);
  return layout_of(model.cut(tp), pp, model, machine, devices, options);
}

const Layout* best_layout(const std::vector<Layout>& layouts) {
  const Layout* best = nullptr;
  for (const Layout& layout : layouts) {
    if (!layout.fits()) continue;
    const auto order = [](const Layout& l) { return std::pair(l.step_ms, l.ranks.size()); };
    if (best == nullptr || order(layout) < order(*best)) best = &layout;
  }
  return best;
}

}  // namespace ingot
