#include "engine/model/cpu_model.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <thread>

#include "base/numa.h"
#include "engine/local_engine.h"

namespace ingot {
namespace {

// The cores of the thread that runs a step, which has packed the weights before.
std::vector<int> cores_of_a_step(const char* pin, int threads) {
  Model model = Model::load(INGOT_SOURCE_DIR "/tests/data/arch/llama", {.context = 64});
  setenv("INGOT_PIN", pin, 1);
  LocalEngine engine(model, {.threads = threads, .max_seqs = 1, .step_rows = 32, .page_rows = 16});
  unsetenv("INGOT_PIN");
  std::vector<int> cores;
  engine.device().on_body = [&, caller = std::this_thread::get_id()](const Batch&, const StepOutputs&) {
    EXPECT_NE(std::this_thread::get_id(), caller);
    cores = mask_cores();
  };
  Request request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 1;
  EXPECT_EQ(engine.submit(request).refused, "");
  while (!engine.idle()) engine.step();
  return cores;
}

TEST(CpuModel, ItsOwnThreadIsPinnedAndTheCallersIsNot) {
  const std::vector<int> mask = mask_cores();
  const int threads = static_cast<int>(mask.size());
  cpu_set_t set;
  if (threads == 0 || sched_getaffinity(0, sizeof(set), &set) != 0 || sched_setaffinity(0, sizeof(set), &set) != 0) {
    GTEST_SKIP() << "the system does not let a thread choose its cores";
  }
  EXPECT_EQ(cores_of_a_step("off", threads), mask);
  if (available_cores() != threads) GTEST_SKIP() << "a quota below the cores: nothing is pinned";
  EXPECT_EQ(cores_of_a_step("on", threads), std::vector<int>{mask[0]});
  EXPECT_EQ(mask_cores(), mask);
}

}  // namespace
}  // namespace ingot
