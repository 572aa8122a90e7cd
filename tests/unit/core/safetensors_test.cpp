#include "core/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "core/error.h"
#include "core/hash.h"
#include "core/rng.h"

namespace lockstep::core {
namespace {

struct Written {
  TempDir dir;
  std::filesystem::path path = dir.path() / "w.safetensors";
  std::vector<float> weight = {1, 2, 3, 4, 5, 6};
  std::vector<int64_t> step = {7};
  Written() {
    const std::vector<SafetensorsEntry> entries = {{"a.weight", "F32", {2, 3}, std::as_bytes(std::span(weight))},
                                                   {"empty", "BF16", {0, 4}, {}},
                                                   {"step", "I64", {}, std::as_bytes(std::span(step))}};
    write_safetensors(path, entries, {{"format", "pt"}});
  }
};

TEST(Safetensors, RoundTrip) {
  const Written written;
  const SafetensorsFile file(written.path);
  ASSERT_EQ(file.entries().size(), 3u);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.at("a.weight").shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(std::memcmp(file.at("a.weight").bytes.data(), written.weight.data(), 24), 0);
  EXPECT_EQ(file.at("step").shape.size(), 0u);
  EXPECT_EQ(file.find("absent"), nullptr);
}

TEST(Safetensors, TheHashOfWhatIsWrittenIsThatOfTheFile) {
  const TempDir dir;
  const auto path = dir.path() / "w.safetensors";
  const std::vector<float> large((size_t{9} << 20) / 4 + 3, 0.5f);  // hashed in pieces of 4 MiB
  const auto [bytes, xxh3] =
      write_safetensors(path, std::vector<SafetensorsEntry>{
                                  {"w", "F32", {static_cast<int64_t>(large.size())}, std::as_bytes(std::span(large))}});
  const std::string text = read_file(path);
  EXPECT_EQ(bytes, std::ssize(text));
  EXPECT_EQ(xxh3, xxh3_hex(text));
}

TEST(Safetensors, BytesInPiecesMakeTheSameFile) {
  const Written whole;
  const auto bytes = std::as_bytes(std::span(whole.weight));
  const std::vector<ScatteredEntry> entries = {
      {"a.weight", "F32", {2, 3}, {bytes.first(4), bytes.subspan(4, 12), bytes.subspan(16)}},
      {"empty", "BF16", {0, 4}},
      {"step", "I64", {}, {std::as_bytes(std::span(whole.step))}}};
  const auto path = whole.dir.path() / "pieces.safetensors";
  write_safetensors(path, entries, {{"format", "pt"}});
  EXPECT_EQ(read_file(path), read_file(whole.path));
}

TEST(Safetensors, AsManyTensorsAsAHeaderCanHold) {  // looking for each among all before it would take minutes
  const TempDir dir;
  std::vector<SafetensorsEntry> entries;
  for (int i = 0; i < 300'000; ++i) entries.push_back({fmt::format("layer.{}.weight", i), "F32", {0}, {}});
  write_safetensors(dir.path() / "w.safetensors", entries);
  EXPECT_EQ(SafetensorsFile(dir.path() / "w.safetensors").entries().size(), entries.size());
}

TEST(Safetensors, AbsentTensorNamesTheNearest) {
  const Written written;
  const SafetensorsFile file(written.path);
  try {
    file.at("a.weigth");
    FAIL();
  } catch (const DataError& error) {
    EXPECT_NE(error.hint().find("a.weight"), std::string::npos);
  }
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const Written written;
  const std::string whole = read_file(written.path);
  const auto cut = written.dir.path() / "cut.safetensors";
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    std::ofstream(cut, std::ios::binary | std::ios::trunc).write(whole.data(), static_cast<std::streamsize>(bytes));
    EXPECT_THROW(SafetensorsFile{cut}, Error) << bytes;
  }
}

TEST(Safetensors, MutatedHeadersNeverCrash) {
  const Written written;
  const std::string whole = read_file(written.path);
  const auto mutant = written.dir.path() / "mutant.safetensors";
  CounterRng rng(5);
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = whole;
    for (int flips = 0; flips < 3; ++flips) bytes[rng.below(bytes.size())] = static_cast<char>(rng.below(256));
    std::ofstream(mutant, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    try {
      const SafetensorsFile file(mutant);
      size_t touched = 0;
      for (const auto& entry : file.entries())
        for (const std::byte value : entry.bytes) touched += static_cast<size_t>(value);
      EXPECT_LE(touched, 255 * bytes.size()) << "entries lie in the file and do not overlap";
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 500);
}

TEST(AtomicFile, AbandonedWriteLeavesTheOldContent) {
  const TempDir dir;
  const auto path = dir.path() / "f";
  write_file_atomic(path, "old");
  {
    AtomicFile file(path);
    file.write(std::as_bytes(std::span(std::string_view("new"))));
  }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1);
}

TEST(AtomicFile, FullDiskIsAnEnvironmentError) {
  try {
    write_file_atomic("/dev/full/x", "data");
    FAIL();
  } catch (const EnvironmentError& error) {
    EXPECT_NE(std::string(error.what()).find("/dev/full/x"), std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep::core
