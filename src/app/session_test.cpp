// Opening a model as a library does it: no command line, nothing printed.
#include "app/session.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>

#include "app/device.h"
#include "app/server_options.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "files/files_test_support.h"

namespace ingot {
namespace {

constexpr const char* kCheckpoint = INGOT_SOURCE_DIR "/tests/data/arch/llama";

// The checkpoint, with a tokenizer of three letters and a configuration of its own.
struct TinyModel {
  TempDir directory;

  TinyModel() {
    for (const char* name : {"config.json", "model.safetensors"}) {
      std::filesystem::create_symlink(std::string(kCheckpoint) + "/" + name, directory / name);
    }
    directory.write("generation_config.json", R"({"do_sample":true,"temperature":0.5,"eos_token_id":[9,2,7,100000]})");
    directory.write("tokenizer.json", R"({"version":"1.0","normalizer":null,"post_processor":null,
        "added_tokens":[{"id":2,"content":"</s>","special":true,"single_word":false,"lstrip":false,"rstrip":false,
                         "normalized":false}],
        "pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},
        "decoder":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},
        "model":{"type":"BPE","vocab":{"a":0,"b":1,"</s>":2,"c":3},"merges":[]}})");
    directory.write("tokenizer_config.json", R"({"eos_token":"</s>","chat_template":"{{ messages[0]['content'] }}b"})");
  }
};

OpenOptions on_cpu() { return {.device = "cpu", .model = {.context = 64}, .engine = {.threads = 1}}; }

TEST(Session, IsAllThatTextNeeds) {
  const TinyModel tiny;
  std::atomic<int> steps = 0;
  OpenOptions options = on_cpu();
  options.on_step = [&](const StepFacts&) { ++steps; };
  Session session(tiny.directory.path(), options);
  EXPECT_EQ(session.context(), 64);
  EXPECT_EQ(session.end_tokens(), (std::vector<Token>{2, 7, 9}));
  EXPECT_EQ(session.sampling().temperature, 0.5f);
  EXPECT_EQ(session.encode_text("abc", false), (std::vector<Token>{0, 1, 3}));
  ASSERT_TRUE(session.has_template());
  Request request;
  request.prompt = session.encode_chat({JsonObject{{"role", "user"}, {"content", "ac"}}});
  EXPECT_EQ(request.prompt, (std::vector<Token>{0, 3, 1}));
  request.max_tokens = 4;
  request.sampling.temperature = 0;
  const Submission submission = session.engine().submit(std::move(request));
  ASSERT_TRUE(submission.stream) << submission.refused;
  int made = 0;
  while (submission.stream->next()) ++made;
  EXPECT_EQ(made, 4);
  session.engine().call([](LocalEngine&) {});  // the last step has been told
  EXPECT_GE(steps, 4);
}

TEST(Session, TellsOfTheModelBeforeTheTokenizer) {
  const TempDir empty;
  EXPECT_NE(error_of([&] { const Session session(empty.path(), on_cpu()); }), "");
  const std::string error = error_of([&] { const Session session(kCheckpoint, on_cpu()); });
  EXPECT_NE(error.find("tokenizer"), std::string::npos) << error;
}

TEST(OpenEngine, FillsInWhatFollowsFromTheOptions) {
  OpenOptions options = on_cpu();
  options.engine.threads = 0;
  const OpenEngine plain = open_engine(kCheckpoint, options);
  EXPECT_EQ(plain.engine->config().threads, available_cores());
  EXPECT_EQ(plain.engine->config().kernels, Kernels::kFast);
  EXPECT_EQ(plain.engine->config().device.cuda, -1);
  const DType kv = plain.engine->config().kv.value_or(DType::kF32);
  EXPECT_TRUE(kv == DType::kF16 || kv == DType::kBF16) << dtype_name(kv);
  options.ref = true;
  const OpenEngine ref = open_engine(kCheckpoint, options);
  EXPECT_EQ(ref.engine->config().kernels, Kernels::kRef);
  EXPECT_EQ(ref.engine->config().kv, std::nullopt);
  EXPECT_EQ(ref.model->graph.kv_groups[0].dtype, DType::kF32);
  for (const auto& [rule, n] : ref.model->fused) EXPECT_EQ(n, 0) << rule;
  for (const DType type : kv_types()) {
    options.kv = dtype_name(type);
    if (type == DType::kInt8) {  // the file has no scales
      EXPECT_TRUE(error_of([&] { open_engine(kCheckpoint, options); }).starts_with("[kv] the model has no scales"));
      continue;
    }
    EXPECT_EQ(open_engine(kCheckpoint, options).model->graph.kv_groups[0].dtype, type);
  }
}

TEST(OpenEngine, RefusesWhatIsNotThere) {
  const auto said = [](const char* device, bool ref, const char* kv) {
    return error_of([&] { open_engine(kCheckpoint, {.device = device, .ref = ref, .kv = kv}); });
  };
  EXPECT_TRUE(said("cpu", false, "q2").starts_with("[kv] 'q2' is not a format of the KV cache"));
  EXPECT_TRUE(said("cuda:99", false, "").starts_with("[device] cuda:99: "));
  EXPECT_TRUE(said("cuda", true, "").starts_with("[device] --ref computes on the CPU"));
  EXPECT_NE(error_of([] { open_engine(kCheckpoint, {.device = "cpu", .verify = "/none"}); }), "");
  EXPECT_EQ(cuda_index("cuda"), 0);
  EXPECT_EQ(cuda_index("cuda:12"), 12);
  EXPECT_EQ(cuda_index("cuda:3,1"), 3);
  for (const char* device : {"", "cpu", "cuda:", "cuda:x", "cuda:1x", "tpu", "cuda:0,", "cuda:0/", "cuda:0/0",
                             "cuda:0/2x", "cuda:0,1/2", "cuda:,1", "cuda:-1"})
    EXPECT_EQ(cuda_index(device), -1) << device;
  EXPECT_EQ(parse_cuda("cuda:2/4")->parts, 4);
  EXPECT_EQ(parse_cuda("cuda:3,1")->cudas, (std::vector<int>{3, 1}));
}

TEST(ServerOptions, AreChosenByDeviceAndModel) {
  OpenOptions options = server_options();
  options.device = "cpu";
  options.engine.threads = 1;
  options.engine.step_rows = 100;
  set_device_defaults(options);
  EXPECT_EQ(options.engine.max_seqs, 16);
  EXPECT_EQ(options.engine.step_rows, 100);
  EXPECT_EQ(options.engine.page_rows, 32);
  EXPECT_EQ(options.engine.max_waiting, 256);
  EXPECT_EQ(options.engine.gap_ms, 75);
  {
    const OpenEngine open = open_engine(kCheckpoint, options);  // its context is 512
    EXPECT_EQ(open.engine->stats().pages, 16 * 512 / 32);
    EXPECT_EQ(open.engine->config().kv_eager_bytes, int64_t{32} << 20);
    EXPECT_EQ(open.engine->config().kv_bytes, open.engine->stats().kv_bytes);
  }
  options.engine.kv_bytes = 4096;
  const std::string error = error_of([&] { open_engine(kCheckpoint, options); });
  EXPECT_TRUE(error.starts_with("[kv] 4096 bytes hold ")) << error;
}

}  // namespace
}  // namespace ingot
