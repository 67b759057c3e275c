#include "files/manifest.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <set>

#include "base/sha256.h"
#include "files/atomic_file.h"
#include "files/files_test_support.h"
#include "files/gguf/gguf_writer.h"
#include "files/json.h"

namespace ingot {
namespace {

void flip(const std::string& path, size_t bit) {
  const int fd = ::open(path.c_str(), O_RDWR);
  unsigned char byte = 0;
  ASSERT_EQ(::pread(fd, &byte, 1, static_cast<off_t>(bit / 8)), 1);
  byte = static_cast<unsigned char>(byte ^ (1u << bit % 8));
  ASSERT_EQ(::pwrite(fd, &byte, 1, static_cast<off_t>(bit / 8)), 1);
  ::close(fd);
}

std::string verify(const std::string& model, const std::string& manifest) {
  return error_of([&] { verify_manifest(model, manifest); });
}

// Each of 1,000 flipped bits is found, and the region that holds it is named.
TEST(Manifest, FindsEveryFlippedBitOfAGguf) {
  const TempDir dir;
  const GgufBytes file = small_gguf();
  const std::string model = dir.write("m.gguf", file.bytes);
  const std::string manifest = dir / "m.manifest.json";
  write_manifest(model, manifest);
  EXPECT_EQ(verify(model, manifest), "");
  std::mt19937 random(7);
  int found = 0;
  for (int i = 0; i < 1000; i++) {
    const size_t bit = random() % (file.bytes.size() * 8);
    const size_t byte = bit / 8;
    std::string region = byte < file.data[0].first ? "metadata" : "padding";
    for (size_t t = 0; t < file.data.size(); t++) {
      if (byte >= file.data[t].first && byte < file.data[t].second) region = fmt::format("tensor 't{}'", t);
    }
    flip(model, bit);
    const std::string message = verify(model, manifest);
    EXPECT_TRUE(message.starts_with(fmt::format("[manifest] m.gguf: {} differs", region))) << bit << ": " << message;
    found += message.empty() ? 0 : 1;
    flip(model, bit);
  }
  EXPECT_EQ(found, 1000);
  EXPECT_EQ(verify(model, manifest), "");
}

TEST(Manifest, SaysTheHashOfTheWholeFile) {
  const TempDir dir;
  const std::string model = dir.write("m.gguf", small_gguf().bytes);
  write_manifest(model, dir / "x.json");
  const Json json = read_json_file(dir / "x.json");
  EXPECT_EQ(get_string(json.at("files").at(0).get_object(), "sha256"), sha256_file(model));
}

TEST(Manifest, OtherSizes) {
  const TempDir dir;
  const std::string bytes = small_gguf().bytes;
  const std::string model = dir.write("m.gguf", bytes);
  write_manifest(model, dir / "x.json");
  dir.write("m.gguf", bytes.substr(0, bytes.size() - 1));
  EXPECT_TRUE(contains(verify(model, dir / "x.json"), "tensor 't3' is cut short"));
  dir.write("m.gguf", bytes + "x");
  EXPECT_TRUE(contains(verify(model, dir / "x.json"), "m.gguf: has"));
  dir.write("m.gguf", "");
  EXPECT_TRUE(contains(verify(model, dir / "x.json"), "metadata is cut short"));
  std::filesystem::remove(model);
  EXPECT_TRUE(contains(verify(model, dir / "x.json"), "No such file"));
}

TEST(Manifest, Directory) {
  const TempDir dir;
  dir.write("model.safetensors", safetensors_bytes(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 2));
  dir.write("config.json", "{}");
  dir.write("notes.md", "not part of the model");
  const std::string manifest = dir / "manifest.json";
  write_manifest(dir.path(), manifest);
  write_manifest(dir.path(), manifest);
  EXPECT_EQ(verify(dir.path(), manifest), "");
  EXPECT_EQ(verify(dir / "model.safetensors", manifest), "");
  flip(dir / "config.json", 3);
  EXPECT_TRUE(contains(verify(dir.path(), manifest), "config.json: file differs"));
  flip(dir / "config.json", 3);
  flip(dir / "model.safetensors", (std::filesystem::file_size(dir / "model.safetensors") - 1) * 8);
  EXPECT_TRUE(contains(verify(dir.path(), manifest), "model.safetensors: tensor 'a' differs"));
  write_manifest(dir / "model.safetensors", dir / "one.json");
  EXPECT_EQ(verify(dir / "model.safetensors", dir / "one.json"), "");
  EXPECT_TRUE(contains(verify(dir / "notes.md", dir / "one.json"), "does not name the model"));
}

// Whatever a changed file is called, and whether it is changed or added: what is read is what was hashed.
TEST(Manifest, EveryFileThatIsReadIsListed) {
  const TempDir dir;
  dir.write("model.safetensors", safetensors_bytes(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 2));
  dir.write("config.json", "{}");
  dir.write("qwen.tiktoken", "IQ== 0\n");
  const std::string manifest = dir / "x.manifest";
  write_manifest(dir.path(), manifest);
  EXPECT_EQ(verify(dir.path(), manifest), "");
  flip(dir / "qwen.tiktoken", 3);
  EXPECT_TRUE(contains(verify(dir.path(), manifest), "qwen.tiktoken: file differs"));
  flip(dir / "qwen.tiktoken", 3);
  for (const char* added : {"chat_template.jinja", "chat_template.json", "generation_config.json", "tokenizer.json",
                            "tokenizer.model", "tokenizer_config.json", "tiktoken.model", "other.tiktoken", "tok1.bin",
                            "model.safetensors.index.json", "special_tokens_map.json", "vocab.txt", "tekken.json"}) {
    dir.write(added, "{}");
    EXPECT_TRUE(contains(verify(dir.path(), manifest), fmt::format("{}: is read with the model", added))) << added;
    std::filesystem::remove(dir / added);
  }
  dir.write("notes.md", "");
  dir.write("consolidated.safetensors", "");  // model.safetensors wins
  dir.write("other.gguf", "");                // not read where config.json is
  EXPECT_EQ(verify(dir.path(), manifest), "");
  std::filesystem::remove(dir / "config.json");
  EXPECT_NE(verify(dir.path(), manifest), "");
}

TEST(Manifest, EveryShardAndEveryPartIsListed) {
  const TempDir dir;
  const auto shard = [](const char* name) {
    return safetensors_bytes(fmt::format(R"({{"{}":{{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}}})", name), 2);
  };
  dir.write("config.json", "{}");
  dir.write("a.safetensors", shard("a"));
  dir.write("b.safetensors", shard("b"));
  dir.write("model.safetensors.index.json", R"({"weight_map":{"a":"a.safetensors","b":"b.safetensors"}})");
  const std::string manifest = dir / "x.manifest";
  write_manifest(dir.path(), manifest);
  EXPECT_EQ(verify(dir.path(), manifest), "");
  Json json = read_json_file(manifest);
  JsonArray& files = json.as_object()["files"].as_array();
  files.erase(std::ranges::find_if(files, [](const Json& f) { return f.at("name") == "b.safetensors"; }));
  EXPECT_TRUE(contains(verify(dir.path(), dir.write("y.manifest", to_json(json))), "b.safetensors: is read"));
  dir.write("model.safetensors", shard("a"));  // it would be read instead of the shards
  EXPECT_TRUE(contains(verify(dir.path(), manifest), "model.safetensors: is read"));

  const TempDir parts;
  const std::string first = parts.write("m-00001-of-00002.gguf", "abc");
  const std::string hash = sha256_hex(bytes_of("abc"));
  const std::string one = fmt::format(
      R"({{"ingot_manifest":1,"files":[{{"name":"m-00001-of-00002.gguf","bytes":3,"regions":[{{"name":"r","offset":0,)"
      R"("bytes":3,"sha256":"{}"}}]}}]}})",
      hash);
  const std::string of_one = parts.write("one.manifest", one);
  EXPECT_EQ(verify(first, of_one), "");
  parts.write("m-00002-of-00003.gguf", "");
  EXPECT_EQ(verify(first, of_one), "");
  parts.write("m-00002-of-00002.gguf", "");
  EXPECT_TRUE(contains(verify(first, of_one), "m-00002-of-00002.gguf: is read"));
  EXPECT_TRUE(contains(verify(parts.path(), of_one), "m-00002-of-00002.gguf: is read"));
}

TEST(Manifest, DirectoryOfAGguf) {
  const TempDir dir;
  dir.write("m.gguf", small_gguf().bytes);
  const std::string manifest = dir / "x.manifest";
  write_manifest(dir.path(), manifest);
  EXPECT_EQ(verify(dir.path(), manifest), "");
  dir.write("a.gguf", small_gguf().bytes);  // the first is the model
  EXPECT_TRUE(contains(verify(dir.path(), manifest), "a.gguf: is read"));
}

// A reader of another file of the model that is not in the list would be a hole in every manifest.
TEST(Manifest, TheSourcesReadNoOtherFile) {
  constexpr const char* kOfNames = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
  const auto is_name = [](const std::string& text) {
    const std::vector<std::string> endings = {".json", ".jinja", ".model", ".txt", ".tiktoken", ".bin"};
    return std::ranges::any_of(endings,
                               [&](const std::string& e) { return text.size() > e.size() && text.ends_with(e); });
  };
  const std::set<std::string> others = {"tokenizer.ggml.model", ".index.json"};
  std::set<std::string> found;
  for (const char* folder : {"app", "files", "models", "text", "weights"}) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(std::string(INGOT_SOURCE_DIR "/src/") + folder)) {
      const std::string path = entry.path().string();
      if (!entry.is_regular_file() || path.find("_test") != std::string::npos) continue;
      const std::string text = read_text_file(path);
      for (size_t quote = text.find('"'); quote != std::string::npos; quote = text.find('"', quote + 1)) {
        const size_t begin = text.find_first_not_of('/', quote + 1);
        const size_t end = std::min(text.find_first_not_of(kOfNames, begin), text.size());
        if (text.substr(end, 1) == "\"" && is_name(text.substr(begin, end - begin))) {
          found.insert(text.substr(begin, end - begin));
        }
      }
    }
  }
  EXPECT_TRUE(found.contains("tekken.json"));
  EXPECT_TRUE(found.contains("chat_template.jinja"));
  for (const std::string& file : found) EXPECT_TRUE(others.contains(file) || is_side_file(file)) << file;
}

TEST(Manifest, BadManifests) {
  const TempDir dir;
  const std::string model = dir.write("m.gguf", "abc");
  const std::string hash = sha256_hex(bytes_of("abc"));
  const auto with = [&](std::string_view files) {
    const std::string text = fmt::format(R"({{"ingot_manifest":1,"files":[{}]}})", files);
    return verify(model, dir.write("x.json", text));
  };
  const auto region = [&](int offset, int n) {
    return fmt::format(R"({{"name":"r","offset":{},"bytes":{},"sha256":"{}"}})", offset, n, hash);
  };
  const auto file = [&](std::string_view name, int n, std::string_view regions) {
    return fmt::format(R"({{"name":"{}","bytes":{},"regions":[{}]}})", name, n, regions);
  };
  EXPECT_EQ(with(file("m.gguf", 3, region(0, 3))), "");
  EXPECT_TRUE(contains(with(file("../m.gguf", 3, region(0, 3))), "no name of a file"));
  EXPECT_TRUE(contains(with(file("m.gguf", 3, region(1, 2))), "does not follow"));
  EXPECT_TRUE(contains(with(file("m.gguf", 3, "")), "do not cover"));
  EXPECT_TRUE(contains(with(file("m.gguf", 4, region(0, 4))), "cut short"));
  EXPECT_NE(with(file("m.gguf", 3, region(0, -1))), "");
  EXPECT_NE(with(R"({"name":"m.gguf","bytes":3})"), "");
  EXPECT_NE(with("1"), "");
  EXPECT_NE(with(""), "");
  EXPECT_NE(verify(model, dir.write("x.json", "{}")), "");
  EXPECT_NE(verify(model, dir.write("x.json", "[]")), "");
  EXPECT_NE(verify(model, dir.write("x.json", "{")), "");
}

TEST(AtomicFile, AppearsWholeOrNotAtAll) {
  const TempDir dir;
  dir.write("a", "old");
  {
    AtomicFile file(dir / "a");
    file.write("new");
  }
  EXPECT_EQ(read_text_file(dir / "a"), "old");
  {
    AtomicFile file(dir / "a");
    file.write("new");
    file.commit();
  }
  EXPECT_EQ(read_text_file(dir / "a"), "new");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1);
}

}  // namespace
}  // namespace ingot
