#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "data/shards/sample.h"

namespace lockstep::infer {

/// Where a shard ends to be readable.
struct ShardDamage {
  std::string after;   ///< Key of the last sample that could be read.
  std::string reason;  ///< Names shard and offset.
};

/// Embeddings of one shard. Rows are those of its samples that could be used, in their order.
struct ShardEmbeddings {
  std::string shard;                  ///< Path of the shard.
  std::vector<std::string> keys;      ///< Of the rows.
  at::Tensor other_NE;                ///< Of pictures or sounds, on the CPU; undefined: not asked for.
  at::Tensor text_NE;                 ///< Likewise.
  std::vector<data::BadSample> bad;   ///< Left out.
  std::vector<data::BadSample> cut;   ///< Rows whose caption was too long.
  std::optional<ShardDamage> damage;  ///< What stands behind it in the shard is lost: the rows are a part.
};

/// The folder that `infer embed --shards` fills.
///
/// embed.json says what was asked for. Each shard has NUMBER_NAME.safetensors with "image" (or "audio"), "text" and, in
/// the metadata, the keys and the bad samples; or the same as NUMBER_NAME.image.npy, NUMBER_NAME.text.npy and
/// NUMBER_NAME.json. The file named last is there only when the shard is complete (written beside and renamed), so that
/// work that was killed goes on with the shards that have none. What stands before the damage of a damaged shard has
/// NUMBER_NAME.partial.safetensors (or .partial.image.npy, ...), with the damage in the metadata, until the shard can
/// be read as a whole.
class EmbeddingFolder {
 public:
  /// `other` names the tower beside the text: "image", "audio". `is_npy`: the second form.
  EmbeddingFolder(std::filesystem::path folder, std::vector<std::string> shards, std::string other, bool is_npy);

  static constexpr int kFormatVersion = 3;

  /// Makes the folder and embed.json, or compares: UsageError where it holds embeddings of something else, with the
  /// first difference. Shards may have been added behind those that embed.json lists. Any number of ranks at once, with
  /// equal facts. Folders of older formats go on, and become one of now. `newly_noted`: flags with other than their
  /// usual values that format 1 did not note; such a folder goes on only where there are none.
  void open(const core::Json& facts, const std::vector<std::string>& newly_noted) const;
  bool has(size_t shard) const;  ///< As a whole.
  /// EnvironmentError when it cannot be written.
  void write(size_t shard, const ShardEmbeddings& embeddings) const;
  const std::vector<std::string>& shards() const { return shards_; }

 private:
  std::filesystem::path path_of(size_t shard, std::string_view ending) const;
  void remove_partial(size_t shard) const;

  std::filesystem::path folder_;
  std::vector<std::string> shards_;
  std::string other_;
  bool is_npy_;
};

/// How much of such a folder is there.
struct FolderState {
  size_t num_shards = 0, num_whole = 0, num_partial = 0;
  bool is_complete() const { return num_whole == num_shards; }
};
/// Nothing where `path` is no folder with an embed.json that lists shards.
std::optional<FolderState> folder_state(const std::filesystem::path& path);

/// Rows of one tower from a file that `infer embed` wrote (either form, with or without --shards).
struct EmbeddingFile {
  std::filesystem::path path;
  std::string shard;              ///< "": no shard.
  std::vector<std::string> keys;  ///< Of the rows; empty: they have none.
  core::Json origin;              ///< Encoder::origin(), as much as is told.
  at::Tensor rows_NE;             ///< fp32, on the CPU.
};

/// The files of a folder of embeddings in the order of their names, or the one file. DataError where there is none.
std::vector<std::filesystem::path> embedding_files(const std::filesystem::path& path);
/// Reads tower `key` of one of them: "image", "audio", "text". DataError for what is no such file, or lacks the tower.
EmbeddingFile read_embeddings(const std::filesystem::path& path, const std::string& key);

/// In words, what made the two of them and differs, as far as both tell it; "" where nothing does. `is_same_kind`: rows
/// of the same tower, whose inputs must have been prepared alike.
std::string origin_difference(const core::Json& a, const core::Json& b, bool is_same_kind);

}  // namespace lockstep::infer
