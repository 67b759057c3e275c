// ingot devices test: whether data comes right between devices, and how fast.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "cli/devices/devices.h"
#include "cli/interrupt.h"
#include "devices/gpu_work.h"
#include "devices/node_copies.h"

namespace ingot {
namespace {

struct Options : DevicesOptions {
  int64_t bytes = int64_t{256} << 20;
};

// What came wrong, for the line at the end.
using Faults = std::vector<std::string>;

// The cells of a matrix from pairs that come in any order.
template <class Pair, class Value>
JsonArray matrix_of(const std::vector<std::string>& names, const std::map<std::string, std::map<std::string, Pair>>& at,
                    const Value& value) {
  JsonArray rows;
  for (const std::string& from : names) {
    JsonArray row;
    for (const std::string& to : names) {
      const auto line = at.find(from);
      const bool known = line != at.end() && line->second.contains(to);
      row.push_back(known ? Json(value(line->second.at(to))) : Json(nullptr));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

JsonArray test_cpu(const std::vector<Device>& devices, const Options& options, DevicesOutput& out, Faults& faults) {
  const std::vector<std::string> names = names_of(devices);
  int64_t least = options.bytes;
  for (const Device& device : devices) {
    if (device.free_bytes > 0) least = std::min(least, device.free_bytes / 4);
  }
  if (devices.size() == 1) {
    out.say(fmt::format("{} is the only memory node: there is no other to copy to", devices[0].name));
  }
  out.say(fmt::format("{:<12} {:<12} {:>10} {:>9}  {}", "memory of", "cores of", "copy GB/s", "load ns", "data"));
  std::map<std::string, std::map<std::string, NodePair>> at;
  JsonArray pairs;
  test_nodes(devices, least, [&](const NodePair& pair) {
    throw_if_interrupted();
    out.say(fmt::format("{:<12} {:<12} {:10.2f} {:9.1f}  {}", pair.from, pair.to, pair.copy_gbs, pair.ns,
                        pair.right ? "right" : "WRONG"));
    if (!pair.right) faults.push_back(fmt::format("data from {} to {} came wrong", pair.from, pair.to));
    pairs.push_back(JsonObject{{"from", pair.from},
                               {"to", pair.to},
                               {"right", pair.right},
                               {"copy_gbs", pair.copy_gbs},
                               {"load_ns", pair.ns}});
    at[pair.from][pair.to] = pair;
  });
  out.matrix("Copies from memory (rows) by cores (columns)", "GB/s", names,
             matrix_of(names, at, [](const NodePair& p) { return p.copy_gbs; }));
  out.matrix("A load from memory (rows) by a core (columns)", "ns", names,
             matrix_of(names, at, [](const NodePair& p) { return p.ns; }));
  return pairs;
}

std::string pair_text(const GpuPair& pair) {
  if (pair.late) return "NOT IN TIME";
  if (!pair.claimed) return "no P2P";
  return pair.wrote && pair.read ? "right" : "WRONG";
}

JsonArray test_gpu(const std::vector<Device>& devices, const Machine& machine, const Options& options,
                   DevicesOutput& out, Faults& faults) {
  std::vector<int> cuda;
  for (const Device& device : devices) cuda.push_back(machine.gpus[static_cast<size_t>(device.gpu)].cuda);
  const auto name = [](int device) { return fmt::format("cuda:{}", device); };
  if (devices.size() == 1) out.say(fmt::format("{} is the only GPU: there is no other to copy to", devices[0].name));
  out.say(fmt::format("{:<10} {:<10} {:>11} {:>10} {:>17}  {}", "from", "to", "direct GB/s", "latency us",
                      "through host GB/s", "data"));
  std::map<std::string, std::map<std::string, GpuPair>> at;
  JsonArray pairs;
  const GpuTest test = test_gpus(cuda, options.bytes, [&](const GpuPair& pair) {
    throw_if_interrupted();
    out.say(fmt::format("{:<10} {:<10} {:11.2f} {:10.2f} {:17.2f}  {}", name(pair.from), name(pair.to), pair.direct_gbs,
                        pair.direct_us, pair.through_host_gbs, pair_text(pair)));
    if (pair.late) faults.push_back(fmt::format("{} to {}: data did not come in time", name(pair.from), name(pair.to)));
    if (pair.claimed && !pair.late && !(pair.wrote && pair.read))
      faults.push_back(fmt::format("{} to {}: P2P is claimed and data came wrong", name(pair.from), name(pair.to)));
    pairs.push_back(JsonObject{{"from", name(pair.from)},
                               {"to", name(pair.to)},
                               {"p2p_claimed", pair.claimed},
                               {"write_right", pair.wrote},
                               {"read_right", pair.read},
                               {"late", pair.late},
                               {"direct_gbs", pair.direct_gbs},
                               {"direct_us", pair.direct_us},
                               {"through_host_gbs", pair.through_host_gbs}});
    at[name(pair.from)][name(pair.to)] = pair;
  });
  for (size_t i = 0; i < cuda.size(); ++i) {
    out.say(fmt::format("{:<10} to and from pinned memory of the host: {:.2f} and {:.2f} GB/s", name(cuda[i]),
                        test.to_device_gbs[i], test.to_host_gbs[i]));
    pairs.push_back(JsonObject{{"from", "host"}, {"to", name(cuda[i])}, {"direct_gbs", test.to_device_gbs[i]}});
    pairs.push_back(JsonObject{{"from", name(cuda[i])}, {"to", "host"}, {"direct_gbs", test.to_host_gbs[i]}});
  }
  if (devices.size() < 2) return pairs;
  const std::vector<std::string> names = names_of(devices);
  out.matrix("Direct copies", "GB/s", names, matrix_of(names, at, [](const GpuPair& p) { return p.direct_gbs; }));
  out.matrix("Latency of 16 bytes", "us", names, matrix_of(names, at, [](const GpuPair& p) { return p.direct_us; }));
  out.matrix("Through the host", "GB/s", names,
             matrix_of(names, at, [](const GpuPair& p) { return p.through_host_gbs; }));
  return pairs;
}

int run(const Options& options) {
  DevicesOutput out(options);
  const Machine machine = read_machine();
  const std::vector<Device> all = list_devices(machine, options.devices);
  std::vector<Device> gpus, nodes;
  for (const Device& device : all) (device.gpu >= 0 ? gpus : nodes).push_back(device);
  const InterruptGuard guard;
  Faults faults;
  JsonObject document{{"devices", JsonArray()}};
  for (const std::string& name : names_of(all)) document["devices"].as_array().push_back(Json(name));
  document["cpu"] = nodes.empty() ? JsonArray() : test_cpu(nodes, options, out, faults);
  document["gpu"] = gpus.empty() ? JsonArray() : test_gpu(gpus, machine, options, out, faults);
  document["faults"] = JsonArray(faults.begin(), faults.end());
  out.finish("Test of devices", document);
  if (!faults.empty()) throw Error("[devices] {}{}", faults[0], faults.size() > 1 ? " (and more)" : "");
  return 0;
}

CommandBody setup(CLI::App& app) {
  auto options = std::make_shared<Options>();
  add_devices_option(app, *options, "Such as cuda:0,cuda:1 or cpu:0/2 (default: all GPUs, else all nodes)");
  app.add_option("--bytes", options->bytes, "Of each copy (256M)")
      ->transform(CLI::AsSizeValue(false).description(""))
      ->check(CLI::Range(int64_t{1} << 20, int64_t{1} << 34).description(""))
      ->type_name("BYTES");
  add_page_options(app, *options);
  return [options] { return run(*options); };
}

}  // namespace

const Command kDevicesTest = {"test", "Data written each way and read back: right, how fast, how late",
                              "ingot devices test\n  ingot devices test --devices cuda:0,cuda:1 --html test.html",
                              setup};

}  // namespace ingot
