#include "devices/gpus.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/error.h"
#include "devices/gpu_work.h"

namespace ingot {
namespace {

// The GPU that an item of CUDA_VISIBLE_DEVICES names; null: none. `ordered`: by bus id.
Gpu* named(std::string_view item, const std::vector<Gpu*>& ordered) {
  while (item.starts_with(' ')) item.remove_prefix(1);
  while (item.ends_with(' ')) item.remove_suffix(1);
  int number = -1;
  const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), number);
  if (error == std::errc() && end == item.data() + item.size()) {
    return number >= 0 && static_cast<size_t>(number) < ordered.size() ? ordered[static_cast<size_t>(number)] : nullptr;
  }
  if (!item.starts_with("GPU-")) return nullptr;
  Gpu* found = nullptr;
  for (Gpu* gpu : ordered) {
    if (!gpu->uuid.starts_with(item)) continue;
    if (found != nullptr) return nullptr;  // the begin of several: CUDA sees none
    found = gpu;
  }
  return found;
}

}  // namespace

void number_gpus(std::vector<Gpu>& gpus, const CudaNumbering& numbering) {
  std::vector<Gpu*> ordered;
  for (Gpu& gpu : gpus) {
    gpu.cuda = -1;
    ordered.push_back(&gpu);
  }
  if (!numbering.bus_ids.empty()) {
    for (Gpu* gpu : ordered) {
      const auto place = std::ranges::find(numbering.bus_ids, gpu->bus_id);
      if (place != numbering.bus_ids.end()) gpu->cuda = static_cast<int>(place - numbering.bus_ids.begin());
    }
    return;
  }
  std::ranges::sort(ordered, {}, [](const Gpu* gpu) { return gpu->bus_id; });
  int next = 0;
  if (numbering.visible == nullptr) {
    for (Gpu* gpu : ordered) gpu->cuda = next++;
    return;
  }
  std::string_view rest = numbering.visible;
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    Gpu* gpu = named(item, ordered);
    if (gpu == nullptr) return;
    if (gpu->cuda >= 0) throw Error("[devices] CUDA_VISIBLE_DEVICES={}: '{}' is there twice", numbering.visible, item);
    gpu->cuda = next++;
  }
}

Machine read_machine() {
  Machine machine;
  machine.nodes = list_numa_nodes(mask_cores());
  const std::unique_ptr<Nvml> nvml = Nvml::load(&machine.no_gpus);
  if (!nvml) return machine;
  machine.driver = nvml->driver();
  for (int i = 0; i < nvml->count(); ++i) machine.gpus.push_back(nvml->gpu(i));
  if (machine.gpus.empty()) machine.no_gpus = "the driver sees no GPU";
  number_gpus(machine.gpus, {.bus_ids = cuda_bus_ids(), .visible = std::getenv("CUDA_VISIBLE_DEVICES")});
  std::ranges::stable_sort(machine.gpus, {}, [](const Gpu& gpu) { return static_cast<unsigned>(gpu.cuda); });
  for (const Gpu& a : machine.gpus) {
    std::vector<GpuLink>& row = machine.links.emplace_back();
    for (const Gpu& b : machine.gpus) {
      row.push_back(a.nvml == b.nvml ? GpuLink{.path = PciPath::kSame} : nvml->link(a.nvml, b.nvml));
    }
  }
  return machine;
}

}  // namespace ingot
