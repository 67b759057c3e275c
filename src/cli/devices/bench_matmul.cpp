// ingot bench matmul: one large product over several devices, cut by rows, outputs or inputs, against one device.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/bench/bench.h"
#include "cli/devices/devices.h"
#include "cli/interrupt.h"
#include "devices/split_product.h"
#include "quant/format.h"

namespace ingot {
namespace {

struct Options : DevicesOptions {
  SplitWork work = {.size = {.m = 512, .n = 4096, .k = 4096}};
  std::string format = "bf16";
};

// A machine of one node has two devices all the same: halves of its cores.
std::vector<Device> devices_of(const Options& options) {
  Machine machine = read_machine();
  if (options.devices.empty()) machine.gpus.clear();
  std::vector<Device> devices = list_devices(machine, options.devices);
  if (options.devices.empty() && devices.size() == 1 && devices[0].cores.size() > 1)
    devices = list_devices(machine, devices[0].name + "/2");
  for (const Device& device : devices) {
    if (device.gpu >= 0) throw Error("[matmul] {}: a product is cut over devices of the CPU", device.name);
  }
  return devices;
}

int run(const Options& options) {
  DevicesOutput out(options);
  SplitWork work = options.work;
  const std::optional<Format> format = format_by_name(options.format);
  if (!format) throw Error("[matmul] format '{}' is unknown", options.format);
  work.format = *format;
  if (work.size.k % format_block(work.format) != 0)
    throw Error("[matmul] {} inputs are no whole blocks of {}", work.size.k, options.format);
  const std::vector<Device> devices = devices_of(options);
  if (devices.size() > 1) check_splits(devices, work);
  const InterruptGuard guard;
  const MatmulSize& size = work.size;
  out.say(fmt::format("{} x {} x {} in {} over {} devices", size.m, size.n, size.k, options.format, devices.size()));
  for (const Device& device : devices) out.say(fmt::format("{}: cores {}", device.name, core_ranges(device.cores)));
  if (devices.size() == 1) out.say("one device: there is nothing to cut");
  out.say(fmt::format("{:<14} {:>9} {:>9} {:>9} {:>7} {:>7}  {}", "cut by", "ms", "product", "GFLOP/s", "x one", "bits",
                      "NMSE"));
  JsonArray results, rows;
  double one = 0;
  time_splits(devices, work, [&](const SplitTime& t) {
    throw_if_interrupted();
    if (t.by == SplitBy::kOne) one = t.seconds;
    const double gflops = size.flops() / t.seconds / 1e9;
    const std::string product = t.product_s > 0 ? fmt::format("{:.2f}", t.product_s * 1e3) : "-";
    out.say(fmt::format("{:<14} {:9.2f} {:>9} {:9.1f} {:7.2f} {:>7}  {:.1e}", split_name(t.by), t.seconds * 1e3,
                        product, gflops, one / t.seconds, t.same_bits ? "same" : "other", t.nmse));
    results.push_back(JsonObject{{"by", split_name(t.by)},
                                 {"what", split_text(t.by)},
                                 {"seconds", t.seconds},
                                 {"product_seconds", t.product_s},
                                 {"gflops", gflops},
                                 {"ratio_to_one", one / t.seconds},
                                 {"same_bits", t.same_bits},
                                 {"nmse", t.nmse}});
    rows.push_back(JsonArray{split_name(t.by), split_text(t.by), t.seconds * 1e3, gflops, one / t.seconds,
                             t.same_bits ? "same" : "other"});
  });
  out.table("Cuts", {"by", "what", "ms", "GFLOP/s", "x one", "bits"}, std::move(rows));
  const std::vector<std::string> names = names_of(devices);
  out.finish("One product over several devices", {{"devices", JsonArray(names.begin(), names.end())},
                                                  {"m", size.m},
                                                  {"n", size.n},
                                                  {"k", size.k},
                                                  {"format", options.format},
                                                  {"results", std::move(results)}});
  return 0;
}

CommandBody setup(CLI::App& app) {
  auto options = std::make_shared<Options>();
  add_devices_option(app, *options,
                     "Of the CPU, such as cpu:0,cpu:1 or cpu:0/4 (default: all nodes; of one its halves)");
  const auto size = [&](const char* name, int64_t& value, const char* text) {
    app.add_option(name, value, text)->check(CLI::Range(int64_t{1}, int64_t{1} << 20).description(""))->type_name("N");
  };
  size("-m", options->work.size.m, "Rows (512)");
  size("-n", options->work.size.n, "Outputs (4096)");
  size("-k", options->work.size.k, "Inputs (4096)");
  app.add_option("--format", options->format, "Of the weights (bf16)")->type_name("FORMAT");
  app.add_option("--repeat", options->work.repeat, "Runs; the median counts (5)")
      ->check(CLI::Range(1, 1000).description(""))
      ->type_name("N");
  add_page_options(app, *options);
  return [options] { return run(*options); };
}

}  // namespace

const Command kBenchMatmul = {"matmul", "One product over several devices, by rows, outputs, inputs, against one",
                              "ingot bench matmul --devices cpu:0/2 -m 256 --format q8_0", setup};

}  // namespace ingot
