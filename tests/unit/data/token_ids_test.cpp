#include "data/tokens/token_ids.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/files.h"
#include "data/tokens/gpt_dataset.h"
#include "support/error_text.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;
using tests::holds;

/// Documents of one to three sequences of `length` tokens 1, 2, 3, ...
fs::path write_corpus(const fs::path& folder, TokenType type, int num_documents, int length) {
  const fs::path prefix = folder / "text";
  IndexedDatasetWriter writer(prefix, type);
  std::vector<int32_t> ids(static_cast<size_t>(length));
  for (int i = 0; i < length; ++i) ids[static_cast<size_t>(i)] = 1 + i % 100;
  for (int document = 0; document < num_documents; ++document) {
    for (int sequence = 0; sequence <= document % 3; ++sequence) writer.add_sequence(ids);
    writer.end_document();
  }
  writer.finish();
  return prefix;
}

template <typename T> void put(const fs::path& prefix, int64_t token, T value) {
  std::fstream file(prefix.string() + ".bin", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(token * static_cast<int64_t>(sizeof(T)));
  file.write(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string check_text(const fs::path& prefix, int64_t vocab_size, const TokenIdCheck& check = {}) {
  try {
    check_token_ids(IndexedDataset(prefix), vocab_size, check);
  } catch (const DataError& error) {
    return error.text();
  }
  return "good";
}

TEST(TokenIds, TheLeastAndTheMostAreFound) {
  const core::TempDir folder;
  const fs::path prefix = write_corpus(folder.path(), TokenType::kI32, 5, 40);
  put<int32_t>(prefix, 77, 123);
  const TokenIds ids = scan_token_ids(IndexedDataset(prefix), 10);
  EXPECT_EQ(ids.least, 1);
  EXPECT_EQ(ids.least_at, 0);
  EXPECT_EQ(ids.most, 123);
  EXPECT_EQ(ids.most_at, 77);
  EXPECT_EQ(ids.num_read, (1 + 2 + 3 + 1 + 2) * 40);
}

TEST(TokenIds, WhatIsNoIdIsRefusedWithItsPlace) {
  const core::TempDir folder;
  const fs::path prefix = write_corpus(folder.path(), TokenType::kI32, 5, 40);
  EXPECT_EQ(check_text(prefix, 41), "good");
  EXPECT_TRUE(holds(check_text(prefix, 40), "token 39 of sequence 0 in document 0 is 40, expected 0 to 39"))
      << check_text(prefix, 40);
  put<int32_t>(prefix, 4 * 40 + 3, 5000);  // sequences 0 | 1 2 | 3 4 5 | ...
  EXPECT_TRUE(holds(check_text(prefix, 5000), "token 3 of sequence 4 in document 2 is 5000, expected 0 to 4999"))
      << check_text(prefix, 5000);
  EXPECT_EQ(check_text(prefix, 5001), "good");
  std::vector<int32_t> tokens(10);
  EXPECT_TRUE(holds(tests::message_of<DataError>([&] { IndexedDataset(prefix).read(4, 0, tokens, 5000); }),
                    "token 3 of sequence 4 in document 2 is 5000"))
      << "a sample";
  put<int32_t>(prefix, 8 * 40, -7);
  EXPECT_TRUE(holds(check_text(prefix, 5001), "token 0 of sequence 8 in document 4 is -7")) << check_text(prefix, 5001);
}

TEST(TokenIds, EveryTypeIsRead) {
  for (const TokenType type : {TokenType::kU8, TokenType::kI8, TokenType::kI16, TokenType::kI64, TokenType::kU16}) {
    const core::TempDir folder;
    const fs::path prefix = write_corpus(folder.path(), type, 3, 50);
    EXPECT_EQ(check_text(prefix, 51), "good") << token_type_name(type);
    EXPECT_TRUE(holds(check_text(prefix, 50), "is 50, expected 0 to 49")) << token_type_name(type);
  }
  const core::TempDir folder;
  const fs::path prefix = write_corpus(folder.path(), TokenType::kI64, 3, 50);
  put<int64_t>(prefix, 60, int64_t{1} << 40);
  EXPECT_TRUE(holds(check_text(prefix, 51), "is 1099511627776"));
}

TEST(TokenIds, AFileIsReadOnceWhileItStaysTheSame) {
  const core::TempDir folder;
  const fs::path prefix = write_corpus(folder.path(), TokenType::kI32, 5, 40), bin = prefix.string() + ".bin";
  const TokenIdCheck check{.cache = std::make_shared<ArrayCache>(folder.path() / "cache", true)};
  EXPECT_EQ(check_text(prefix, 100, check), "good");
  const auto time = fs::last_write_time(bin);
  put<int32_t>(prefix, 33, 1000);
  fs::last_write_time(bin, time);
  EXPECT_EQ(check_text(prefix, 100, check), "good") << "not read again";
  EXPECT_TRUE(holds(check_text(prefix, 40, check), "token 39 of sequence 0")) << "remembered for any vocabulary";
  fs::last_write_time(bin, time + std::chrono::seconds(1));
  EXPECT_TRUE(holds(check_text(prefix, 100, check), "token 33 of sequence 0 in document 0 is 1000"))
      << check_text(prefix, 100, check);
}

TEST(TokenIds, WithoutTimeOneBlockIsRead) {
  const core::TempDir folder;
  const fs::path prefix = write_corpus(folder.path(), TokenType::kI32, 7, 500'000);  // 13 sequences, 26 MB
  const IndexedDataset files(prefix);
  EXPECT_EQ(scan_token_ids(files, -1).num_read, (8 << 20) / 4);
  EXPECT_EQ(scan_token_ids(files, 60).num_read, files.num_tokens());
}

TEST(TokenIds, OnlyTheFirstRankReadsWhereNothingIsRemembered) {
  const core::TempDir folder;
  const fs::path prefix = write_corpus(folder.path(), TokenType::kI32, 5, 40);
  EXPECT_EQ(check_text(prefix, 10, {.is_first_rank = false}), "good") << "left to rank 0";
  EXPECT_TRUE(holds(check_text(prefix, 10, {.is_first_rank = true}), "expected 0 to 9"));
}

TEST(TokenIds, ATypeWithoutOtherIdsIsNotRead) {
  const core::TempDir folder;
  const fs::path prefix = write_corpus(folder.path(), TokenType::kU16, 5, 40);
  const TokenIdCheck check{.cache = std::make_shared<ArrayCache>(folder.path() / "cache", true)};
  EXPECT_EQ(check_text(prefix, 65536, check), "good");
  EXPECT_FALSE(fs::exists(folder.path() / "cache"));
  EXPECT_EQ(check_text(prefix, 65535, check), "good");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path() / "cache"), fs::directory_iterator()), 2)
      << "the lock and what was found";
}

TEST(TokenIds, OpeningSamplesTestsThem) {
  const core::TempDir folder;
  const fs::path prefix = write_corpus(folder.path(), TokenType::kI32, 20, 40);
  GptDataConfig config{.data_path = {prefix.string()},
                       .split = "1,1,0",
                       .sequence_length = 8,
                       .num_samples = {10, 10, 0},
                       .vocab_size = 40};
  EXPECT_THROW(open_gpt_samples(config, Split::kTrain), DataError);
  config.vocab_size = 41;
  EXPECT_NE(open_gpt_samples(config, Split::kTrain), nullptr);
  config.data_path.clear();
  config.path_of_split[1] = {prefix.string()};
  config.vocab_size = 40;
  EXPECT_THROW(open_gpt_samples(config, Split::kValid), DataError);
}

}  // namespace
}  // namespace lockstep::data
