#include "models/model.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/mapping_guard.h"
#include "graph/shard.h"
#include "graph/stages.h"
#include "models/model_list.inc"
#include "weights/config.h"
#include "weights/kv_scales.h"
#include "weights/model_files.h"

namespace ingot {

#define X(NAME) extern const Architecture arch_##NAME;
INGOT_MODELS(X)
#undef X

// How ranks share the graph.
static Sharding sharding_of(const Model& model, const ModelOptions& options) {
  Sharding how{.ranks = options.ranks(),
               .form = options.tp_form,
               .experts = {},
               .all_lead = options.on_paper && options.own_rank > 0};
  if (options.ep == 1) return how;
  if (options.tp != 1 && options.tp != options.ep)
    throw Error("[ep] --ep {} beside --tp {}: ranks that have whole experts share all else", options.ep, options.tp);
  how.experts = share_layers(model.graph, options.ep, options.expert_uses);
  if (how.experts.empty()) throw Error("[ep] {} has no experts: --tp shares its layers", model.arch->name);
  return how;
}

// Stages first: each is then cut into its ranks.
static void cut(Model& model, const ModelOptions& options) {
  Sharding how = sharding_of(model, options);
  if (how.ranks == 1 && options.pp == 1) return;
  if (options.pp > 1 && options.keep_hidden)
    throw Error("[pp] the hidden states of every layer are on several stages: without --pp");
  model.stages = options.pp;
  const std::vector<Graph> stages = options.pp > 1 ? split_stages(model.graph, options.pp) : std::vector{model.graph};
  std::vector<ExpertShares> experts = std::move(how.experts);  // of the layers whose stages are still to come
  for (size_t s = stages.size(); s-- > 0;) {
    const auto is_router = [](const Node& node) { return std::holds_alternative<RouterTopk>(node.op); };
    const auto own = experts.empty() ? 0 : std::ranges::count_if(stages[s].nodes, is_router);
    how.experts.assign(experts.end() - own, experts.end());
    experts.resize(experts.size() - static_cast<size_t>(own));
    for (int r = 0; r < how.ranks; ++r) {
      if (options.own_rank >= 0 && options.own_rank != static_cast<int>(model.ranks.size())) {
        model.ranks.emplace_back();
        continue;
      }
      model.ranks.push_back(how.ranks > 1 ? shard(stages[s], *model.weights, r, how) : stages[s]);
      fuse(model.ranks.back(), options.fuse_off);
    }
  }
}

namespace {

// The context that the engine uses: what was asked for, at most what the model can.
int choose_context(const Hparams& hp, const ModelOptions& options) {
  if (options.context > hp.context) {
    throw Error("[model] a context of {} is asked for, the model has {}", options.context, hp.context);
  }
  return options.context ? options.context : hp.context;
}

// Of an 8-bit cache; null: the files say nothing of it.
std::shared_ptr<const KvScales> kv_scales_for(const ModelFiles& files, const Hparams& hp, DType kv) {
  if (kv != DType::kFp8 && kv != DType::kInt8 && kv != DType::kQ8_0) return nullptr;
  const std::optional<KvScales> scales = KvScales::read(files);
  return scales ? std::make_shared<const KvScales>(scales->fitted(kv, hp.heads)) : nullptr;
}

Model build(const Architecture& arch, Hparams hp, std::unique_ptr<WeightSource> source,
            std::shared_ptr<const KvScales> scales, const ModelOptions& options) {
  Model model;
  model.arch = &arch;
  model.hp = std::move(hp);
  model.context = choose_context(model.hp, options);
  model.weights = std::make_unique<Weights>(std::move(source));
  model.kv_scales = std::move(scales);
  if (options.kv == DType::kInt8 && model.kv_scales == nullptr)
    throw Error("[kv] the model has no scales for int8: `ingot quantize --kv int8` finds them, and q8_0 needs none");
  Build b(model.graph, *model.weights,
          {.context = model.context,
           .keep_hidden = options.keep_hidden,
           .keep_last = options.keep_last,
           .kv = options.kv,
           .kv_scales = model.kv_scales.get()});
  arch.build(b, model.hp);
  model.weights->finish();
  cut(model, options);
  model.fused = fuse(model.graph, options.fuse_off);
  return model;
}

// The weights of this rank get their values.
void fill_own(Model& model, const ModelOptions& options) {
  struct Fill : TensorVisitor {
    RandomSource& source;
    explicit Fill(RandomSource& s) : source(s) {}
    void weight(Weight& w) {
      if (w) source.fill_rows(w.data, w.bytes());
    }
  } fill(dynamic_cast<RandomSource&>(model.weights->source()));
  for (Node& node : model.ranks[static_cast<size_t>(options.own_rank)].nodes) each_tensor(node.op, fill);
}

Hparams numbers_of(const Architecture& arch, const Config& config) {
  Hparams hp = read_hparams(config);
  hp.arch = arch.name;
  arch.configure(hp, config);
  return hp;
}

}  // namespace

const std::vector<const Architecture*>& architectures() {
  static const std::vector<const Architecture*> all = {
#define X(NAME) &arch_##NAME,
      INGOT_MODELS(X)
#undef X
  };
  return all;
}

const Architecture& find_architecture(const Config& config) {
  std::vector<std::string> known;
  for (const Architecture* arch : architectures()) {
    const std::vector<std::string>& types = config.is_gguf() ? arch->gguf_types : arch->hf_types;
    if (std::ranges::find(types, config.type()) != types.end()) return *arch;
    known.insert(known.end(), types.begin(), types.end());
  }
  std::ranges::sort(known);
  throw Error("[model] architecture '{}' is not supported; known are {}", config.type(), fmt::join(known, ", "));
}

Hparams Model::read_numbers(const ModelFiles& files) {
  const Config config(files);
  return numbers_of(find_architecture(config), config);
}

Model Model::load(const std::string& path, const ModelOptions& options) {
  auto files = std::make_shared<ModelFiles>(ModelFiles::open(path));
  const Config config(*files);
  const Architecture& arch = find_architecture(config);
  Hparams hp = numbers_of(arch, config);
  std::shared_ptr<const KvScales> scales = kv_scales_for(*files, hp, options.kv);
  Model model = build(arch, std::move(hp), open_source(*files, arch.names), std::move(scales), options);
  model.files = std::move(files);
  if (mapping_damaged()) throw Error("[model] a file of '{}' was cut short while it was read", path);
  return model;
}

Model Model::random(const Hparams& hp, FormatChoice format, const ModelOptions& options) {
  for (const Architecture* arch : architectures()) {
    if (hp.arch != arch->name) continue;
    const RandomFill when = options.on_paper           ? RandomFill::kAsked
                            : options.random_on_device ? RandomFill::kDevice
                                                       : RandomFill::kAtOnce;
    Model model = build(*arch, hp, std::make_unique<RandomSource>(std::move(format), when), nullptr, options);
    if (options.on_paper) fill_own(model, options);
    return model;
  }
  throw Error("[model] architecture '{}' is not supported", hp.arch);
}

}  // namespace ingot
