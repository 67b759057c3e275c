#include "compress/quantize.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/data_test_support.h"
#include "base/error.h"
#include "base/sha256.h"
#include "compress/plan.h"
#include "files/gguf/gguf_writer.h"
#include "models/model.h"
#include "weights/config.h"
#include "weights/kv_scales.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

class Quantize : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "ingot_quantize_" + std::to_string(getpid());
    fs::remove_all(folder_);
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  static std::string stories() { return committed_data("models/stories260K"); }

  QuantizeSummary make(const std::string& model, const std::string& out, const std::string& format, int threads = 1) {
    QuantizeOptions options;
    options.model = model;
    options.out = path(out);
    options.format = format;
    options.threads = threads;
    return quantize(options, *nearest_rounder());
  }

  std::string error_of(const QuantizeOptions& options) {
    try {
      quantize(options, *nearest_rounder());
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  std::string folder_;
};

// The directory becomes the file that llama.cpp's converter makes of it: names, order of rows, values, vocabulary.
TEST_F(Quantize, WritesTheFileOfTheConverter) {
  make(stories(), "a.gguf", "f32");
  const Gguf made = Gguf::open(path("a.gguf")), published = Gguf::open(stories() + "/stories260K.gguf");
  for (const GgufTensor& want : published.tensors()) {
    const GgufTensor* got = made.find_tensor(want.name);
    // The published file has its own copy of the head.
    if (want.name == "output.weight") continue;
    ASSERT_NE(got, nullptr) << want.name;
    EXPECT_EQ(got->dims, want.dims) << want.name;
    ASSERT_EQ(got->bytes, want.bytes) << want.name;
    EXPECT_EQ(std::memcmp(got->data, want.data, want.bytes), 0) << want.name;
  }
  for (const char* key : {"tokenizer.ggml.tokens"})
    EXPECT_EQ(made.get_string_array(key), published.get_string_array(key));
  EXPECT_EQ(made.get_f32_array("tokenizer.ggml.scores").size(), 512u);
  EXPECT_EQ(made.get_string("tokenizer.ggml.model"), "llama");
  for (const char* key : {"llama.block_count", "llama.embedding_length", "llama.attention.head_count_kv",
                          "tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id"})
    EXPECT_EQ(made.get_u64(key), published.get_u64(key)) << key;
}

TEST_F(Quantize, KeepsMetadataOfGguf) {
  const std::string from = stories() + "/stories260K.gguf";
  const QuantizeSummary summary = make(from, "b.gguf", "q4_k_m");
  const Gguf made = Gguf::open(path("b.gguf")), published = Gguf::open(from);
  for (const GgufEntry& entry : published.metadata()) {
    if (entry.key == "general.file_type" || entry.key == "general.quantization_version") continue;
    ASSERT_TRUE(made.has(entry.key)) << entry.key;
    EXPECT_EQ(made.find(entry.key)->text(1000), entry.value.text(1000)) << entry.key;
  }
  EXPECT_EQ(made.get_u64("general.file_type"), 15u);
  EXPECT_EQ(made.get_u64("general.quantization_version"), 2u);
  // Rows of 64 and 172 values are no whole blocks of 256: the formats that take their place, and where even 32 does not
  // divide, f16.
  EXPECT_GT(summary.fallbacks, 0);
  const auto type = [&](const char* name) { return format_by_gguf_type(made.find_tensor(name)->type); };
  EXPECT_EQ(type("blk.0.attn_q.weight"), Format::kQ5_0);
  EXPECT_EQ(type("blk.0.ffn_down.weight"), Format::kF16);
  EXPECT_EQ(type("blk.0.attn_norm.weight"), Format::kF32);
  EXPECT_EQ(type("token_embd.weight"), Format::kQ5_0);
}

TEST_F(Quantize, SameBytesForThreadsAndAfterStops) {
  for (const char* out : {"x.gguf", "x"}) {
    const std::string format = std::string(out).ends_with(".gguf") ? "q8_0" : "int4_g32";
    const auto hash = [&](const std::string& name) {
      return sha256_file(path(name) + (fs::is_directory(path(name)) ? "/model.safetensors" : ""));
    };
    make(stories(), std::string("one_") + out, format, 1);
    const std::string want = hash(std::string("one_") + out);
    for (const int threads : {2, 7}) {
      const std::string name = std::to_string(threads) + "_" + out;
      make(stories(), name, format, threads);
      EXPECT_EQ(hash(name), want) << threads;
    }
    // Stopped again and again, after ever more work.
    QuantizeOptions options;
    options.model = stories();
    options.out = path(std::string("stopped_") + out);
    options.format = format;
    int stops = 0;
    bool done = false;
    for (int calls = 1; !done; ++calls) {
      int left = 3;
      options.progress = [&](int64_t made, int64_t, int64_t skipped) { return made == skipped || left-- > 0; };
      const QuantizeSummary summary = quantize(options, *nearest_rounder());
      EXPECT_EQ(summary.resumed, calls > 1);
      EXPECT_EQ(fs::exists(options.out), !summary.stopped);
      stops += summary.stopped;
      done = !summary.stopped;
      ASSERT_LT(calls, 100);
    }
    EXPECT_GT(stops, 1);
    EXPECT_EQ(hash(std::string("stopped_") + out), want);
    EXPECT_FALSE(fs::exists(options.out + ".part"));
    EXPECT_FALSE(fs::exists(options.out + ".part.journal"));
  }
}

// Damage to what a killed run left is found, and made again.
TEST_F(Quantize, MakesDamagedItemsAgain) {
  make(stories(), "want.gguf", "q8_0");
  QuantizeOptions options;
  options.model = stories();
  options.out = path("got.gguf");
  options.format = "q8_0";
  int left = 6;
  options.progress = [&](int64_t, int64_t, int64_t) { return left-- > 0; };
  ASSERT_TRUE(quantize(options, *nearest_rounder()).stopped);
  {
    const uint64_t begin = Gguf::open(path("want.gguf")).data_offset();
    std::fstream file(options.out + ".part", std::ios::in | std::ios::out | std::ios::binary);
    for (uint64_t at = begin; at < fs::file_size(options.out + ".part"); at += 512) {
      file.seekp(static_cast<std::streamoff>(at));
      file.put('x');
    }
  }
  std::ofstream(options.out + ".part.journal", std::ios::app) << "9999 zz\n1";
  options.progress = {};
  EXPECT_TRUE(quantize(options, *nearest_rounder()).resumed);
  EXPECT_EQ(sha256_file(path("got.gguf")), sha256_file(path("want.gguf")));
}

// A directory's matrices are read as what was encoded, and all else stays.
TEST_F(Quantize, DirectoriesAreReadAsTheyWereMade) {
  const ModelFiles source = ModelFiles::open(stories());
  const Architecture& arch = find_architecture(Config(source));
  for (const char* name : {"int4_g32", "int4_asym_g32", "int8", "fp8", "fp8_block", "bf16"}) {
    make(stories(), name, name, 2);
    const ModelFiles made = ModelFiles::open(path(name));
    Weights was(open_source(source, arch.names)), is(open_source(made, arch.names));
    const bool ints = std::string(name).starts_with("int");
    for (const char* part : {"self_attn.q_proj", "mlp.up_proj", "mlp.down_proj"}) {
      const std::string weight = fmt::format("model.layers.2.{}.weight", part);
      const std::vector<int64_t> shape = was.source().find(weight, {})->shape;
      const Weight a = was.take(weight, shape[0], shape[1]), b = is.take(weight, shape[0], shape[1]);
      std::vector<float> x(static_cast<size_t>(shape[1])), y(x);
      double error = 0, norm = 0;
      for (int64_t r = 0; r < shape[0]; ++r) {
        a.decode_row(r, x.data());
        b.decode_row(r, y.data());
        for (size_t i = 0; i < x.size(); ++i) {
          error += (x[i] - y[i]) * (x[i] - y[i]);
          norm += x[i] * x[i];
        }
      }
      // 172 columns are no multiple of 32: this matrix stays as it is.
      const bool kept = ints && shape[1] % 32 != 0;
      const bool int4 = std::string(name).starts_with("int4"), fp8 = std::string(name).starts_with("fp8");
      const double most = kept ? 0 : int4 ? 0.02 : ints ? 3e-4 : fp8 ? 2e-3 : 1e-5;
      EXPECT_LE(error, most * norm) << name << " " << weight;
      EXPECT_EQ(error > 0, !kept) << name << " " << weight;
    }
    Model::load(path(name), {});
  }
  // By hand, for one format: the scale of a group of 32 and the codes.
  const ModelFiles made = ModelFiles::open(path("int4_g32"));
  Weights was(open_source(source, arch.names)), is(open_source(made, arch.names));
  const Weight a = was.take("model.layers.0.self_attn.q_proj.weight", 64, 64);
  const Weight b = is.take("model.layers.0.self_attn.q_proj.weight", 64, 64);
  for (int64_t r = 0; r < 64; ++r) {
    std::vector<float> x(64), y(64), want(64);
    a.decode_row(r, x.data());
    b.decode_row(r, y.data());
    std::vector<std::byte> code(static_cast<size_t>(format_row_bytes(Format::kINT4, 32)));
    for (int g = 0; g < 2; ++g) {
      format_encode(Format::kINT4, x.data() + 32 * g, code.data(), 32);
      format_decode(Format::kINT4, code.data(), want.data() + 32 * g, 32);
    }
    EXPECT_EQ(y, want);
  }
}

TEST_F(Quantize, RefusesInOneLine) {
  QuantizeOptions options;
  options.model = stories();
  options.out = path("a.gguf");
  options.format = "q8_0";
  const auto with = [&](auto change) {
    QuantizeOptions changed = options;
    change(changed);
    return error_of(changed);
  };
  EXPECT_NE(with([](auto& o) { o.format = "int4"; }).find("no type for int4"), std::string::npos);
  EXPECT_NE(with([](auto& o) { o.format = "q9"; }).find("'q9' is no format"), std::string::npos);
  EXPECT_NE(with([](auto& o) { o.out = o.model; }).find("is the model itself"), std::string::npos);
  EXPECT_NE(with([](auto& o) { o.out = "/nowhere/a.gguf"; }).find("no directory"), std::string::npos);
  EXPECT_NE(with([&](auto& o) { o.out = path("d"), o.format = "q4_k_m"; }).find("no format of directories"),
            std::string::npos);
  EXPECT_NE(with([](auto& o) { o.tensors = {{"nothing", "q8_0"}}; }).find("named like 'nothing'"), std::string::npos);
  EXPECT_EQ(fs::exists(path("a.gguf.part")), false);
  EXPECT_EQ(error_of(options), "");
  EXPECT_NE(error_of(options).find("exists"), std::string::npos);
  // Again from below 8 bits.
  make(stories(), "small.gguf", "q4_0");
  options.model = path("small.gguf");
  options.out = path("again.gguf");
  options.format = "q5_0";
  EXPECT_NE(error_of(options).find("--requantize"), std::string::npos);
  for (const auto& [out, format] : {std::pair{"again", "int4"}, {"again", "int8"}, {"again", "fp8"}}) {
    options.out = path(out);
    options.format = format;
    EXPECT_NE(error_of(options).find(std::string(" to ") + format + " loses more; --requantize"), std::string::npos);
  }
  options.requantize = true;
  EXPECT_EQ(error_of(options), "");
}

// Another architecture, or vocabulary, than directories are made of.
TEST_F(Quantize, RefusesDirectoriesOfOtherGguf) {
  const auto refusal = [&](const std::string& key, const std::string& value) {
    const Gguf published = Gguf::open(stories() + "/stories260K.gguf");
    GgufWriter writer;
    for (const GgufEntry& entry : published.metadata()) {
      if (entry.key != key) writer.set(entry.key, entry.value);
    }
    if (!value.empty()) writer.set(key, value);
    for (const GgufTensor& tensor : published.tensors())
      writer.add_tensor(tensor.name, tensor.dims, tensor.type, std::span(tensor.data, tensor.bytes));
    writer.write(path("other.gguf"));
    QuantizeOptions options;
    options.model = path("other.gguf");
    options.out = path("d");
    options.format = "bf16";
    const std::string error = error_of(options);
    EXPECT_FALSE(fs::exists(path("d.part")));
    return error;
  };
  EXPECT_NE(refusal("general.architecture", "mamba").find("no directory is made of a GGUF file of 'mamba'"),
            std::string::npos);
  EXPECT_NE(refusal("tokenizer.ggml.model", "").find("has no vocabulary"), std::string::npos);
  EXPECT_NE(refusal("tokenizer.ggml.model", "bert").find("'bert', which is no BPE"), std::string::npos);
  EXPECT_EQ(refusal("general.name", "other"), "");
  EXPECT_NE(refusal("general.name", "other").find("exists"), std::string::npos);
}

TEST_F(Quantize, NamesTheValueThatIsNotFinite) {
  fs::copy(stories(), path("nan"));
  {
    const SafeTensors tensors = SafeTensors::open(stories());
    const SafeTensor& tensor = *tensors.find("model.layers.1.mlp.up_proj.weight");
    const auto at = tensor.data - tensors.files()[0].bytes().data() + 4 * (3 * 64 + 5);
    fs::permissions(path("nan") + "/model.safetensors", fs::perms::owner_write, fs::perm_options::add);
    std::fstream file(path("nan") + "/model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    const float nan = std::nanf("");
    file.seekp(at);
    file.write(reinterpret_cast<const char*>(&nan), 4);
  }
  QuantizeOptions options;
  options.model = path("nan");
  options.out = path("a.gguf");
  options.format = "q8_0";
  const std::string error = error_of(options);
  EXPECT_NE(error.find("'blk.1.ffn_up.weight' has a value that is not finite, in row 3, column 5"), std::string::npos)
      << error;
}

// A mix leaves what it cannot read apart from another tensor: the matrix and its scale are copied.
TEST_F(Quantize, CopiesWhatIsInNvfp4) {
  const std::string from = stories() + "/stories260K.gguf", name = "blk.1.attn_q.weight";
  std::vector<std::byte> codes(static_cast<size_t>(64 * format_row_bytes(Format::kNVFP4, 64)), std::byte{0x31});
  {
    const Gguf published = Gguf::open(from);
    GgufWriter writer;
    for (const GgufEntry& entry : published.metadata()) writer.set(entry.key, entry.value);
    for (const GgufTensor& tensor : published.tensors()) {
      const bool packed = tensor.name == name;
      writer.add_tensor(tensor.name, tensor.dims, packed ? *gguf_type(Format::kNVFP4) : tensor.type,
                        packed ? std::span<const std::byte>(codes) : std::span(tensor.data, tensor.bytes));
    }
    const float scale = 0.25f;
    writer.add_tensor("blk.1.attn_q.scale", {1}, kGgufF32, std::as_bytes(std::span(&scale, 1)));
    writer.write(path("packed.gguf"));
  }
  const QuantizeSummary summary = make(path("packed.gguf"), "made.gguf", "q8_0");
  EXPECT_EQ(summary.notes, std::vector<std::string>{"1 matrices in nvfp4 stay as they are"});
  const Gguf made = Gguf::open(path("made.gguf"));
  const GgufTensor& got = *made.find_tensor(name);
  ASSERT_EQ(got.type, *gguf_type(Format::kNVFP4));
  EXPECT_TRUE(std::ranges::equal(std::span(got.data, got.bytes), codes));
  EXPECT_EQ(made.find_tensor("blk.1.attn_k.weight")->type, kGgufQ8_0);
}

// What the engine refuses becomes no directory: config.json could not say a bias that nobody reads.
TEST_F(Quantize, NoDirectoryOfTensorsThatAreNotTheModels) {
  const Gguf published = Gguf::open(stories() + "/stories260K.gguf");
  const std::vector<float> bias(64);
  for (const bool missing : {true, false}) {
    GgufWriter writer;
    for (const GgufEntry& entry : published.metadata()) writer.set(entry.key, entry.value);
    for (const GgufTensor& tensor : published.tensors()) {
      if (!missing || tensor.name != "blk.1.ffn_down.weight")
        writer.add_tensor(tensor.name, tensor.dims, tensor.type, std::span(tensor.data, tensor.bytes));
    }
    if (!missing) writer.add_tensor("blk.1.ffn_norm.bias", {64}, kGgufF32, std::as_bytes(std::span(bias)));
    writer.write(path("changed.gguf"));
    QuantizeOptions options;
    options.model = path("changed.gguf");
    options.out = path("made");
    options.format = "f32";
    const std::string error = error_of(options), name = missing ? "mlp.down_proj" : "layernorm.bias";
    EXPECT_NE(error.find(name), std::string::npos) << error;
    EXPECT_FALSE(fs::exists(path("made")));
  }
}

// Every way to a directory from a GGUF file is that from the directory which the file holds.
TEST_F(Quantize, DirectoriesOfGguf) {
  const std::string file = stories() + "/stories260K.gguf";
  make(file, "plain", "f32");
  for (const char* format : {"bf16", "int4_g32", "int4_asym_g32", "int8", "fp8", "fp8_block"}) {
    make(file, std::string(format) + "_gguf", format, 2);
    make(path("plain"), std::string(format) + "_directory", format);
    const SafeTensors got = SafeTensors::open(path(format) + "_gguf");
    const SafeTensors want = SafeTensors::open(path(format) + "_directory");
    ASSERT_EQ(got.tensors().size(), want.tensors().size()) << format;
    for (const SafeTensor& tensor : want.tensors()) {
      const SafeTensor* mine = got.find(tensor.name);
      ASSERT_NE(mine, nullptr) << tensor.name;
      EXPECT_EQ(mine->dtype, tensor.dtype) << format << " " << tensor.name;
      ASSERT_EQ(mine->bytes, tensor.bytes) << format << " " << tensor.name;
      EXPECT_EQ(std::memcmp(mine->data, tensor.data, tensor.bytes), 0) << format << " " << tensor.name;
    }
  }
  // Its scales of a cache, and names of either kind.
  QuantizeOptions options;
  options.model = file;
  options.out = path("kv.gguf");
  options.format = "f32";
  auto scales = std::make_shared<KvScales>();
  for (int i = 0; i < 5; ++i) scales->layers.push_back({.k = std::vector<float>(4, 0.5f), .v = {0.25f, 1, 2, 4}});
  options.kv = scales;
  quantize(options, *nearest_rounder());
  options.kv = nullptr;
  options.model = options.out;
  options.out = path("kv");
  options.format = "int8";
  options.tensors = {{"blk.1.attn_v.weight", "bf16"}, {"*layers.2.self_attn.v_proj*", "f32"}};
  quantize(options, *nearest_rounder());
  const ModelFiles made = ModelFiles::open(path("kv"));
  EXPECT_EQ(KvScales::read(made)->layers.at(3).v, scales->layers[3].v);
  EXPECT_EQ(made.safetensors->find("model.layers.0.self_attn.v_proj.weight")->dtype, "I8");
  EXPECT_EQ(made.safetensors->find("model.layers.1.self_attn.v_proj.weight")->dtype, "BF16");
  EXPECT_EQ(made.safetensors->find("model.layers.2.self_attn.v_proj.weight")->dtype, "F32");
}

TEST_F(Quantize, TensorsByPattern) {
  QuantizeOptions options;
  options.model = stories();
  options.out = path("a.gguf");
  options.format = "q8_0";
  options.tensors = {{"*attn_v*", "q4_0"}, {"model.layers.1.self_attn.k_proj.weight", "f16"}};
  quantize(options, *nearest_rounder());
  const Gguf made = Gguf::open(options.out);
  EXPECT_EQ(made.find_tensor("blk.3.attn_v.weight")->type, kGgufQ4_0);
  EXPECT_EQ(made.find_tensor("blk.1.attn_k.weight")->type, kGgufF16);
  EXPECT_EQ(made.find_tensor("blk.2.attn_k.weight")->type, kGgufQ8_0);
  EXPECT_EQ(made.find_tensor("output.weight"), nullptr);  // tied stays tied
}

}  // namespace
}  // namespace ingot
