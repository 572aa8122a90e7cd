#include "infer/embedding_folder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "core/safetensors.h"
#include "infer/class_results.h"
#include "support/error_text.h"
#include "support/user_rights.h"

namespace lockstep::infer {
namespace {
namespace fs = std::filesystem;
using tests::holds;
using tests::message_of;

/// A .npy file of 24 bytes of data beside a .json with these keys.
fs::path npy_of(const fs::path& folder, const std::string& shape, const std::string& keys) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.append(118 - header.size(), ' ');
  const std::string start("\x93NUMPY\x01\x00\x76\x00", 10);
  core::write_file_atomic(folder / "a.image.npy", start + header + std::string(24, '\0'));
  core::write_file_atomic(folder / "a.json", "{\"keys\": " + keys + ", \"shard\": 5}");
  return folder / "a.json";
}

TEST(EmbeddingFile, ShapesThatTheFileDoesNotHoldAreRefused) {
  const core::TempDir folder;
  const EmbeddingFile good = read_embeddings(npy_of(folder.path(), "3, 2", R"(["a", "b", "c"])"), "image");
  EXPECT_EQ(good.rows_NE.sizes(), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(good.keys.size(), 3u);
  EXPECT_EQ(good.shard, "") << "a number names no shard";
  // Four bytes for each of 2^62 are 0 in 64 bits.
  for (const char* shape : {"3, 4611686018427387904", "3, 9223372036854775807", "9223372036854775807, 2", "4, 2"})
    EXPECT_TRUE(holds(message_of<DataError>([&] { read_embeddings(npy_of(folder.path(), shape, "[]"), "image"); }),
                      "are fewer than its shape"))
        << shape;
}

TEST(EmbeddingFile, AFolderThatCannotBeListedIsNoEmptyOne) {
  const core::TempDir folder;
  npy_of(folder.path(), "3, 2", R"(["a", "b", "c"])");
  const tests::UserRights user;
  const tests::Private closed(folder.path());
  if (!closed.is_refused()) GTEST_SKIP() << "no folder can be made that this user may not read";
  fs::permissions(folder.path(), fs::perms::owner_exec);  // what is in it can be looked at, and not listed
  const std::string refused = message_of<EnvironmentError>([&] { embedding_files(folder.path()); });
  EXPECT_TRUE(holds(refused, "cannot list the folder '" + folder.path().string() + "': Permission denied")) << refused;
}

TEST(EmbeddingFile, KeysThatAreNoTextsAreRefused) {
  const core::TempDir folder;
  for (const char* keys : {"5", "[1, 2, 3]", R"({"a": "b"})", "null", R"(["a", null, "c"])"})
    EXPECT_TRUE(holds(message_of<DataError>([&] { read_embeddings(npy_of(folder.path(), "3, 2", keys), "image"); }),
                      "keys are no list of texts"))
        << keys;
  const at::Tensor rows = at::zeros({1, 2});
  const std::vector<core::SafetensorsEntry> entries{
      {.name = "image", .dtype = "F32", .shape = {1, 2}, .bytes = std::as_bytes(std::span(rows.data_ptr<float>(), 2))}};
  const fs::path file = folder.path() / "rows.safetensors";
  core::write_safetensors(file, entries, {{"keys", "{\"0\": 1}"}});
  EXPECT_TRUE(holds(message_of<DataError>([&] { read_embeddings(file, "image"); }), "keys are no list of texts"));
}

TEST(EmbeddingFile, OfOtherEmbeddingsNamesThemAndTheFlags) {
  const core::TempDir folder;
  const at::Tensor rows = at::zeros({1, 2});
  const std::vector<core::SafetensorsEntry> entries{
      {.name = "audio", .dtype = "F32", .shape = {1, 2}, .bytes = std::as_bytes(std::span(rows.data_ptr<float>(), 2))}};
  const fs::path file = folder.path() / "rows.safetensors";
  core::write_safetensors(file, entries, {});
  const std::string text = message_of<DataError>([&] { read_embeddings(file, "text"); });
  EXPECT_TRUE(holds(text, "no embeddings named 'text': it has audio")) << text;
  EXPECT_TRUE(holds(text, "--query-key")) << text;
}

TEST(EmbeddingFile, AListOfTextsIsNoDamagedFile) {
  const core::TempDir folder;
  const fs::path texts = folder.path() / "queries.txt", gone = folder.path() / "gone.safetensors";
  core::write_file_atomic(texts, "a red circle\na blue ring\n");
  const std::string text = message_of<DataError>([&] { read_embeddings(texts, "text"); });
  EXPECT_TRUE(holds(text, "holds no embeddings: it is no safetensors file")) << text;
  EXPECT_TRUE(holds(text, "of texts with --texts FILE")) << text;
  EXPECT_TRUE(holds(message_of<DataError>([&] { embedding_files(gone); }), "holds no embeddings: it does not exist"));
  fs::rename(texts, gone);
  EXPECT_TRUE(holds(message_of<DataError>([&] { read_embeddings(gone, "text"); }), "is damaged"));
}

core::Json facts_of(const std::vector<std::string>& shards) {
  return {{"format_version", EmbeddingFolder::kFormatVersion},
          {"model", "a.json"},
          {"weights", "12"},
          {"shape", {{"quick_gelu", false}, {"width", 32}}},
          {"preparation", {{"interpolation", "bicubic"}, {"resize_mode", "shortest"}, {"max_image_pixels", 9}}},
          {"vocabulary", "34"},
          {"format", "safetensors"},
          {"shards", shards}};
}

std::string refusal(const fs::path& folder, const core::Json& facts, const std::vector<std::string>& noted = {}) {
  return message_of<UsageError>([&] { EmbeddingFolder(folder, {}, "image", false).open(facts, noted); });
}

void open(const fs::path& folder, const core::Json& facts) {
  EmbeddingFolder(folder, {}, "image", false).open(facts, {});
}

core::Json facts_in(const fs::path& folder) { return core::read_json_file(folder / "embed.json"); }

TEST(EmbeddingFolder, ADataSetMayGrowAtItsEndOnly) {
  const core::TempDir folder;
  open(folder.path(), facts_of({"a.tar", "b.tar"}));
  open(folder.path(), facts_of({"a.tar", "b.tar", "c.tar"}));
  EXPECT_EQ(facts_in(folder.path()), facts_of({"a.tar", "b.tar", "c.tar"}));
  EXPECT_TRUE(holds(refusal(folder.path(), facts_of({"a.tar", "b.tar"})),
                    R"(other shards: 3 there, 2 now; number 2 is "c.tar" there, none now)"));
  std::vector<std::string> many(50'000, "x.tar");
  const std::string text = refusal(folder.path(), facts_of(many));
  EXPECT_TRUE(holds(text, R"(other shards: 3 there, 50000 now; number 0 is "a.tar" there, "x.tar" now)")) << text;
  EXPECT_EQ(facts_in(folder.path()), facts_of({"a.tar", "b.tar", "c.tar"})) << "a refusal changes nothing";
}

TEST(EmbeddingFolder, TheFirstValueThatDiffersIsNamed) {
  const core::TempDir folder;
  open(folder.path(), facts_of({"a.tar"}));
  core::Json other = facts_of({"a.tar"});
  other["shape"]["quick_gelu"] = true;
  EXPECT_TRUE(holds(refusal(folder.path(), other), "with another shape.quick_gelu: false, now true"));
  other = facts_of({"a.tar"});
  other["vocabulary"] = "35";
  EXPECT_TRUE(holds(refusal(folder.path(), other), "with another vocabulary: \"34\", now \"35\""));
  other = facts_of({"a.tar"});
  other["preparation"].erase("max_image_pixels");
  EXPECT_TRUE(holds(refusal(folder.path(), other), "with another preparation.max_image_pixels: 9, now none"));
  other = facts_of({"a.tar"});
  other["model"] = "/elsewhere/b.json";
  open(folder.path(), other);
  for (const core::Json& broken :
       {core::Json("a"), core::Json::object(), core::Json{{"format_version", EmbeddingFolder::kFormatVersion + 1}}}) {
    core::write_file_atomic(folder.path() / "embed.json", broken.dump());
    EXPECT_TRUE(holds(refusal(folder.path(), other), "of another version")) << broken.dump();
  }
}

TEST(EmbeddingFolder, OfFormatOneGoesOnWhereWhatItDidNotNoteIsUsual) {
  const core::TempDir folder;
  core::Json before = facts_of({"a.tar"});
  before["format_version"] = 1;
  before.erase("shape");
  before.erase("vocabulary");
  before["preparation"] = {{"interpolation", ""}, {"resize_mode", ""}};
  core::write_file_atomic(folder.path() / "embed.json", before.dump());
  EXPECT_TRUE(holds(refusal(folder.path(), facts_of({"a.tar"}), {"--force-quick-gelu"}),
                    "begun by a version that did not note --force-quick-gelu"));
  core::Json other = facts_of({"a.tar"});
  other["model"] = "b.json";
  EXPECT_TRUE(holds(refusal(folder.path(), other), "another model: \"a.json\", now \"b.json\""));
  open(folder.path(), facts_of({"a.tar", "b.tar"}));
  const core::Json now = facts_in(folder.path()), wanted = facts_of({"a.tar", "b.tar"});
  EXPECT_EQ(now.size(), wanted.size());
  for (const auto& [key, value] : wanted.items()) EXPECT_EQ(now.at(key), value) << key;
}

TEST(EmbeddingFolder, OfFormatTwoHadNumbersWhereNamesAreNow) {
  const core::TempDir folder;
  core::Json before = facts_of({"a.tar"}), now = before;
  before["format_version"] = 2;
  before["shape"]["text"]["pool"] = 1;
  now["shape"]["text"]["pool"] = "last";
  core::write_file_atomic(folder.path() / "embed.json", before.dump());
  EXPECT_TRUE(holds(refusal(folder.path(), now), R"(with another shape.text.pool: "end_id", now "last")"));
  now["shape"]["text"]["pool"] = "end_id";
  open(folder.path(), now);
  EXPECT_EQ(facts_in(folder.path()), now);
}

TEST(EmbeddingFolder, TellsHowManyShardsAreThere) {
  const core::TempDir folder;
  EXPECT_FALSE(folder_state(folder.path()).has_value());
  open(folder.path(), facts_of({"x/a.tar", "x/b.tar", "x/c d.tar"}));
  core::write_file_atomic(folder.path() / "000000_a.safetensors", "");
  core::write_file_atomic(folder.path() / "000002_c_d.partial.safetensors", "");
  const auto state = folder_state(folder.path());
  ASSERT_TRUE(state.has_value());
  EXPECT_EQ(state->num_shards, 3u);
  EXPECT_EQ(state->num_whole, 1u);
  EXPECT_EQ(state->num_partial, 1u);
  core::Json npy = facts_of({"x/a.tar"});
  npy["format"] = "npy";
  core::write_file_atomic(folder.path() / "embed.json", npy.dump());
  EXPECT_EQ(folder_state(folder.path())->num_whole, 0u) << "the .json tells of a shard";
}

TEST(EmbeddingFile, WhatMadeTwoOfThemIsCompared) {
  const core::Json a = facts_of({"a.tar"});
  core::Json b = a;
  EXPECT_EQ(origin_difference(a, b, true), "");
  b["preparation"]["interpolation"] = "bilinear";
  EXPECT_EQ(origin_difference(a, b, false), "") << "pictures are prepared, texts are not";
  EXPECT_EQ(origin_difference(a, b, true), R"(with another preparation.interpolation: "bicubic" and "bilinear")");
  b["vocabulary"] = "35";
  EXPECT_EQ(origin_difference(a, b, false), "with another vocabulary of the tokenizer");
  b["shape"]["quick_gelu"] = true;
  EXPECT_EQ(origin_difference(a, b, false), "with another shape.quick_gelu: false and true");
  b["weights"] = "13";
  EXPECT_EQ(origin_difference(a, b, false), "by other weights, or in another precision");
  EXPECT_EQ(origin_difference(a, core::Json::object(), true), "") << "nothing is told";
  EXPECT_EQ(origin_difference(core::Json(), b, true), "");
}

TEST(ClassResults, NamesSteerNoTerminalAndKeepTheirMeaning) {
  const std::string name =
      "red \xc2\x9b"
      "31m \x1b[2J \xe2\x80\xae \x7f";
  config::InferOptions options;
  options.images = "dir";
  const BadSamples none;
  testing::internal::CaptureStdout();
  write_class_results(at::ones({1, 1}), {name}, {"dir/a\xc2\x9b.jpg"}, none, options);
  const std::string line = testing::internal::GetCapturedStdout();
  EXPECT_EQ(line.find_first_of("\x1b\x7f"), std::string::npos) << line;
  EXPECT_EQ(line.find('\xc2'), std::string::npos) << line;
  const core::Json json = core::parse_json(line, "line");
  EXPECT_EQ(json.at("classes").at(0).at("name"), name);
  EXPECT_EQ(json.at("file"), "a\xc2\x9b.jpg");
}

}  // namespace
}  // namespace lockstep::infer
