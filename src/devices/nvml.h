// GPUs as NVIDIA's management library tells of them. It comes with the driver and is loaded at run time, by its name
// (libnvidia-ml.so.1, so LD_LIBRARY_PATH counts): nothing is linked, and no GPU is used by asking.
//
// Its numbers of GPUs are not CUDA's, which CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER change: gpus.h joins the two.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ingot {

struct GpuProcess {
  int pid = 0;
  std::string name;   // empty where the system does not tell
  int64_t bytes = 0;  // of the GPU's memory; 0: not told
};

// What a GPU has and does. Numbers are 0 where the GPU does not tell.
struct Gpu {
  int nvml = 0;   // the library's number
  int cuda = -1;  // as in --device cuda:N; -1: this process may not use it
  std::string name, uuid;
  std::string bus_id;  // "0000:0f:00.0": domain, bus, device, function, in lower case
  int64_t total_bytes = 0, free_bytes = 0;
  int clock_mhz = 0, most_clock_mhz = 0, memory_clock_mhz = 0, most_memory_clock_mhz = 0;
  int memory_bits = 0;  // width of the memory's bus
  double power_w = 0, power_limit_w = 0;
  int celsius = 0;
  int pcie_generation = 0, pcie_lanes = 0;
  int nvlinks = 0;  // that are up, to anything
  int node = -1;    // memory node of the CPU that is nearest; -1: not told
  std::vector<GpuProcess> processes = {};

  // What the memory can give at its highest clock: two words a clock on a bus of so many bits.
  double memory_gbs() const { return 2e6 * most_memory_clock_mhz * memory_bits / 8 / 1e9; }
};

// The way that PCIe takes between two GPUs, nearest first.
enum class PciPath : uint8_t { kSame, kSwitch, kSwitches, kBridge, kNode, kSystem, kUnknown };
const char* pci_path_name(PciPath path);  // as nvidia-smi abbreviates them: "PIX"
const char* pci_path_text(PciPath path);  // in words

struct GpuLink {
  int nvlinks = 0;
  PciPath path = PciPath::kUnknown;
};

class Nvml {
 public:
  // Null where there is none or it finds no driver, and `why` says so in one line.
  static std::unique_ptr<Nvml> load(std::string* why);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  std::string driver() const;
  int count() const;
  // REQUIRES: 0 <= i < count(). Throws Error where the GPU has fallen off.
  Gpu gpu(int i) const;
  // Between two of them; a switch that joins all counts each GPU's links to it.
  GpuLink link(int a, int b) const;

 private:
  struct Library;
  explicit Nvml(std::unique_ptr<Library> library);

  std::unique_ptr<Library> library_;
};

}  // namespace ingot
