// Devices as they are named on the command line: cuda:N is a GPU, cpu:N the cores of memory node N, cpu:N/P each of P
// devices that share those cores.
#pragma once

#include <string>
#include <vector>

#include "devices/gpus.h"

namespace ingot {

struct Device {
  std::string name;        // "cuda:1", "cpu:0", "cpu:0/2.1"
  int gpu = -1;            // index in Machine::gpus; -1: of the CPU
  int node = 0;            // of the CPU: index in Machine::nodes
  std::vector<int> cores;  //   and its cores
  int64_t total_bytes = 0, free_bytes = 0;
};

// Those that `names` lists ("cuda:0,cuda:1"); empty: all GPUs, or where there are none all nodes. Throws Error, in one
// line: a name that is none, a device that is not there or is named twice, more parts than cores.
std::vector<Device> list_devices(const Machine& machine, const std::string& names);

// Holds the calling thread, and those that it starts from now on, to the cores.
void stay_on(const std::vector<int>& cores);

}  // namespace ingot
