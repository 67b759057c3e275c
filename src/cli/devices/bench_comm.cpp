// ingot bench comm: how long collectives and messages between ranks take, by size and carrier.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "app/device.h"
#include "base/numa.h"
#include "base/thread_pool.h"
#include "cli/bench/bench.h"
#include "cli/devices/devices.h"
#include "cli/interrupt.h"
#include "devices/comm_times.h"
#include "devices/gpu_work.h"

namespace ingot {
namespace {

struct Options : DevicesOptions {
  int ranks = 0;  // 0: the cores, at least two
  std::string carrier;
  std::string device;  // GPUs, or parts of one; empty: carriers of the CPU
  CommTimesOptions times;
};

// No more than an eighth of what is free for each of the two pieces of each rank.
int64_t most_bytes(const Options& options, int ranks) {
  int64_t free = 0;
  for (const NumaNode& node : list_numa_nodes(mask_cores())) free += node.free_bytes;
  int64_t most = options.times.most_bytes;
  while (free > 0 && most > options.times.least_bytes && most > free / 8 / ranks) most /= 4;
  return most;
}

std::vector<const CommCarrier*> carriers_of(const Options& options) {
  std::vector<const CommCarrier*> chosen;
  std::string known;
  for (const CommCarrier& carrier : comm_carriers()) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", carrier.name);
    if (options.carrier.empty() ? carrier.refusal().empty() : options.carrier == carrier.name)
      chosen.push_back(&carrier);
  }
  if (chosen.empty()) throw Error("[comm] carrier '{}' is unknown; known are {}", options.carrier, known);
  if (const std::string why = chosen[0]->refusal(); !why.empty()) throw Error("[comm] {}: {}", chosen[0]->name, why);
  return chosen;
}

// What kernels of GPUs do in recorded steps.
int run_gpus(const Options& options) {
  DevicesOutput out(options);
  const std::optional<EngineDevice> parsed = parse_cuda(options.device);
  if (!parsed || parsed->ranks() < 2)
    throw Error("[comm] --device {}: cuda:N,M names several GPUs, cuda:N/PARTS parts of one", options.device);
  const EngineDevice device = choose_devices(options.device, false, parsed->ranks());
  std::vector<cuda::DevicePlace> places;
  for (int r = 0; r < device.ranks(); ++r) places.push_back(device.place(r));
  const int64_t most = std::min(options.times.most_bytes, int64_t{64} << 20);
  out.say(fmt::format("{}: kernels that meet, {} ranks", options.device, places.size()));
  out.say(fmt::format("{:<28} {:>11} {:>12} {:>10}", "op", "bytes", "us", "bus GB/s"));
  const InterruptGuard guard;
  JsonArray results;
  time_gpu_comm(places, options.times.least_bytes, most, [&](const GpuCommTime& t) {
    throw_if_interrupted();
    out.say(fmt::format("{:<28} {:11} {:12.2f} {:10.3f}", t.op, t.bytes, t.us, t.bus_gbs));
    results.push_back(JsonObject{{"carrier", "kernels"},
                                 {"ranks", places.size()},
                                 {"op", t.op},
                                 {"bytes", t.bytes},
                                 {"us", t.us},
                                 {"bus_gbs", t.bus_gbs}});
  });
  out.finish("Carrying between GPUs", {{"results", std::move(results)}, {"device", options.device}});
  return 0;
}

int run(const Options& options) {
  if (options.times.least_bytes > options.times.most_bytes) throw CLI::ValidationError("--least is more than --most");
  if (!options.device.empty()) return run_gpus(options);
  DevicesOutput out(options);
  const int ranks = options.ranks > 0 ? options.ranks : std::max(2, available_cores());
  CommTimesOptions times = options.times;
  times.most_bytes = most_bytes(options, ranks);
  const InterruptGuard guard;
  JsonArray results;
  for (const CommCarrier* carrier : carriers_of(options)) {
    out.say(fmt::format("{} ({}), {} ranks on {} cores, up to {:.0f} MiB", carrier->name, carrier->summary, ranks,
                        available_cores(), static_cast<double>(times.most_bytes) / (1 << 20)));
    out.say(fmt::format("{:<15} {:>11} {:>12} {:>10}", "op", "bytes", "us", "bus GB/s"));
    std::map<std::string, JsonArray> us, gbs;
    carrier->run(ranks, [&](Comm& comm) {
      time_comm(comm, times, [&](const CommTime& t) {
        throw_if_interrupted();
        out.say(fmt::format("{:<15} {:11} {:12.2f} {:10.3f}", t.op, t.bytes, t.us, t.bus_gbs));
        results.push_back(JsonObject{{"carrier", carrier->name},
                                     {"ranks", comm.ranks()},
                                     {"op", t.op},
                                     {"bytes", t.bytes},
                                     {"us", t.us},
                                     {"bus_gbs", t.bus_gbs}});
        us[t.op].push_back(JsonArray{t.bytes, t.us});
        gbs[t.op].push_back(JsonArray{t.bytes, t.bus_gbs});
      });
    });
    for (auto& [op, points] : gbs) out.curve(fmt::format("{}, {}", op, carrier->name), "bytes", "bus GB/s", points);
    for (auto& [op, points] : us) out.curve(fmt::format("{}, {}: time", op, carrier->name), "bytes", "us", points);
  }
  out.finish("Carrying between ranks", {{"results", std::move(results)}, {"cores", available_cores()}});
  return 0;
}

CommandBody setup(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("--ranks", options->ranks, "Ranks (default: the cores, at least 2)")
      ->check(CLI::Range(1, 64).description(""))
      ->type_name("N");
  app.add_option("--carrier", options->carrier, "local: threads of one process (default: all that there are)")
      ->type_name("NAME");
  app.add_option("--device", options->device, "GPUs or parts of one instead, such as cuda:0,1 or cuda:0/4")
      ->type_name("DEVICE");
  const auto size = [&](const char* name, int64_t& value, const char* text) {
    app.add_option(name, value, text)
        ->transform(CLI::AsSizeValue(false).description(""))
        ->check(CLI::Range(int64_t{64}, int64_t{1} << 34).description(""))
        ->type_name("BYTES");
  };
  size("--least", options->times.least_bytes, "The smallest size (1K); then four times as much, and so on");
  size("--most", options->times.most_bytes, "The largest size (1G, or what memory allows)");
  app.add_option("--seconds", options->times.seconds, "Of each op and size (0.05)")
      ->check(CLI::Range(0.0, 100.0).description(""))
      ->type_name("S");
  add_page_options(app, *options);
  return [options] { return run(*options); };
}

}  // namespace

const Command kBenchComm = {"comm", "Collectives and messages between ranks: microseconds, bus GB/s",
                            "ingot bench comm --ranks 4 --most 64M --html comm.html", setup};

}  // namespace ingot
