// One graph compiled for the CPU and for a CUDA device: both run beside each other and give what each gives alone.
#include <memory>

#include "engine/model/cuda.h"
#include "engine/model/cuda_test_support.h"
#include "engine/model/programs_test_support.h"

namespace ingot {
namespace {

class CudaPrograms : public testing::TestWithParam<Format> {};

TEST_P(CudaPrograms, BesideTheCpu) {
  NEEDS_DEVICE();
  const DType kv = GetParam() == Format::kBF16 ? DType::kBF16 : DType::kF32;
  EngineConfig cpu_options = options_of({}), device_options = options_of({.cuda = 0});
  cpu_options.step_rows = device_options.step_rows = 16;
  cpu_options.threads = 2;
  cpu_options.short_cols = 0;
  const std::vector<int32_t> prompt = some_tokens(40, 1), later = some_tokens(20, 2);
  Logits want_cpu, want_device, want_later;
  {
    Model alone = random_model(GetParam(), kv, false);
    LocalEngine cpu(alone, cpu_options);
    want_cpu = logits_of(cpu, prompt);
    want_later = logits_of(cpu, later);
  }
  {
    Model alone = random_model(GetParam(), kv, false);
    LocalEngine device(alone, device_options);
    want_device = logits_of(device, prompt);
  }
  // Products of BF16 weights round x to bf16 on a device.
  EXPECT_LE(nmse_of(want_device, want_cpu), GetParam() == Format::kBF16 ? 5e-4 : 1e-6);

  Model model = random_model(GetParam(), kv, false);
  const std::string before = text_of(model.graph);
  LocalEngine cpu(model, cpu_options);
  auto device = std::make_unique<LocalEngine>(model, device_options);
  EXPECT_EQ(text_of(model.graph), before);
  Logits of_cpu, of_device;
  submit(cpu, prompt, of_cpu);
  submit(*device, prompt, of_device);
  while (!cpu.idle() || !device->idle()) {
    if (!cpu.idle()) cpu.step();
    if (!device->idle()) device->step();
  }
  EXPECT_EQ(of_cpu, want_cpu);
  EXPECT_EQ(of_device, want_device);
  device.reset();
  EXPECT_EQ(text_of(model.graph), before);
  EXPECT_EQ(logits_of(cpu, later), want_later);
  LocalEngine again(model, device_options);
  EXPECT_EQ(logits_of(again, prompt), want_device);
}

INSTANTIATE_TEST_SUITE_P(Formats, CudaPrograms, testing::Values(Format::kF32, Format::kBF16),
                         [](const auto& format) { return std::string(format_name(format.param)); });

}  // namespace
}  // namespace ingot
