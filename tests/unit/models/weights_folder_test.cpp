#include "models/weights_folder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/files.h"
#include "core/json.h"

namespace lockstep::models {
namespace {
namespace fs = std::filesystem;

class WeightsFolder : public ::testing::Test {
 protected:
  WeightsFolder() {
    write_weights_safetensors(path() / "model-1.safetensors",
                              {{"a", at::full({2}, 1.0f)}, {"b", at::full({3}, 2.0f)}, {"not.listed", at::ones({1})}});
    write_weights_safetensors(path() / "model-2.safetensors", {{"c", at::full({4}, 3.0f)}, {"a", at::full({2}, 9.0f)}});
    write_index({{"a", "model-1.safetensors"}, {"b", "model-1.safetensors"}, {"c", "model-2.safetensors"}});
  }
  const fs::path& path() const { return folder_.path(); }
  void write_index(const core::Json& map) const {
    core::write_file_atomic(path() / kWeightsIndexName,
                            core::Json{{"metadata", {{"total_size", 1}}}, {"weight_map", map}}.dump());
  }

  template <typename Kind> void expect_error(const std::string& part) const {
    try {
      read_weight_folder(path());
      FAIL() << "read: " << part;
    } catch (const Kind& error) {
      EXPECT_NE(error.text().find(part), std::string::npos) << error.text();
      EXPECT_FALSE(error.hint().empty());
    }
  }
  core::TempDir folder_;
};

TEST_F(WeightsFolder, EachTensorComesFromTheFileThatTheIndexNames) {
  const WeightFile weights = read_weight_folder(path());
  ASSERT_EQ(weights.tensors.size(), 3u);
  for (const auto& [name, value] : weights.tensors) {
    EXPECT_EQ(value.numel(), name == "a" ? 2 : name == "b" ? 3 : 4);
    EXPECT_EQ(value.mean().item<float>(), name == "a" ? 1.0f : name == "b" ? 2.0f : 3.0f) << name;
  }
  write_weights_safetensors(path() / kWeightsName, {{"whole", at::ones({5})}});
  EXPECT_EQ(read_weight_folder(path()).tensors.at(0).first, "whole");
}

TEST_F(WeightsFolder, DamageIsNamed) {
  write_index({{"a", "model-1.safetensors"}, {"c", "model-3.safetensors"}});
  expect_error<DataError>("names the file 'model-3.safetensors', which is not there");
  write_index({{"d", "model-1.safetensors"}});
  expect_error<DataError>("lacks the tensor 'd'");
  write_index({{"a", "../model-1.safetensors"}});
  expect_error<DataError>("expected a name without folder");
  write_index({{"a", 3}});
  expect_error<DataError>("tensor 'a' has the file 3");
  write_index(core::Json::object());
  expect_error<DataError>("names no tensor");
  core::write_file_atomic(path() / kWeightsIndexName, "[1]");
  expect_error<DataError>("weight_map");
  core::write_file_atomic(path() / kWeightsIndexName, "{\"weight_map\": {");
  EXPECT_THROW(read_weight_folder(path()), DataError);
  fs::remove(path() / kWeightsIndexName);
  expect_error<CheckpointError>("holds no weights");
}

}  // namespace
}  // namespace lockstep::models
