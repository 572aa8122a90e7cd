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
