#include "devices/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fstream>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace ingot {
namespace {

// The part of nvml.h that is used, so that a build needs no such header. These have been the same since driver 450.
using Status = int;
using Handle = void*;
constexpr Status kTooSmall = 7;                      // NVML_ERROR_INSUFFICIENT_SIZE
constexpr unsigned kSmClock = 1, kMemoryClock = 2;   // nvmlClockType_t
constexpr unsigned kMostLinks = 18;                  // NVML_NVLINK_MAX_LINKS
constexpr int kRemoteGpu = 0, kRemoteSwitch = 2;     // nvmlIntNvLinkDeviceType_t
constexpr unsigned long long kUnknownBytes = ~0ull;  // NVML_VALUE_NOT_AVAILABLE
struct PciInfo {
  char legacy[16];
  unsigned domain, bus, device, id, subsystem;
  char bus_id[32];  // "00000000:0F:00.0"
};
struct MemoryInfo {
  unsigned long long total, free, used;
};
struct ProcessInfo {
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance, compute_instance;
};

// "0000:0f:00.0" of "00000000:0F:00.0".
std::string short_bus_id(std::string_view id) {
  const size_t domain = id.find(':');
  if (domain != std::string_view::npos && domain > 4) id.remove_prefix(domain - 4);
  std::string result(id);
  std::ranges::transform(result, result.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; });
  return result;
}

template <size_t N>
std::string text_of(const std::array<char, N>& buffer) {
  return {buffer.data(), strnlen(buffer.data(), N)};
}

std::string process_name(unsigned pid) {
  std::ifstream file(fmt::format("/proc/{}/comm", pid));
  std::string name;
  std::getline(file, name);
  return name;
}

int node_of_pci(const std::string& bus_id) {
  std::ifstream file("/sys/bus/pci/devices/" + bus_id + "/numa_node");
  int node = -1;
  return file >> node ? node : -1;
}

}  // namespace

struct Nvml::Library {
  void* file = nullptr;
  bool started = false;
  Status (*init)() = nullptr;
  Status (*shutdown)() = nullptr;
  const char* (*error_text)(Status) = nullptr;
  Status (*driver)(char*, unsigned) = nullptr;
  Status (*count)(unsigned*) = nullptr;
  Status (*handle)(unsigned, Handle*) = nullptr;
  Status (*name)(Handle, char*, unsigned) = nullptr;
  Status (*uuid)(Handle, char*, unsigned) = nullptr;
  Status (*pci)(Handle, PciInfo*) = nullptr;
  Status (*memory)(Handle, MemoryInfo*) = nullptr;
  // What an older library may lack is null.
  Status (*processes)(Handle, unsigned*, ProcessInfo*) = nullptr;
  Status (*clock)(Handle, unsigned, unsigned*) = nullptr;
  Status (*most_clock)(Handle, unsigned, unsigned*) = nullptr;
  Status (*bus_width)(Handle, unsigned*) = nullptr;
  Status (*power)(Handle, unsigned*) = nullptr;
  Status (*power_limit)(Handle, unsigned*) = nullptr;
  Status (*temperature)(Handle, unsigned, unsigned*) = nullptr;
  Status (*pcie_generation)(Handle, unsigned*) = nullptr;
  Status (*pcie_lanes)(Handle, unsigned*) = nullptr;
  Status (*link_state)(Handle, unsigned, unsigned*) = nullptr;
  Status (*link_kind)(Handle, unsigned, int*) = nullptr;
  Status (*link_remote)(Handle, unsigned, PciInfo*) = nullptr;
  Status (*ancestor)(Handle, Handle, int*) = nullptr;
  Status (*nodes)(Handle, unsigned, unsigned long*, unsigned) = nullptr;

  ~Library() {
    if (started) shutdown();
    if (file != nullptr) dlclose(file);
  }

  template <class F>
  bool find(F*& function, const char* symbol) {
    function = std::bit_cast<F*>(dlsym(file, symbol));
    return function != nullptr;
  }
  // False where one is missing that every library has.
  bool find_all() {
    find(processes, "nvmlDeviceGetComputeRunningProcesses_v3") ||
        find(processes, "nvmlDeviceGetComputeRunningProcesses_v2");
    find(clock, "nvmlDeviceGetClockInfo");
    find(most_clock, "nvmlDeviceGetMaxClockInfo");
    find(bus_width, "nvmlDeviceGetMemoryBusWidth");
    find(power, "nvmlDeviceGetPowerUsage");
    find(power_limit, "nvmlDeviceGetPowerManagementLimit");
    find(temperature, "nvmlDeviceGetTemperature");
    find(pcie_generation, "nvmlDeviceGetMaxPcieLinkGeneration");
    find(pcie_lanes, "nvmlDeviceGetMaxPcieLinkWidth");
    find(link_state, "nvmlDeviceGetNvLinkState");
    find(link_kind, "nvmlDeviceGetNvLinkRemoteDeviceType");
    find(link_remote, "nvmlDeviceGetNvLinkRemotePciInfo_v2");
    find(ancestor, "nvmlDeviceGetTopologyCommonAncestor");
    find(nodes, "nvmlDeviceGetMemoryAffinity");
    return find(init, "nvmlInit_v2") && find(shutdown, "nvmlShutdown") && find(error_text, "nvmlErrorString") &&
           find(driver, "nvmlSystemGetDriverVersion") && find(count, "nvmlDeviceGetCount_v2") &&
           find(handle, "nvmlDeviceGetHandleByIndex_v2") && find(name, "nvmlDeviceGetName") &&
           find(uuid, "nvmlDeviceGetUUID") && find(pci, "nvmlDeviceGetPciInfo_v3") &&
           find(memory, "nvmlDeviceGetMemoryInfo");
  }

  Handle at(int i) const {
    Handle device = nullptr;
    if (const Status status = handle(static_cast<unsigned>(i), &device); status != 0) {
      throw Error("[devices] GPU {} of the driver cannot be asked: {}", i, error_text(status));
    }
    return device;
  }
  std::string bus_id(Handle device) const {
    PciInfo info = {};
    return pci(device, &info) == 0 ? short_bus_id(info.bus_id) : "";
  }
  // Of a function with one unsigned result; 0 where it is not told.
  template <class F, class... Args>
  static int number(F* function, Args... args) {
    unsigned value = 0;
    return function != nullptr && function(args..., &value) == 0 ? static_cast<int>(value) : 0;
  }
  bool link_up(Handle device, unsigned link) const { return number(link_state, device, link) == 1; }
  bool link_to_switch(Handle device, unsigned link) const {
    int kind = kRemoteGpu;
    return link_kind != nullptr && link_kind(device, link, &kind) == 0 && kind == kRemoteSwitch;
  }
};

namespace {

template <class Library>
std::vector<GpuProcess> processes_of(const Library& library, Handle device) {
  std::vector<ProcessInfo> found(16);
  auto n = static_cast<unsigned>(found.size());
  if (library.processes == nullptr) return {};
  Status status = library.processes(device, &n, found.data());
  // More may come between two calls: some room is added.
  for (int attempt = 0; status == kTooSmall && attempt < 8; ++attempt) {
    found.resize(n + 16);
    n = static_cast<unsigned>(found.size());
    status = library.processes(device, &n, found.data());
  }
  if (status != 0) return {};
  std::vector<GpuProcess> result;
  for (unsigned i = 0; i < n; ++i) {
    const ProcessInfo& p = found[i];
    result.push_back({.pid = static_cast<int>(p.pid),
                      .name = process_name(p.pid),
                      .bytes = p.bytes == kUnknownBytes ? 0 : static_cast<int64_t>(p.bytes)});
  }
  return result;
}

template <class Library>
int node_of(const Library& library, Handle device, const std::string& bus_id) {
  std::array<unsigned long, 16> set = {};
  if (library.nodes != nullptr && library.nodes(device, set.size(), set.data(), 0) == 0) {
    for (size_t word = 0; word < set.size(); ++word) {
      if (set[word] != 0) return static_cast<int>(word * 64) + std::countr_zero(set[word]);
    }
  }
  return node_of_pci(bus_id);
}

}  // namespace

const char* pci_path_name(PciPath path) {
  static constexpr const char* kNames[] = {"X", "PIX", "PXB", "PHB", "NODE", "SYS", "?"};
  return kNames[static_cast<size_t>(path)];
}
const char* pci_path_text(PciPath path) {
  static constexpr const char* kTexts[] = {"the same board", "one PCIe switch",         "several PCIe switches",
                                           "a host bridge",  "bridges of one CPU node", "the link between CPU nodes",
                                           "unknown"};
  return kTexts[static_cast<size_t>(path)];
}

Nvml::Nvml(std::unique_ptr<Library> library) : library_(std::move(library)) {}
Nvml::~Nvml() = default;

std::unique_ptr<Nvml> Nvml::load(std::string* why) {
  auto library = std::make_unique<Library>();
  constexpr const char* kName = "libnvidia-ml.so.1";
  library->file = dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  if (library->file == nullptr) {
    *why = fmt::format("no NVML: {} of NVIDIA's driver cannot be loaded", kName);
    return nullptr;
  }
  if (!library->find_all()) {
    *why = fmt::format("no NVML: {} lacks functions that drivers since 450 have", kName);
    return nullptr;
  }
  if (const Status status = library->init(); status != 0) {
    *why = fmt::format("NVML does not start: {}", library->error_text(status));
    return nullptr;
  }
  library->started = true;
  return std::unique_ptr<Nvml>(new Nvml(std::move(library)));
}

std::string Nvml::driver() const {
  std::array<char, 96> text = {};
  return library_->driver(text.data(), text.size()) == 0 ? text_of(text) : "";
}

int Nvml::count() const { return Library::number(library_->count); }

Gpu Nvml::gpu(int i) const {
  const Library& l = *library_;
  const Handle device = l.at(i);
  Gpu gpu;
  gpu.nvml = i;
  std::array<char, 96> text = {};
  if (l.name(device, text.data(), text.size()) == 0) gpu.name = text_of(text);
  if (l.uuid(device, text.data(), text.size()) == 0) gpu.uuid = text_of(text);
  gpu.bus_id = l.bus_id(device);
  if (MemoryInfo memory = {}; l.memory(device, &memory) == 0) {
    gpu.total_bytes = static_cast<int64_t>(memory.total);
    gpu.free_bytes = static_cast<int64_t>(memory.free);
  }
  gpu.clock_mhz = Library::number(l.clock, device, kSmClock);
  gpu.most_clock_mhz = Library::number(l.most_clock, device, kSmClock);
  gpu.memory_clock_mhz = Library::number(l.clock, device, kMemoryClock);
  gpu.most_memory_clock_mhz = Library::number(l.most_clock, device, kMemoryClock);
  gpu.memory_bits = Library::number(l.bus_width, device);
  gpu.power_w = 1e-3 * Library::number(l.power, device);
  gpu.power_limit_w = 1e-3 * Library::number(l.power_limit, device);
  gpu.celsius = Library::number(l.temperature, device, 0u);
  gpu.pcie_generation = Library::number(l.pcie_generation, device);
  gpu.pcie_lanes = Library::number(l.pcie_lanes, device);
  for (unsigned link = 0; link < kMostLinks; ++link) gpu.nvlinks += l.link_up(device, link);
  gpu.node = node_of(l, device, gpu.bus_id);
  gpu.processes = processes_of(l, device);
  return gpu;
}

GpuLink Nvml::link(int a, int b) const {
  const Library& l = *library_;
  const Handle from = l.at(a), to = l.at(b);
  const std::string bus_id = l.bus_id(to);
  GpuLink result;
  int switched = 0, switched_there = 0;
  for (unsigned link = 0; link < kMostLinks; ++link) {
    switched_there += l.link_up(to, link) && l.link_to_switch(to, link);
    if (!l.link_up(from, link)) continue;
    if (l.link_to_switch(from, link)) {
      ++switched;
      continue;
    }
    PciInfo remote = {};
    if (l.link_remote != nullptr && l.link_remote(from, link, &remote) == 0 && short_bus_id(remote.bus_id) == bus_id)
      ++result.nvlinks;
  }
  result.nvlinks += std::min(switched, switched_there);
  int level = -1;
  if (l.ancestor != nullptr && l.ancestor(from, to, &level) == 0) {
    static constexpr int kLevels[] = {0, 10, 20, 30, 40, 50};  // nvmlGpuTopologyLevel_t, in PciPath's order
    const auto* found = std::ranges::find(kLevels, level);
    if (found != std::end(kLevels)) result.path = static_cast<PciPath>(found - std::begin(kLevels));
  }
  return result;
}

}  // namespace ingot
