#include "compress/quantize.h"

#include <chrono>
#include <filesystem>

#include "base/error.h"
#include "base/mapping_guard.h"
#include "compress/plan.h"
#include "files/directory.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

std::string trimmed(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

void check_out(const std::string& model, const std::string& out) {
  std::error_code error;
  if (out.empty()) throw Error("[quantize] the name of what to write is empty");
  if (fs::equivalent(model, out, error)) throw Error("[quantize] '{}' is the model itself", out);
  if (exists(out)) throw Error("[quantize] '{}' exists; it is not overwritten", out);
  const std::string folder = fs::path(out).parent_path().string();
  if (!folder.empty() && !is_directory(folder)) throw Error("[quantize] '{}' is no directory", folder);
}

std::unique_ptr<QuantizePlan> make_plan(const QuantizeOptions& options) {
  return options.out.ends_with(".gguf") ? plan_gguf(options) : plan_directory(options);
}

}  // namespace

QuantizeSummary plan_quantize(const QuantizeOptions& options, const Rounder& rounder) {
  check_out(options.model, trimmed(options.out));
  const std::unique_ptr<QuantizePlan> plan = make_plan(options);
  QuantizeSummary summary = plan->summary;
  summary.seconds = estimate_seconds(plan->tensors, rounder, options.threads);
  return summary;
}

PlannedFormats planned_formats(const QuantizeOptions& options) {
  PlannedFormats formats;
  for (const std::unique_ptr<QuantizePlan> plan = make_plan(options); const WorkTensor& work : plan->tensors) {
    if (!work.copied && format_block(work.format) > 1) formats[work.source->canonical] = {work.format, work.group};
  }
  return formats;
}

QuantizeSummary quantize(const QuantizeOptions& options, Rounder& rounder) {
  const auto start = std::chrono::steady_clock::now();
  const std::string out = trimmed(options.out);
  check_out(options.model, out);
  const std::unique_ptr<QuantizePlan> plan = make_plan(options);
  std::vector<PartItem> items;
  for (const WorkTensor& work : plan->tensors) items.push_back(work.ranges);
  PartFiles parts(out, plan->directory, plan->files, std::move(items), plan->identity);
  try {
    plan->write_heads(parts);
  } catch (...) {
    if (!parts.resumed()) parts.discard();
    throw;
  }
  WorkOptions work{.threads = options.threads, .importances = options.importances};
  const int64_t total = work_values(plan->tensors);
  if (options.progress)
    work.progress = [&](int64_t done, int64_t skipped) { return options.progress(done, total, skipped); };
  const bool whole = run_work(plan->tensors, parts, rounder, work);
  if (mapping_damaged()) throw Error("[quantize] a file of '{}' was cut short while it was read", options.model);
  if (whole) parts.commit();
  QuantizeSummary summary = plan->summary;
  summary.resumed = parts.resumed();
  summary.stopped = !whole;
  summary.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return summary;
}

}  // namespace ingot
