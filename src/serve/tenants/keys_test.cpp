#include "serve/tenants/keys.h"

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
      Keys keys({.file = path(), .routes = {"/v1/models", "/v1/models/*"}});
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
  EXPECT_EQ(refusal("a akey-akey\na akey-akey\nb bkey-bkey\nc akey-akey\n"),
            "[keys] line 4: the key is that of 'a', too");
  EXPECT_NE(refusal("# nobody\n").find("no key"), std::string::npos);
  EXPECT_EQ(refusal("a secret-of-a speed=3\n").find("secret-of-a"), std::string::npos);
  for (const char* setting : {"weight=0", "weight=x", "weight=nan", "rpm=-1", "priority=101", "context=0", "models=",
                              "models=a,,b", "routes=v1", "routes=/v1/nothing", "admin=1", "tpm=", "concurrency=1e9"}) {
    EXPECT_NE(refusal(std::string("a akey-akey ") + setting + "\n").find("line 1"), std::string::npos) << setting;
  }
  EXPECT_THROW(Keys({.file = directory + "/missing"}), Error);
}

TEST_F(KeysFile, ALineHasEverythingThatATenantMay) {
  write(
      "a akey-akey weight=2.5 tpm=600 rpm=30 concurrency=4 context=2048 priority=-5 models=x,y/z routes=/v1/models/* "
      "admin\nb bkey-bkey\n");
  const Keys keys({.file = path(), .routes = {"/v1/models", "/v1/models/*", "/tokenize"}});
  const TenantRights expected{.weight = 2.5,
                              .tokens_per_minute = 600,
                              .requests_per_minute = 30,
                              .concurrency = 4,
                              .context = 2048,
                              .priority = -5,
                              .models = {"x", "y/z"},
                              .routes = {"/v1/models/*"},
                              .admin = true};
  const TenantRights a = *keys.find(bearer("akey-akey"))->tenant->rights();
  EXPECT_EQ(a, expected);
  EXPECT_TRUE(a.may_call("/v1/models/*"));
  EXPECT_FALSE(a.may_call("/v1/models"));
  EXPECT_FALSE(a.may_call("/tokenize"));
  // A line of an old file: no limit but those that everybody has.
  const TenantRights b = *keys.find(bearer("bkey-bkey"))->tenant->rights();
  EXPECT_EQ(b, TenantRights{});
  EXPECT_TRUE(b.may_call("/tokenize"));
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

TEST_F(KeysFile, TwoKeysOfOneNameShareItsPlaces) {
  write("a old-key-1 concurrency=1\na new-key-2 concurrency=1\n");
  Keys keys({.file = path()});
  const auto one = keys.find(bearer("old-key-1")), other = keys.find(bearer("new-key-2"));
  ASSERT_TRUE(one && other);
  EXPECT_EQ(one->tenant, other->tenant);
  EXPECT_FALSE(one->tenant->enter());
  EXPECT_TRUE(other->tenant->enter());
}

TEST_F(KeysFile, ARemovedKeyIsRevokedAndItsNeighboursAreNot) {
  write("a old-key-1 tpm=60\na new-key-2 tpm=60\nb bkey-bkey\n");
  double now = 0;
  Keys keys({.file = path(), .now = [&] { return now; }});
  const auto gone = keys.find(bearer("old-key-1")), stays = keys.find(bearer("new-key-2"));
  const auto moved = keys.find(bearer("bkey-bkey"));
  stays->tenant->charge(60);
  write("a new-key-2 tpm=60\nc bkey-bkey weight=2\n");
  EXPECT_TRUE(keys.reload());
  EXPECT_TRUE(gone->revoked);
  EXPECT_FALSE(stays->revoked);
  EXPECT_EQ(keys.find(bearer("new-key-2")), stays);
  EXPECT_TRUE(stays->tenant->refusal()) << "reading the file gives nobody new tokens";
  EXPECT_TRUE(moved->revoked) << "it is another tenant's now";
  EXPECT_EQ(keys.name_of(bearer("bkey-bkey")), "c");
  EXPECT_EQ(keys.find(bearer("bkey-bkey"))->tenant->rights()->weight, 2);
  // The other way round: a tenant's new limits count for keys that were found before.
  write("a new-key-2\n");
  EXPECT_TRUE(keys.reload());
  EXPECT_FALSE(stays->tenant->refusal());
}

TEST_F(KeysFile, AFileMayBeReadThoughItHasNotChanged) {
  write("alice alice-key-1\n");
  Keys keys({.file = path()});
  const auto key = keys.find(bearer("alice-key-1"));
  EXPECT_FALSE(keys.reload());
  EXPECT_TRUE(keys.reload(true));
  EXPECT_FALSE(key->revoked);
  EXPECT_EQ(keys.find(bearer("alice-key-1")), key);
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
