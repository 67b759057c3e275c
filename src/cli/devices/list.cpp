// ingot devices list, ingot devices topo: what the machine has, and how it is linked.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "bench/machine.h"
#include "cli/devices/devices.h"

namespace ingot {
namespace {

std::string gpu_name(const Gpu& gpu) { return gpu.cuda >= 0 ? fmt::format("cuda:{}", gpu.cuda) : "not seen"; }

JsonObject gpu_json(const Gpu& gpu) {
  JsonArray processes;
  for (const GpuProcess& p : gpu.processes)
    processes.push_back(JsonObject{{"pid", p.pid}, {"name", p.name}, {"bytes", p.bytes}});
  return {{"device", gpu.cuda >= 0 ? Json(gpu_name(gpu)) : Json(nullptr)},
          {"nvml_index", gpu.nvml},
          {"name", gpu.name},
          {"uuid", gpu.uuid},
          {"bus_id", gpu.bus_id},
          {"node", gpu.node >= 0 ? Json(gpu.node) : Json(nullptr)},
          {"total_bytes", gpu.total_bytes},
          {"free_bytes", gpu.free_bytes},
          {"clock_mhz", gpu.clock_mhz},
          {"most_clock_mhz", gpu.most_clock_mhz},
          {"memory_clock_mhz", gpu.memory_clock_mhz},
          {"memory_gbs", gpu.memory_gbs()},
          {"power_w", gpu.power_w},
          {"power_limit_w", gpu.power_limit_w},
          {"celsius", gpu.celsius},
          {"pcie_generation", gpu.pcie_generation},
          {"pcie_lanes", gpu.pcie_lanes},
          {"nvlinks", gpu.nvlinks},
          {"processes", std::move(processes)}};
}

JsonObject node_json(const NumaNode& node) {
  return {{"device", fmt::format("cpu:{}", node.id)},
          {"cores", JsonArray(node.cores.begin(), node.cores.end())},
          {"total_bytes", node.total_bytes},
          {"free_bytes", node.free_bytes}};
}

void say_gpu(DevicesOutput& out, const Gpu& gpu) {
  std::string line =
      fmt::format("{:<9} {}, {}, {} free; {} of {} MHz, memory {} MHz; {:.0f} of {:.0f} W, {} C; ", gpu_name(gpu),
                  gpu.name, gigabytes(gpu.total_bytes), gigabytes(gpu.free_bytes), gpu.clock_mhz, gpu.most_clock_mhz,
                  gpu.memory_clock_mhz, gpu.power_w, gpu.power_limit_w, gpu.celsius);
  line += fmt::format("PCIe {} x{}, {} NVLinks; {}{}", gpu.pcie_generation, gpu.pcie_lanes, gpu.nvlinks, gpu.bus_id,
                      gpu.node >= 0 ? fmt::format(", near cpu:{}", gpu.node) : "");
  out.say(line);
  for (const GpuProcess& p : gpu.processes) {
    out.say(fmt::format("          process {} {}: {}", p.pid, p.name.empty() ? "(name unknown)" : p.name,
                        p.bytes > 0 ? gigabytes(p.bytes) : "memory not told"));
  }
}

int list(const DevicesOptions& options) {
  DevicesOutput out(options);
  const Machine machine = read_machine();
  const std::string cpu = cpu_name();
  JsonArray nodes, gpus, rows;
  for (const NumaNode& node : machine.nodes) {
    out.say(fmt::format("cpu:{:<5} {}, {} cores ({}), {}, {} free", node.id, cpu, node.cores.size(),
                        core_ranges(node.cores), gigabytes(node.total_bytes), gigabytes(node.free_bytes)));
    nodes.push_back(node_json(node));
    rows.push_back(JsonArray{fmt::format("cpu:{}", node.id), cpu, static_cast<double>(node.total_bytes) / 1e9,
                             static_cast<double>(node.free_bytes) / 1e9});
  }
  for (const Gpu& gpu : machine.gpus) {
    say_gpu(out, gpu);
    gpus.push_back(gpu_json(gpu));
    rows.push_back(JsonArray{gpu_name(gpu), gpu.name, static_cast<double>(gpu.total_bytes) / 1e9,
                             static_cast<double>(gpu.free_bytes) / 1e9});
  }
  if (machine.gpus.empty()) out.say("GPUs: " + machine.no_gpus);
  out.table("Memory", {"device", "what", "GB", "GB free"}, std::move(rows));
  out.finish("Devices", {{"cpu", cpu},
                         {"nodes", std::move(nodes)},
                         {"driver", machine.driver.empty() ? Json(nullptr) : Json(machine.driver)},
                         {"gpus", std::move(gpus)},
                         {"no_gpus", machine.no_gpus.empty() ? Json(nullptr) : Json(machine.no_gpus)}});
  return 0;
}

std::string link_text(const GpuLink& link) {
  return link.nvlinks > 0 ? fmt::format("NV{}", link.nvlinks) : pci_path_name(link.path);
}

int topo(const DevicesOptions& options) {
  DevicesOutput out(options);
  const Machine machine = read_machine();
  std::vector<std::string> names;
  JsonArray rows, links, nodes;
  for (const NumaNode& node : machine.nodes) nodes.push_back(node_json(node));
  for (const Gpu& gpu : machine.gpus) names.push_back(gpu.cuda >= 0 ? gpu_name(gpu) : fmt::format("({})", gpu.nvml));
  if (!names.empty()) out.say(fmt::format("{:<8}{:>8}  near", "", fmt::join(names, "")));
  for (size_t a = 0; a < names.size(); ++a) {
    JsonArray row;
    std::string line = fmt::format("{:<8}", names[a]);
    for (size_t b = 0; b < names.size(); ++b) {
      const GpuLink& link = machine.links[a][b];
      row.push_back(Json(link_text(link)));
      line += fmt::format("{:>8}", link_text(link));
      if (a < b) {
        links.push_back(JsonObject{{"a", names[a]},
                                   {"b", names[b]},
                                   {"nvlinks", link.nvlinks},
                                   {"path", pci_path_name(link.path)},
                                   {"text", pci_path_text(link.path)}});
      }
    }
    const int node = machine.gpus[a].node;
    out.say(line + (node >= 0 ? fmt::format("  cpu:{}", node) : "  -"));
    rows.push_back(std::move(row));
  }
  if (!names.empty()) {
    out.say(
        "NVn: n NVLinks. PIX, PXB: one or several PCIe switches. PHB: a host bridge. NODE, SYS: within, between CPU "
        "nodes");
  } else {
    out.say("GPUs: " + machine.no_gpus);
  }
  out.say(fmt::format("memory nodes: {}{}", machine.nodes.size(),
                      machine.nodes.size() == 1 ? "" : " (ingot devices test measures the way between them)"));
  if (!names.empty()) out.matrix("Links between GPUs", "", names, rows);
  JsonArray gpus;
  for (const Gpu& gpu : machine.gpus) gpus.push_back(gpu_json(gpu));
  out.finish("Topology", {{"names", JsonArray(names.begin(), names.end())},
                          {"matrix", std::move(rows)},
                          {"links", std::move(links)},
                          {"gpus", std::move(gpus)},
                          {"nodes", std::move(nodes)},
                          {"no_gpus", machine.no_gpus.empty() ? Json(nullptr) : Json(machine.no_gpus)}});
  return 0;
}

template <int (*body)(const DevicesOptions&)>
CommandBody setup(CLI::App& app) {
  auto options = std::make_shared<DevicesOptions>();
  add_page_options(app, *options);
  return [options] { return body(*options); };
}

}  // namespace

const Command kDevicesList = {"list", "GPUs and memory nodes: memory, processes, clocks, power, links",
                              "ingot devices list --json", setup<list>};
const Command kDevicesTopo = {"topo", "How GPUs are linked, and which memory node is near",
                              "ingot devices topo --html topo.html", setup<topo>};

}  // namespace ingot
