#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "core/error.h"
#include "core/rng.h"
#include "data/shards/shard_reader.h"
#include "data/shards/tar_reader.h"
#include "tar_bytes.h"

namespace lockstep::data {
namespace {

using lockstep::tests::sample_tar;
using lockstep::tests::TarBytes;
using lockstep::tests::write_file;

/// Serves bytes from memory, a few at a time, so that every border is crossed.
class MemoryStream : public ByteStream {
 public:
  MemoryStream(std::string bytes, size_t portion, bool can_skip)
      : bytes_(std::move(bytes)), portion_(portion), can_skip_(can_skip) {}
  size_t read(std::span<std::byte> buffer) override {
    const size_t part = at_ >= bytes_.size() ? 0 : std::min({buffer.size(), portion_, bytes_.size() - at_});
    std::memcpy(buffer.data(), bytes_.data() + std::min(at_, bytes_.size()), part);
    at_ += part;
    return part;
  }
  bool skip(uint64_t count) override {
    if (can_skip_) at_ += count;
    return can_skip_;
  }
  std::optional<uint64_t> size() const override {
    return can_skip_ ? std::optional<uint64_t>(bytes_.size()) : std::nullopt;
  }
  void finish() override {}

 private:
  std::string bytes_;
  size_t at_ = 0, portion_;
  bool can_skip_;
};

std::vector<std::pair<std::string, std::string>> read_members(const std::string& bytes, size_t portion = 1 << 20,
                                                              bool can_skip = true) {
  TarReader reader(std::make_unique<MemoryStream>(bytes, portion, can_skip), "x.tar");
  std::vector<std::pair<std::string, std::string>> members;
  while (auto entry = reader.next())
    if (entry->type == '0') members.emplace_back(entry->name, reader.read_data());
  return members;
}

void expect_damaged(const std::string& bytes, const std::string& phrase) {
  try {
    read_members(bytes);
    FAIL() << "read without an error; expected: " << phrase;
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("x.tar"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(phrase), std::string::npos) << error.what();
  }
}

TEST(Tar, SplitsNamesAtTheFirstDotOfTheBaseName) {
  using Pair = std::pair<std::string, std::string>;
  EXPECT_EQ(split_member_name("a.seg.png"), Pair("a", "seg.png"));
  EXPECT_EQ(split_member_name("dir.v1/a.jpg"), Pair("dir.v1/a", "jpg"));
  EXPECT_EQ(split_member_name("./a.jpg"), Pair("./a", "jpg"));
  EXPECT_EQ(split_member_name("A.JPG"), Pair("A", "jpg"));
  EXPECT_EQ(split_member_name("a."), Pair("a", ""));
  EXPECT_EQ(split_member_name("a..jpg"), Pair("a", ".jpg"));
  EXPECT_EQ(split_member_name("a/../b.jpg"), Pair("a/../b", "jpg"));
  EXPECT_EQ(split_member_name("/abs/x.jpg"), Pair("/abs/x", "jpg"));
  for (const char* name : {".hidden", "noext", "dir.x/noext", "dir/.hidden", ""})
    EXPECT_FALSE(split_member_name(name)) << name;
}

TEST(Tar, ReadsEveryKindOfName) {
  const std::string deep(120, 'd'), base(90, 'n');
  std::string bytes = TarBytes::header(base, 3, '0', deep) + TarBytes::padded("one");
  bytes += TarBytes::long_name(std::string(300, 'L') + ".jpg") + TarBytes::header("short", 3, '0', "", true) +
           TarBytes::padded("two");
  bytes += TarBytes::pax(TarBytes::record("mtime", "1.5") + TarBytes::record("path", "p/\xc3\xa9.jpg") +
                         TarBytes::record("size", "5")) +
           TarBytes::header("ignored", 0) + TarBytes::padded("three");
  bytes += TarBytes::pax(TarBytes::record("comment", "abc"), 'g') + TarBytes::member("empty.txt", "");
  std::string big = TarBytes::header("base256.txt", 0);
  big.replace(124, 12, std::string("\x80\0\0\0\0\0\0\0\0\0\0\x04", 12));
  bytes += TarBytes::with_checksum(big) + TarBytes::padded("four") + std::string(10240, '\0');
  const std::vector<std::pair<std::string, std::string>> expected = {{deep + "/" + base, "one"},
                                                                     {std::string(300, 'L') + ".jpg", "two"},
                                                                     {"p/\xc3\xa9.jpg", "three"},
                                                                     {"empty.txt", ""},
                                                                     {"base256.txt", "four"}};
  for (const size_t portion : {size_t{1}, size_t{511}, size_t{512}, size_t{1 << 20}})
    for (const bool can_skip : {false, true}) EXPECT_EQ(read_members(bytes, portion, can_skip), expected) << portion;
}

TEST(Tar, RefusesDamage) {
  const std::string good = sample_tar("s", 4);
  EXPECT_EQ(read_members(good).size(), 8u);
  expect_damaged("", "ends here");
  expect_damaged(good.substr(0, good.size() - 1024), "ends here");
  expect_damaged(good.substr(0, good.size() - 512), "ends here");
  expect_damaged(good + good, "behind the end mark");
  expect_damaged(good + std::string(5000, '\0') + "x", "behind the end mark");
  expect_damaged(good.substr(0, 1024) + std::string(512, '\0') + good.substr(1024), "single zero block");
  expect_damaged(TarBytes::header("a.bin", 5, 'S'), "sparse");
  expect_damaged(TarBytes::pax(TarBytes::record("GNU.sparse.major", "1")), "sparse");
  expect_damaged(TarBytes::header("a.bin", 5, 'M'), "multi-volume");
  expect_damaged(TarBytes::pax("99 path=x\n"), "pax record");
  expect_damaged(TarBytes::pax(TarBytes::record("size", "-4")), "pax size");
  expect_damaged(TarBytes::header("L", 1u << 24, 'L'), "extended header");
  expect_damaged(TarBytes::header("x.bin", 0777777777777), "a member of");
  expect_damaged(TarBytes::header("x.bin", 50000), "ends here");
  expect_damaged("\x1f\x8b\x08" + std::string(600, 'a'), "gzip");
  expect_damaged(TarBytes::long_name("x.jpg") + TarBytes::end(), "without its member");
}

TEST(Tar, ATableIsNoDamagedShard) {
  const std::string table = "filepath,title\n" + std::string(1000, 'x');
  try {
    TarReader(std::make_unique<MemoryStream>(table, size_t{512}, false), "pairs.csv").next();
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_NE(error.text().find("'pairs.csv' is a table by its name, no shard"), std::string::npos) << error.text();
  }
}

TEST(Tar, EveryCutIsAnError) {
  const std::string good = sample_tar("s", 3);
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_THROW(read_members(good.substr(0, length)), DataError) << "bytes=" << length;
}

TEST(Tar, EveryFlippedHeaderBitIsAnErrorOrTheSame) {
  const std::string good = sample_tar("s", 2);
  const auto expected = read_members(good);
  int num_refused = 0;
  for (size_t bit = 0; bit < 512 * 8; ++bit) {  // the first header
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    try {
      EXPECT_EQ(read_members(bad), expected) << "bit " << bit;
    } catch (const DataError&) {
      ++num_refused;
    }
  }
  EXPECT_GT(num_refused, 4000);
}

TEST(Tar, MutationsNeverCrash) {
  std::string seed = TarBytes::long_name(std::string(200, 'L') + ".jpg") + TarBytes::member("short", "two") +
                     TarBytes::pax(TarBytes::record("path", "p.jpg") + TarBytes::record("size", "5")) +
                     TarBytes::member("i", "three") + sample_tar("s", 2);
  core::CounterRng rng(11);
  int num_refused = 0;
  for (int i = 0; i < 6000; ++i) {
    std::string bytes = seed;
    for (uint64_t n = 1 + rng.below(4); n > 0; --n) bytes[rng.below(bytes.size())] = static_cast<char>(rng.below(256));
    const size_t block = rng.below(bytes.size() / 512) * 512;
    if (rng.below(2) == 0) {  // past the checksum: a mutated header that claims to be whole
      bytes[block + 124 + rng.below(12)] = static_cast<char>(rng.below(256));
      bytes[block + 156] = "01257LKxgSMV"[rng.below(12)];
      bytes.replace(block, 512, TarBytes::with_checksum(bytes.substr(block, 512)));
    }
    if (rng.below(4) == 0) bytes.resize(rng.below(bytes.size()));
    try {
      read_members(bytes, 1 + rng.below(3000), rng.below(2) == 0);
    } catch (const DataError&) {
      ++num_refused;
    }
  }
  EXPECT_GT(num_refused, 2000);
}

TEST(Samples, GroupsConsecutiveMembersByKey) {
  core::TempDir folder;
  std::string bytes = TarBytes::member("__meta__/info.json", "{}") + TarBytes::header("dir/", 0, '5');
  bytes += TarBytes::member("a.jpg", "A") + TarBytes::member("a.TXT", "ta") + TarBytes::member("b.jpg", "B") +
           TarBytes::header("b.txt", 0, '1') + TarBytes::member("README", "r") + TarBytes::member("b.jpg", "B2") +
           TarBytes::member("b.txt", "tb2") + TarBytes::member("a.txt", "again") + TarBytes::header("l.jpg", 0, '2') +
           TarBytes::member("dir/.hidden", "h") + TarBytes::end();
  const std::string shard = write_file(folder.path() / "s.tar", bytes);
  TarSampleReader reader(shard, 0, nullptr, nullptr);
  std::vector<std::string> seen;
  std::vector<uint64_t> offsets;
  while (auto sample = reader.next(true)) {
    std::string text = sample->key;
    for (const Member& member : sample->members) text += fmt::format(" {}={}", member.extension, member.bytes);
    seen.push_back(text);
    offsets.push_back(sample->offset);
  }
  EXPECT_EQ(seen, (std::vector<std::string>{"a jpg=A txt=ta", "b jpg=B", "b jpg=B2 txt=tb2", "a txt=again"}));
  const std::map<std::string, int64_t> skipped = {{"note of the archive (__name__)", 1},
                                                  {"hard link (holds no data of its own)", 1},
                                                  {"symbolic link", 1},
                                                  {"file without extension, or hidden", 2}};
  EXPECT_EQ(reader.skipped(), skipped);
  for (size_t i = 0; i < offsets.size(); ++i) {  // a reader opened at a sample sees the rest
    TarSampleReader later(shard, offsets[i], nullptr, nullptr);
    EXPECT_EQ(later.next(false)->key, seen[i].substr(0, 1));
    size_t rest = 1;
    while (later.next(false)) ++rest;
    EXPECT_EQ(rest, offsets.size() - i);
    TarSampleReader behind(shard, later.next_offset(), nullptr, nullptr);
    EXPECT_FALSE(behind.next(true));
  }
}

TEST(Samples, TooManyMembersOfOneKeyAreRefused) {
  core::TempDir folder;
  std::string bytes;
  for (int i = 0; i < 1100; ++i) bytes += TarBytes::member(fmt::format("a.{}", i), "x");
  TarSampleReader reader(write_file(folder.path() / "s.tar", bytes + TarBytes::end()), 0, nullptr, nullptr);
  EXPECT_THROW(reader.next(false), DataError);
}

TEST(Samples, ReadsCommands) {
  core::TempDir folder;
  const std::string shard = write_file(folder.path() / "s.tar", sample_tar("s", 3));
  TarSampleReader reader("pipe:cat '" + shard + "'", 0, nullptr, nullptr);
  EXPECT_EQ(reader.next(true)->key, "00000");
  EXPECT_EQ(reader.next(false)->key, "00001");
  EXPECT_EQ(reader.next(true)->members.at(1).bytes, "caption s 00002");
  EXPECT_FALSE(reader.next(true));
}

TEST(Samples, AFailingCommandIsNamedWithItsStatus) {
  core::TempDir folder;
  const std::string shard = write_file(folder.path() / "s.tar", sample_tar("s", 3));
  for (const std::string& command :
       {std::string("pipe:exit 7"), "pipe:cat '" + shard + "'; exit 7", "pipe:head -c 700 '" + shard + "'; exit 7"}) {
    try {
      TarSampleReader reader(command, 0, nullptr, nullptr);
      while (reader.next(true)) {
      }
      FAIL() << command;
    } catch (const DataError& error) {
      EXPECT_NE(std::string(error.what()).find(command), std::string::npos);
      EXPECT_NE(std::string(error.what()).find("exit status 7"), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(TarSampleReader("pipe:head -c 700 '" + shard + "'", 0, nullptr, nullptr).next(true), DataError);
}

TEST(Samples, AHangingCommandIsInterruptedAndEnded) {
  std::atomic<bool> stop{false};
  TarSampleReader reader("pipe:sleep 1000 & wait", 0, nullptr, &stop);
  std::jthread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stop = true;
  });
  EXPECT_THROW(reader.next(true), DataError);
}

TEST(Samples, MissingShardsAreNamed) {
  EXPECT_THROW(TarSampleReader("/nowhere/x.tar", 0, nullptr, nullptr), DataError);
  EXPECT_THROW(TarSampleReader("/", 0, nullptr, nullptr), DataError);
}

}  // namespace
}  // namespace lockstep::data
