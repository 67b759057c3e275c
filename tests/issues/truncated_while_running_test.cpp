// A model's file is cut short while seqs run: the process lives, the seqs end with a reason, nothing is made up.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/mapping_guard.h"
#include "cli/bench/save_random.h"
#include "cli/bench/shapes.h"
#include "engine/local_engine.h"

namespace ingot {
namespace {

// In a child process: once damage is seen, a process never trusts its mappings again.
TEST(TruncatedWhileRunning, SeqsEndDamagedAndTheProcessLives) {
  const std::string path = testing::TempDir() + "ingot_truncated_" + std::to_string(getpid()) + ".gguf";
  const Hparams hp = shape_by_name("tiny");
  {
    Model made = Model::random(hp, formats_by_name("f32", hp), {});
    save_random(made, path);
  }
  const auto child = [&] {
    Model model = Model::load(path, {});
    LocalEngine engine(model, {.threads = 2, .max_seqs = 2});
    for (int s = 0; s < 2; ++s) {
      Request request;
      request.prompt = {1, 2, 3};
      request.max_tokens = 100;
      request.sampling.temperature = 0;
      engine.submit(std::move(request));
    }
    engine.step();
    engine.step();
    if (mapping_damaged()) _exit(10);
    std::filesystem::resize_file(path, 5000);
    int damaged = 0;
    for (int step = 0; step < 5 && !engine.idle(); ++step) {
      for (const Event& event : engine.step()) damaged += event.finish == FinishReason::kDamaged;
    }
    _exit(damaged == 2 && engine.idle() && mapping_damaged() ? 42 : 11);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(42), "");
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace ingot
