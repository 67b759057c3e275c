// The ladders of a CUDA device, real or played by the host.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/error.h"
#include "bench/device.h"
#include "ladder/cuda_multipliers.h"
#include "ladder/cuda_operands.h"
#include "ladder/ladder.h"
#include "ladder/measure.h"
#include "ladder/operators.inc"
#include "ops/cuda/ctx.h"
#include "tensor/cuda.h"

namespace ingot::ladder {
namespace {

// What launching needs, and the memory that kernels of one stream share.
struct Device {
  std::string name;  // "cuda:0"
  cuda::Stream stream;
  cuda::DeviceMemory tickets{cuda::kTickets * static_cast<int64_t>(sizeof(uint32_t))};
  cuda::DeviceMemory handed;
  cuda::Ctx ctx;

  Device() {
    const cuda::DeviceFacts facts = cuda::device_facts();
    handed = cuda::DeviceMemory(cuda::kHandedRoom * facts.multiprocessors);
    cuda::fill_bytes(tickets.data(), 0, tickets.bytes(), stream.ref());
    cuda::fill_bytes(handed.data(), 0xff, handed.bytes(), stream.ref());  // kNothing
    ctx.stream = stream.ref();
    ctx.multiprocessors = facts.multiprocessors;
    ctx.arch = facts.major * 10 + facts.minor;
    ctx.tickets = reinterpret_cast<uint32_t*>(tickets.data());
    ctx.handed = reinterpret_cast<float*>(handed.data());
    ctx.overlap = false;
  }
};

// Seconds of one of the runs that a graph has.
double time_graph(const cuda::RecordedGraph& graph, cuda::StreamRef stream, size_t runs) {
  cuda::Event begin, end;
  begin.record(stream);
  graph.launch(stream);
  end.record(stream);
  end.synchronize();
  return end.seconds_since(begin) / static_cast<double>(runs);
}

// How often a graph has its runs where one time through them takes so long: a launch costs 5 µs, which would be a tenth
// of a product with one row.
size_t turns_of(double seconds) {
  constexpr double kLong = 400e-6;
  return cuda::is_emulated() || seconds <= 0 ? 1 : static_cast<size_t>(std::clamp(kLong / seconds, 1.0, 16.0));
}

template <class Op>
void bench_operator(const char* name, Device& device, Rivals* rivals, const Listener& listener) {
  const cuda::DeviceFacts facts = cuda::device_facts();
  for (const LadderCase<Op>& c : ladder_cases<Op>(cuda::is_emulated() ? Target::kEmulated : Target::kCuda)) {
    cuda::DeviceOperands operands(device.stream.ref());
    std::vector<Op> ops{c.make(operands)};
    LadderTimes times = times_of(name, c, ops[0]);
    const double copies = cuda::is_emulated() ? 1 : 3.0 * static_cast<double>(facts.l2_bytes) / times.bytes + 1;
    while (static_cast<double>(ops.size()) + 1 <= std::min(copies, 64.0)) ops.push_back(c.make(operands));
    cuda::Ctx ctx = device.ctx;
    ctx.scratch_bytes = scratch_bytes(ops[0]);
    ctx.scratch = operands.bytes(std::max<int64_t>(ctx.scratch_bytes, 256), 0xff);
    for (const Op& op : ops) prepare(op, ctx);
    std::vector<cuda::RecordedGraph> graphs;
    std::vector<size_t> runs;  // of each graph
    std::vector<Runner> runners;
    for (const CudaStep<Op>& step : cuda_steps<Op>()) {
      const StepInfo* info = find_step(name, true, step.order);
      try {
        if (!cuda::is_emulated()) step.run(ops[0], ctx);  // kernels are loaded
      } catch (const Error& e) {
        fmt::print(stderr, "{}, step {}, {}, is left out: {}\n", name, step.order, info->name, e.what());
        continue;
      }
      times.steps.push_back({.step = info});
      device.stream.synchronize();
      const auto record = [&](size_t turns) {
        return cuda::RecordedGraph(device.stream.ref(), [&] {
          for (size_t i = 0; i < turns; ++i)
            for (const Op& op : ops) step.run(op, ctx);
        });
      };
      const cuda::RecordedGraph once = record(1);
      if (!cuda::is_emulated()) time_graph(once, device.stream.ref(), 1);
      const size_t turns = turns_of(cuda::is_emulated() ? 0 : time_graph(once, device.stream.ref(), 1));
      graphs.push_back(record(turns));
      runs.push_back(turns * ops.size());
    }
    for (size_t i = 0; i < graphs.size(); ++i)
      runners.push_back([&, i] { return time_graph(graphs[i], device.stream.ref(), runs[i]); });
    measure(times, runners, rivals, device.name, cuda::is_emulated() ? 1 : kRounds);
    listener.each(times);
  }
}

}  // namespace

void bench_cuda_ladders(int index, const std::vector<std::string>& names, Rivals* rivals, const Listener& listener) {
  check_names(names, true);
  const DeviceCeilings most = measure_device(index);
  Device device;
  device.name = "cuda:" + std::to_string(index);
  listener.begin(device.name + " " + cuda::device_facts().name, {.read_gbs = most.read_gbs,
                                                                 .copy_gbs = most.copy_gbs,
                                                                 .f32_gflops = cuda::measure_f32(device.stream.ref()),
                                                                 .bf16_gflops = most.bf16_gflops,
                                                                 .fp8_gflops = cuda::measure_fp8(device.stream.ref())});
#define X(TYPE, NAME) \
  if (is_wanted(names, #NAME)) bench_operator<TYPE>(#NAME, device, rivals, listener);
  INGOT_CUDA_LADDERS(X)
#undef X
}

}  // namespace ingot::ladder
