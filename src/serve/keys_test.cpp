#include "serve/keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>

#include "base/error.h"

namespace ingot {
namespace {

HttpHead head_with(std::string name, std::string value) {
  HttpHead head;
  head.headers = {{std::move(name), std::move(value)}};
  return head;
}
HttpHead bearer(const std::string& key) { return head_with("authorization", "Bearer " + key); }

class KeysFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "ingot-keys-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(directory); }
  std::string path() const { return directory + "/keys"; }
  // By rename, as editors and deployments do it: never half a file.
  void write(const std::string& text) {
    {
      std::ofstream file(path() + ".new");
      file << text;
    }
    std::filesystem::rename(path() + ".new", path());
  }
  std::string refusal(const std::string& text) {
    write(text);
    try {
      Keys keys({.file = path()});
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }
  std::string directory;
};

TEST_F(KeysFile, FindsTheNameOfAKeyInEitherHeader) {
  write("# people\nalice alice-key-1\nbob   bob-key-12   concurrency=2 tpm=600 # both\n\n");
  const Keys keys({.file = path()});
  EXPECT_TRUE(keys.required());
  EXPECT_EQ(keys.name_of(bearer("alice-key-1")), "alice");
  EXPECT_EQ(keys.name_of(head_with("authorization", "bearer bob-key-12")), "bob");
  EXPECT_EQ(keys.name_of(head_with("x-api-key", "bob-key-12")), "bob");
  for (const char* wrong : {"alice-key-", "alice-key-11", "", "alice", "# people"}) {
    EXPECT_EQ(keys.name_of(bearer(wrong)), std::nullopt) << wrong;
  }
  EXPECT_EQ(keys.name_of(head_with("authorization", "alice-key-1")), std::nullopt);
  EXPECT_EQ(keys.name_of({}), std::nullopt);
}

TEST_F(KeysFile, WrongFilesAreRefusedByLineWithoutTheKey) {
  EXPECT_NE(refusal("alice\n").find("line 1"), std::string::npos);
  EXPECT_NE(refusal("a akey-akey\nb short\n").find("line 2"), std::string::npos);
  EXPECT_NE(refusal("a akey-akey speed=3\n").find("line 1"), std::string::npos);
  EXPECT_NE(refusal("a akey-akey tpm=0\n").find("tpm=0"), std::string::npos);
  EXPECT_NE(refusal("a akey-akey tpm=5x\n").find("tpm=5x"), std::string::npos);
  EXPECT_NE(refusal("a/b akey-akey\n").find("line 1"), std::string::npos);
  EXPECT_NE(refusal("a akey-akey tpm=5\na bkey-bkey tpm=6\n").find("other limits"), std::string::npos);
  EXPECT_NE(refusal("# nobody\n").find("no key"), std::string::npos);
  EXPECT_EQ(refusal("a secret-of-a speed=3\n").find("secret-of-a"), std::string::npos);
  EXPECT_THROW(Keys({.file = directory + "/missing"}), Error);
}

TEST_F(KeysFile, AChangedFileReplacesTheKeysAndAWrongOneDoesNot) {
  write("alice alice-key-1\n");
  Keys keys({.file = path()});
  EXPECT_FALSE(keys.reload());
  write("alice alice-key-2\ncarol carol-key-3\n");
  EXPECT_TRUE(keys.reload());
  EXPECT_EQ(keys.name_of(bearer("alice-key-1")), std::nullopt);
  EXPECT_EQ(keys.name_of(bearer("carol-key-3")), "carol");
  write("alice\n");
  EXPECT_THROW(keys.reload(), Error);
  EXPECT_FALSE(keys.reload());
  EXPECT_EQ(keys.name_of(bearer("carol-key-3")), "carol");
  std::filesystem::remove(path());
  EXPECT_THROW(keys.reload(), Error);
  EXPECT_EQ(keys.name_of(bearer("carol-key-3")), "carol");
}

TEST_F(KeysFile, LimitsTheRequestsOfOneKeyAtOnce) {
  write("a akey-akey concurrency=2\nb bkey-bkey\n");
  Keys keys({.file = path()});
  EXPECT_FALSE(keys.enter("a"));
  EXPECT_FALSE(keys.enter("a"));
  const std::optional<ApiError> third = keys.enter("a");
  ASSERT_TRUE(third);
  EXPECT_EQ(third->status, 429);
  EXPECT_GT(third->retry_after, 0);
  for (int i = 0; i < 50; ++i) EXPECT_FALSE(keys.enter("b"));
  keys.leave("a");
  EXPECT_FALSE(keys.enter("a"));
  EXPECT_EQ(keys.enter("nobody")->status, 401);
}

TEST_F(KeysFile, LimitsTheTokensOfAMinute) {
  write("a akey-akey tpm=60\n");
  double now = 1000;
  Keys keys({.file = path(), .now = [&] { return now; }});
  EXPECT_FALSE(keys.enter("a"));
  keys.charge("a", 90);  // an answer may cost more than was left
  const std::optional<ApiError> next = keys.enter("a");
  ASSERT_TRUE(next);
  EXPECT_EQ(next->status, 429);
  EXPECT_NEAR(next->retry_after, 31, 0.01);
  now += 30;
  EXPECT_TRUE(keys.enter("a"));
  now += 1;
  EXPECT_FALSE(keys.enter("a"));
  now += 1e6;  // what is not used is not saved beyond a minute's worth
  keys.charge("a", 60);
  EXPECT_TRUE(keys.enter("a"));
}

TEST_F(KeysFile, TwoKeysOfOneNameShareItsPlaces) {
  write("a old-key-1 concurrency=1\na new-key-2 concurrency=1\n");
  Keys keys({.file = path()});
  EXPECT_EQ(keys.name_of(bearer("old-key-1")), "a");
  EXPECT_EQ(keys.name_of(bearer("new-key-2")), "a");
  EXPECT_FALSE(keys.enter("a"));
  EXPECT_TRUE(keys.enter("a"));
}

// Welch's t of the time that two wrong keys take, one that shares all but its last byte with a right one and one that
// shares nothing, in random order. Both are put into the same head: where a text lies in memory changes its time by
// more than a comparison does. The slowest tenth is left out: that is the scheduler's.
double timing_t(const Keys& keys, const std::string& near, const std::string& far) {
  constexpr int kSamples = 100'000;
  std::mt19937 random(48);
  std::vector<double> times[2];
  HttpHead head = bearer(near);
  std::string& value = head.headers[0].second;
  const size_t key_at = value.size() - near.size();
  for (int i = 0; i < kSamples; ++i) {
    const size_t which = random() & 1;
    std::ranges::copy(which == 0 ? near : far, value.begin() + static_cast<std::ptrdiff_t>(key_at));
    const auto begin = std::chrono::steady_clock::now();
    const bool found = keys.name_of(head).has_value();
    times[which].push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count());
    EXPECT_FALSE(found);
  }
  double mean[2], variance[2];
  for (size_t which : {0, 1}) {
    std::vector<double>& all = times[which];
    std::ranges::sort(all);
    all.resize(all.size() * 9 / 10);
    mean[which] = std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
    variance[which] = 0;
    for (const double time : all) variance[which] += (time - mean[which]) * (time - mean[which]);
    variance[which] /= static_cast<double>(all.size()) * static_cast<double>(all.size() - 1);
  }
  return (mean[0] - mean[1]) / std::sqrt(variance[0] + variance[1]);
}

TEST(Keys, TimeTellsNothingOfHowMuchOfAKeyIsRight) {
  const std::string right(512, 'k');  // the longest that is taken
  const Keys keys({.keys = {right}});
  // A leak shows every time; a neighbour on the machine may disturb one run.
  double t = 0;
  for (int attempt = 0; attempt < 5; ++attempt) {
    t = timing_t(keys, right.substr(1) + "x", std::string(right.size(), 'x'));
    if (std::abs(t) < 4.5) break;
  }
  EXPECT_LT(std::abs(t), 4.5);
}

TEST(Keys, NoneAreNeededWhereNoneAreGiven) {
  const Keys keys;
  EXPECT_FALSE(keys.required());
  EXPECT_EQ(keys.name_of(bearer("anything")), std::nullopt);
}

}  // namespace
}  // namespace ingot
