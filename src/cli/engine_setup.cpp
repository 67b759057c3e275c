#include "cli/engine_setup.h"

#include <charconv>
#include <sstream>

#include "base/error.h"
#include "base/thread_pool.h"
#include "engine/model/cuda.h"
#include "files/manifest.h"
#include "graph/kv_store.h"
#include "weights/model_files.h"

namespace ingot {

ModelOptions model_options(const CommonOptions& common, const EngineSetup& setup) {
  ModelOptions options{.context = setup.context,
                       .keep_hidden = setup.keep_hidden,
                       .keep_last = setup.keep_last,
                       .kv = setup.kv,
                       .fuse_off = setup.fuse_off};
  if (common.ref) options.fuse_off = {"all"};
  return options;
}

namespace {

// What loading needed and running does not: weights that were put in another order before they were packed, and the
// pages of the files. 16 MB of the default model.
void give_back(OpenEngine& open) {
  open.engine->call([&](LocalEngine& local) {
    // A GPU has copies of all.
    const Runner* runner = local.graph().runner();
    open.model->weights->release([&](const std::byte* data) { return runner == nullptr || runner->replaced(data); });
  });
  if (open.model->files) open.model->files->give_back_pages();
}

}  // namespace

OpenEngine make_engine(Model model, const CommonOptions& common, const EngineSetup& setup) {
  OpenEngine open;
  open.model = std::make_unique<Model>(std::move(model));
  const int cuda = choose_device(common);
  const Graph& graph = open.model->graph;
  std::optional<DType> type;
  if (setup.kv_by_device) type = cuda >= 0 ? kv_of_weights(graph, setup.kv) : kv_of_cpu(graph, setup.kv);
  const bool choose = setup.kv_bytes == 0 && setup.choose_kv;
  const KvMemory kv = choose ? setup.choose_kv(*open.model, type) : KvMemory{.bytes = setup.kv_bytes};
  open.engine = std::make_unique<Engine>(
      *open.model, EngineOptions{.threads = common.threads ? common.threads : available_cores(),
                                 .max_seqs = setup.seqs,
                                 .step_rows = setup.step_rows,
                                 .chunk_rows = setup.chunk_rows,
                                 .page_rows = setup.page_rows,
                                 .kv = type,
                                 .kv_bytes = kv.bytes,
                                 .kv_eager_bytes = kv.eager_bytes,
                                 .gap_ms = setup.gap_ms,
                                 .max_waiting = setup.max_waiting,
                                 .kernels = common.ref ? Kernels::kRef : Kernels::kFast,
                                 .device = {.cuda = cuda, .batch_invariant = common.batch_invariant},
                                 .on_step = setup.on_step});
  give_back(open);
  return open;
}

OpenEngine open_engine(const std::string& path, const CommonOptions& common, const EngineSetup& setup) {
  choose_device(common);  // what is not there is said before the model is read
  if (!common.verify.empty()) verify_manifest(path, common.verify);
  return make_engine(Model::load(path, model_options(common, setup)), common, setup);
}

int cuda_index(const std::string& device) {
  if (device == "cuda") return 0;
  if (!device.starts_with("cuda:")) return -1;
  int index = -1;
  const char* end = device.data() + device.size();
  const auto [rest, error] = std::from_chars(device.data() + 5, end, index);
  return error == std::errc() && rest == end ? index : -1;
}

int choose_device(const CommonOptions& common) {
  if (common.device == "cpu") return -1;
  if (common.device.empty()) return !common.ref && cuda_refusal(0).empty() ? 0 : -1;
  if (common.ref) throw Error("[device] --ref computes on the CPU: leave --device out");
  const int index = cuda_index(common.device);
  if (std::string why = cuda_refusal(index); !why.empty()) throw Error("[device] {}: {}", common.device, why);
  return index;
}

DType parse_kv(const std::string& name) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0}) {
    if (name == dtype_name(dtype)) return dtype;
  }
  throw Error("[kv] '{}' is not a format of the KV cache; known are f32, f16, bf16, q8_0", name);
}

DType kv_or_default(const std::string& name, const CommonOptions& common) {
  if (name.empty()) return common.ref ? DType::kF32 : DType::kF16;
  return parse_kv(name);
}

void set_kv(EngineSetup& setup, const std::string& name, const CommonOptions& common) {
  setup.kv = kv_or_default(name, common);
  setup.kv_by_device = name.empty() && !common.ref;
}

std::set<std::string> split_names(const std::string& list) {
  std::set<std::string> names;
  std::istringstream stream(list);
  for (std::string name; std::getline(stream, name, ',');) {
    if (!name.empty()) names.insert(name);
  }
  return names;
}

}  // namespace ingot
