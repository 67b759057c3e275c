#include "app/join_ranks.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "app/rank_facts.h"
#include "base/error.h"
#include "base/sha256.h"
#include "base/thread_pool.h"
#include "comm/world.h"
#include "engine/follow.h"
#include "weights/model_files.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

// Size and 64 pieces of 4 KiB: models that differ do so nearly everywhere, and a file of 100 GB is not read twice.
void add_file(Sha256& hash, const fs::path& path) {
  std::error_code ignored;
  const auto bytes = static_cast<int64_t>(fs::file_size(path, ignored));
  const std::string name = fmt::format("{} {}\n", path.filename().string(), bytes);
  hash.update(std::as_bytes(std::span(name)));
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  // Without what lies around a piece, which may be megabytes of another rank's rows.
  (void)::posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
  constexpr int64_t kPieces = 64, kPiece = 4096;
  std::array<std::byte, kPiece> piece;
  for (int64_t i = 0; i < kPieces; ++i) {
    // Whole pages, and the file's end.
    const int64_t at = std::max<int64_t>(0, bytes - 1) * i / (kPieces - 1) / kPiece * kPiece;
    const ssize_t got = ::pread(fd, piece.data(), piece.size(), at);
    if (got > 0) hash.update(std::span(piece).first(static_cast<size_t>(got)));
  }
  ::close(fd);
}

std::string identity(const Model& model) {
  if (model.files == nullptr) return "random weights";
  const fs::path path = model.files->path;
  std::vector<fs::path> files;
  if (fs::is_directory(path)) {
    for (const auto& entry : fs::directory_iterator(path)) {
      const std::string kind = entry.path().extension().string();
      if (kind == ".safetensors" || kind == ".gguf" || entry.path().filename() == "config.json")
        files.push_back(entry.path());
    }
    std::ranges::sort(files);
  } else {
    files.push_back(path);
  }
  Sha256 hash;
  for (const fs::path& file : files) add_file(hash, file);
  return fmt::format("{} bytes, {}", model.files->bytes(), hex(hash.finish()).substr(0, 16));
}

// What must be equal on all ranks, a line each: "what: value". The first difference is told.
std::string facts_of(const Model& model, const ModelOptions& options, const EngineConfig& config) {
  std::string facts = fmt::format("the program: {}\n", sha256_file("/proc/self/exe").substr(0, 16));
  facts += fmt::format("the model: {}, {}\n", model.arch->name, identity(model));
  facts += fmt::format("the device: {}\n", config.device.cuda < 0 ? "cpu" : "cuda");
  facts += fmt::format("--ep: {}\n", options.ep);
  facts += fmt::format("--tp-form: {}\n", options.tp_form == ShardForm::kReduce ? "reduce" : "gather");
  Sha256 uses;
  for (const std::vector<int64_t>& layer : options.expert_uses) uses.update(std::as_bytes(std::span(layer)));
  facts += fmt::format("--expert-use: {}\n", hex(uses.finish()).substr(0, 16));
  facts += fmt::format("--pp: {}\n", model.stages);
  facts += fmt::format("--ref: {}\n", config.kernels == Kernels::kRef);
  facts += fmt::format("--ctx: {}\n", model.context);
  facts += fmt::format("--kv: {}\n", dtype_name(config.kv.value_or(options.kv)));
  std::string rules;
  for (const std::string& rule : options.fuse_off) rules += " " + rule;
  facts += fmt::format("--no-fuse:{}\n", rules);
  facts += fmt::format("outputs: {}\n", model.graph.outputs.size());
  facts += fmt::format("requests at once: {}\n", config.max_seqs);
  facts += fmt::format("rows of a step: {}\n", config.step_rows);
  facts += fmt::format("rows of a page: {}\n", config.page_rows);
  facts += fmt::format("columns of float weights: {}\n", config.short_cols);
  return facts;
}

// Throws where `theirs` differs.
void compare(const std::string& own, const std::string& theirs, const MpiComm& comm, int other) {
  const std::optional<FactDifference> found = first_difference(own, theirs);
  if (!found) return;
  throw Error("[ranks] {} of {} is another:{}, and{} on {}", found->what, comm.name(other), found->theirs, found->own,
              comm.name(0));
}

}  // namespace

void fit_to_world(ModelOptions& model) {
  World* const world = World::joined();
  if (world == nullptr) return;
  const int ranks = world->ranks();
  int& shared = model.ep > 1 ? model.ep : model.tp;
  if (shared == 1 && ranks % model.pp == 0) shared = ranks / model.pp;
  model.own_rank = world->rank();
  if (shared * model.pp == ranks) return;
  if (model.pp == 1) {
    const char* const option = model.ep > 1 ? "ep" : "tp";
    throw Error("[{}] --{} {} for {} processes: each is one rank", option, option, shared, ranks);
  }
  if (shared == 1) throw Error("[pp] {} stages for {} processes: each is one rank of one", model.pp, ranks);
  throw Error("[pp] {} stages of {} ranks for {} processes: each is one", model.pp, shared, ranks);
}

int threads_of_rank() {
  World* const world = World::joined();
  return std::max(1, available_cores() / (world != nullptr ? world->sharers() : 1));
}

void join_ranks(const Model& model, const ModelOptions& options, EngineConfig& config,
                const std::function<void()>& on_ready) {
  World* const world = World::joined();
  if (world == nullptr) return;
  static bool joined = false;
  if (joined) throw Error("[ranks] processes that share a model open one, once");
  if (config.engines > 1)
    throw Error("[dp] {} engines of several processes: each process is one rank of one", config.engines);
  joined = true;
  MpiComm& comm = world->comm();
  const std::string own = facts_of(model, options, config);
  // How much memory the cache may have is asked of the machine: rank 0's answer counts for all.
  if (world->rank() > 0) {
    comm.send(std::as_bytes(std::span(own)), 0);
    std::array<std::byte, sizeof(int64_t)> answer{};
    const int64_t length = comm.recv(answer, 0, Comm::kForever);
    config.kv_bytes = read_kv_bytes(std::span(answer).first(static_cast<size_t>(length)));
    follow_engine(model, config, on_ready);
    throw RankEnded();
  }
  for (int r = 1; r < comm.ranks(); ++r) {
    std::string theirs(kMostFacts, '\0');
    theirs.resize(static_cast<size_t>(comm.recv(std::as_writable_bytes(std::span(theirs)), r, Comm::kForever)));
    compare(own, theirs, comm, r);
  }
  for (int r = 1; r < comm.ranks(); ++r) comm.send(std::as_bytes(std::span(&config.kv_bytes, 1)), r);
}

}  // namespace ingot
