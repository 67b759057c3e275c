#include "app/expert_use_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cstdio>
#include <fstream>

#include "base/error.h"
#include "engine/engine.h"

namespace ingot {
namespace {

// As a model has at most, with room: a list of counts is no larger.
constexpr size_t kMostLayers = 4096, kMostExpertsOfLayer = 4096;

std::vector<int64_t> counts_of(const std::string& line, const std::string& path, size_t number) {
  std::vector<int64_t> counts;
  const char *at = line.data(), *const end = line.data() + line.size();
  while (at < end) {
    int64_t count = 0;
    const auto [next, bad] = std::from_chars(at, end, count);
    const bool ends = next == end || *next == ' ';
    if (bad != std::errc() || !ends || count < 0 || counts.size() == kMostExpertsOfLayer)
      throw Error("[ep] line {} of '{}' is no list of counts", number, path);
    counts.push_back(count);
    at = next == end ? end : next + 1;
  }
  return counts;
}

}  // namespace

std::vector<std::vector<int64_t>> read_expert_uses(const std::string& path) {
  std::ifstream in(path);
  if (!in)
    throw Error("[ep] '{}' cannot be read: run, bench or eval with --expert-use and without --ep writes it", path);
  std::vector<std::vector<int64_t>> uses;
  for (std::string line; std::getline(in, line);) {
    if (uses.size() == kMostLayers) throw Error("[ep] '{}' has more than {} layers", path, kMostLayers);
    uses.push_back(counts_of(line, path, uses.size() + 1));
  }
  if (uses.empty()) throw Error("[ep] '{}' is empty", path);
  return uses;
}

ExpertUseWriter::ExpertUseWriter(Engine& engine, std::string path) : engine_(engine), path_(std::move(path)) {
  std::ofstream out(path_);
  if (!out) throw Error("[ep] '{}' cannot be written", path_);
}

ExpertUseWriter::~ExpertUseWriter() {
  try {
    std::ofstream out(path_);
    engine_.call([&](LocalEngine& local) {
      if (Runner* const runner = local.device().runner(); runner != nullptr)
        for (const std::vector<int64_t>& layer : runner->experts_chosen())
          out << fmt::format("{}\n", fmt::join(layer, " "));
    });
    out.flush();
    if (!out) fmt::print(stderr, "ingot: [ep] '{}' could not be written\n", path_);
  } catch (const std::exception& error) {
    fmt::print(stderr, "ingot: {}\n", error.what());
  }
}

}  // namespace ingot
