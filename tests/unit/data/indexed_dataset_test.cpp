#include "data/tokens/indexed_dataset.h"

#include <array>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>

#include "core/error.h"
#include "core/files.h"
#include "gpt_golden.h"

namespace lockstep::data {
namespace {

using nlohmann::json;
using tests::golden_gpt;

/// Documents of sequences of tokens that every golden pair of files holds (int8: modulo 128).
json golden_documents() { return read_golden_lines(golden_gpt("files.jsonl.gz")).at(0); }

constexpr std::pair<const char*, TokenType> kTypes[] = {{"uint8", TokenType::kU8},    {"int8", TokenType::kI8},
                                                        {"int16", TokenType::kI16},   {"int32", TokenType::kI32},
                                                        {"int64", TokenType::kI64},   {"float64", TokenType::kF64},
                                                        {"float32", TokenType::kF32}, {"uint16", TokenType::kU16}};

std::vector<int32_t> tokens_of(const json& sequence, TokenType type) {
  auto tokens = sequence.get<std::vector<int32_t>>();
  for (int32_t& token : tokens) token = type == TokenType::kI8 ? token % 128 : token;
  return tokens;
}

TEST(IndexedDataset, ReadsWhatMegatronWroteInEveryType) {
  const json documents = golden_documents();
  for (const auto& [name, type] : kTypes) {
    const IndexedDataset files(golden_gpt(std::string(name) + (type == TokenType::kI32 ? ".idx" : "")));
    EXPECT_EQ(files.type(), type);
    ASSERT_EQ(files.num_documents(), static_cast<int64_t>(documents.size())) << name;
    int64_t sequence = 0, num_tokens = 0;
    for (int64_t document = 0; document < files.num_documents(); ++document) {
      EXPECT_EQ(files.document_begin(document), sequence) << name;
      for (const json& want : documents.at(static_cast<size_t>(document))) {
        const std::vector<int32_t> tokens = tokens_of(want, type);
        std::vector<int32_t> got(static_cast<size_t>(files.length(sequence)));
        files.read(sequence, 0, got, 200);
        ASSERT_EQ(got, tokens) << name << " sequence " << sequence;
        if (got.size() > 3) {
          files.read(sequence, 2, std::span(got).first(2), 200);
          EXPECT_EQ(got[1], tokens[3]);
        }
        num_tokens += static_cast<int64_t>(tokens.size());
        ++sequence;
      }
    }
    EXPECT_EQ(files.num_sequences(), sequence) << name;
    EXPECT_EQ(files.num_tokens(), num_tokens) << name;
    EXPECT_GT(num_tokens, 50) << name;
  }
}

TEST(IndexedDataset, WritesTheBytesThatMegatronWrites) {
  const json documents = golden_documents();
  core::TempDir folder;
  for (const auto& [name, type] : kTypes) {
    if (type == TokenType::kF32 || type == TokenType::kF64) continue;
    const auto prefix = folder.path() / name;
    IndexedDatasetWriter writer(prefix, type);
    for (const json& document : documents) {
      for (const json& sequence : document) writer.add_sequence(tokens_of(sequence, type));
      writer.end_document();
    }
    EXPECT_FALSE(std::filesystem::exists(prefix.string() + ".bin"));
    writer.finish();
    for (const char* ending : {".bin", ".idx"})
      EXPECT_EQ(core::read_file(prefix.string() + ending), core::read_file(golden_gpt(name) + ending))
          << name << ending;
  }
}

TEST(IndexedDataset, WriterRefusesIdsThatDoNotFit) {
  core::TempDir folder;
  IndexedDatasetWriter writer(folder.path() / "x", TokenType::kU16);
  EXPECT_THROW(writer.add_sequence(std::vector<int32_t>{65536}), DataError);
  EXPECT_THROW(writer.add_sequence(std::vector<int32_t>{-1}), DataError);
  EXPECT_EQ(token_type_for(65499), TokenType::kU16);
  EXPECT_EQ(token_type_for(65500), TokenType::kI32);
}

TEST(IndexedDataset, EmptyCorporaOpen) {
  core::TempDir folder;
  IndexedDatasetWriter(folder.path() / "x", TokenType::kI32).finish();
  const IndexedDataset files(folder.path() / "x");
  EXPECT_EQ(files.num_documents(), 0);
  EXPECT_EQ(files.num_tokens(), 0);
}

TEST(IndexedDataset, NamesTokensOutsideTheVocabulary) {
  const IndexedDataset files(golden_gpt("int32"));
  std::vector<int32_t> tokens(static_cast<size_t>(files.length(0)));
  try {
    for (int64_t i = 0; i < files.num_sequences(); ++i) {
      tokens.resize(static_cast<size_t>(files.length(i)));
      files.read(i, 0, tokens, 150);
    }
    ADD_FAILURE() << "no token from 150 on";
  } catch (const DataError& error) {
    EXPECT_NE(error.text().find("expected 0 to 149"), std::string::npos) << error.text();
    EXPECT_NE(error.text().find("int32.bin"), std::string::npos) << error.text();
  }
}

/// A pair of files that can be damaged.
class DamagedFiles {
 public:
  DamagedFiles()
      : index_(core::read_file(golden_gpt("uint16.idx"))), tokens_(core::read_file(golden_gpt("uint16.bin"))) {}
  std::string& index() { return index_; }
  std::string& tokens() { return tokens_; }
  template <typename T> DamagedFiles& put(size_t at, T value) {
    std::memcpy(index_.data() + at, &value, sizeof value);
    return *this;
  }
  /// The refusal, or "accepted".
  std::string message() const {
    std::ofstream(folder_->path() / "x.idx", std::ios::binary) << index_;  // thousands of times, so without fsync
    std::ofstream(folder_->path() / "x.bin", std::ios::binary) << tokens_;
    try {
      const IndexedDataset files(folder_->path() / "x");
      std::vector<int32_t> ids;
      for (int64_t i = 0; i < files.num_sequences(); ++i) {
        ids.resize(static_cast<size_t>(files.length(i)));
        files.read(i, 0, ids, 1 << 20);
      }
    } catch (const DataError& error) {
      return error.text();
    }
    return "accepted";
  }
  size_t num_sequences() const { return static_cast<unsigned char>(index_[18]); }

 private:
  std::string index_, tokens_;
  std::shared_ptr<core::TempDir> folder_ = std::make_shared<core::TempDir>();
};

TEST(IndexedDataset, NamesEveryDamagedField) {
  ASSERT_EQ(DamagedFiles().message(), "accepted");
  const size_t n = DamagedFiles().num_sequences(), lengths = 34, pointers = 34 + 4 * n, documents = 34 + 12 * n;
  const auto expect = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_NE(message.find("x.idx"), std::string::npos) << message;
  };
  expect(DamagedFiles().put(0, 'X').message(), "does not begin with MMIDIDX");
  expect(DamagedFiles().put(0, std::array<char, 8>{'T', 'N', 'T', 'I', 'D', 'X', 0, 0}).message(), "old format");
  expect(DamagedFiles().put(9, uint64_t{2}).message(), "version=2, expected 1");
  expect(DamagedFiles().put(17, uint8_t{0}).message(), "code=0");
  expect(DamagedFiles().put(17, uint8_t{9}).message(), "code=9");
  expect(DamagedFiles().put(18, uint64_t{n + 1}).message(), "bytes=");
  expect(DamagedFiles().put(18, std::numeric_limits<uint64_t>::max()).message(), "promises");
  expect(DamagedFiles().put(26, std::numeric_limits<uint64_t>::max() / 8).message(), "promises");
  expect(DamagedFiles().put(26, uint64_t{0}).message(), "promises");
  expect(DamagedFiles().put(lengths + 8, int32_t{-1}).message(), "sequence 2 has length=-1");
  expect(DamagedFiles().put(lengths, int32_t{500}).message(), "sequence 1 begins at byte");
  expect(DamagedFiles().put(pointers, int64_t{2}).message(), "sequence 0 begins at byte 2");
  expect(DamagedFiles().put(pointers + 24, int64_t{-8}).message(), "sequence 3 begins at byte -8");
  expect(DamagedFiles().put(documents, int64_t{1}).message(), "document 0 begins at sequence 1");
  expect(DamagedFiles().put(documents + 16, int64_t{0}).message(), "document 2 begins at sequence 0");
  expect(DamagedFiles().put(documents + 8, static_cast<int64_t>(n) + 9).message(), "document 1 begins");
  DamagedFiles cut;
  cut.index().resize(20);
  expect(cut.message(), "cut: bytes=20");
  DamagedFiles longer;
  longer.index() += "abc";
  expect(longer.message(), "bytes=");
  DamagedFiles shorter;
  shorter.tokens().pop_back();
  EXPECT_NE(shorter.message().find("the file is cut"), std::string::npos) << shorter.message();
  DamagedFiles swapped;
  swapped.tokens() += "xx";
  EXPECT_NE(swapped.message().find("same corpus"), std::string::npos) << swapped.message();
  DamagedFiles modes;  // a multimodal index carries one byte more per sequence
  modes.index() += std::string(n, '\1');
  EXPECT_EQ(modes.message(), "accepted");
  EXPECT_THROW(IndexedDataset("/nowhere/x"), UsageError);
}

TEST(IndexedDataset, RandomDamageNeverCrashes) {
  std::mt19937 random(9);
  size_t num_refused = 0;
  for (int round = 0; round < 3000; ++round) {
    DamagedFiles files;
    const uint32_t changes = 1 + random() % 3;
    for (uint32_t i = 0; i < changes; ++i) files.index()[random() % files.index().size()] = static_cast<char>(random());
    if (random() % 8 == 0) files.index().resize(random() % files.index().size());
    num_refused += files.message() != "accepted";
  }
  EXPECT_GT(num_refused, 2000u);
}

}  // namespace
}  // namespace lockstep::data
