#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json.h"

namespace lockstep::checkpoint {

/// One file of a checkpoint; `name` is a plain file name within the checkpoint's folder.
struct CheckpointFile {
  std::string name{};
  int64_t bytes = 0;
  std::string xxh3{};  ///< core::xxh3_hex of the whole file.
};

/// What manifest.json says. A valid manifest is what makes a folder a checkpoint: it is written last, after every file
/// is durable.
struct CheckpointManifest {
  int64_t step = 0;  ///< Optimiser steps done.
  int attempt = 1;
  int world_size = 1;
  int64_t epoch = 0;  ///< Epochs completed.
  int64_t samples_seen = 0;
  double created_s = 0;  ///< Unix time.
  std::string code_version{};
  core::Json data_position{};  ///< Whatever the loader wants back.
  core::Json extra{};          ///< Whatever else the trainer wants back (scaler, random state, layout).
  std::vector<CheckpointFile> files{};
};

inline constexpr const char* kManifestName = "manifest.json";

/// "step-00012000.a3"
std::string checkpoint_name(int64_t step, int attempt);
/// Inverse of checkpoint_name: (step, attempt); nothing for other names.
std::optional<std::pair<int64_t, int>> parse_checkpoint_name(const std::string& name);

/// Writes <folder>/manifest.json atomically and makes folder and parent durable. The manifest carries its own hash.
void write_manifest(const std::filesystem::path& folder, const CheckpointManifest& manifest);
/// Throws CheckpointError (missing, damaged, altered, or of a newer layout) that names the file.
CheckpointManifest read_manifest(const std::filesystem::path& folder);

/// The same from the text of a manifest; `where` is for messages.
CheckpointManifest parse_manifest(std::string_view text, const std::string& where);

/// Size and hash of a file as they are now, for a manifest. `name` is taken relative to `folder`.
CheckpointFile describe_file(const std::filesystem::path& folder, const std::string& name);
/// What does so, and perhaps keeps what it reads.
using DescribeFunction = std::function<CheckpointFile(const std::filesystem::path& folder, const std::string& name)>;

enum class VerifyDepth { kSizes, kHashes };
struct FileCheck {
  std::vector<std::string> problems{};  ///< One sentence each with file, value seen and value expected.
  bool is_unreadable = false;           ///< A file is there but could not be read: it may be good.
};
/// Compares the files with the manifest; no problems when all is well. With hashes each file is read once.
FileCheck verify_files(const std::filesystem::path& folder, const CheckpointManifest& manifest, VerifyDepth depth,
                       const DescribeFunction& describe = describe_file);
/// The same by hashes.
FileCheck verify_hashes(const std::filesystem::path& folder, const CheckpointManifest& manifest);
/// How the files of a checkpoint are tested, for example by many processes.
using VerifyFunction = std::function<FileCheck(const std::filesystem::path& folder, const CheckpointManifest&)>;

enum class CheckpointState {
  kUsable,
  kIncomplete,  ///< No manifest: never completed, or being written.
  kSuperseded,  ///< Committed by an attempt after a later one had taken over.
  kDamaged,
  kUnreadable,  ///< Storage or permissions failed: whether it is good is not known.
};

/// One folder step-* of a run.
struct CheckpointEntry {
  std::filesystem::path folder{};
  int64_t step = 0;
  int attempt = 0;
  std::optional<CheckpointManifest> manifest{};  ///< Empty when it cannot be read.
  CheckpointState state = CheckpointState::kUsable;
  std::string problem{};  ///< Why it must not be used; empty when usable.
};

/// All of <run>/checkpoints, or of a copy of that folder, whatever its name; newest (attempt, then step) first.
/// Manifests are read, files are not. An absent folder gives none; one that cannot be read throws CheckpointError.
std::vector<CheckpointEntry> list_checkpoints(const std::filesystem::path& run_folder);

/// The hint of an error: what to give instead of a checkpoint that was named and is damaged.
std::string instead_of_damaged(const std::filesystem::path& folder);

enum class Presence {
  kAbsent,
  kPresent,
  kUnknown,  ///< They cannot be listed, or those that may be good cannot be read.
};
/// Whether there is a usable one of them. Throws nothing.
Presence find_usable_checkpoint(const std::filesystem::path& run_folder);

/// What a person is told where a run ended: how to go on, by whether there is something to go on from. The command that
/// started the run continues it with `flags_to_resume`.
std::string how_to_continue(const std::filesystem::path& run_folder, const std::string& flags_to_resume);

/// The checkpoint that `--resume latest` takes: the newest usable one whose files pass. Those passed over are named
/// with reasons, so that falling back is never silent. Nothing chosen and nothing skipped: there is no checkpoint.
/// Nothing is passed over because it cannot be read: that throws CheckpointError.
struct LatestChoice {
  std::optional<CheckpointEntry> chosen{};
  std::vector<std::string> skipped{};
};
LatestChoice choose_latest(const std::filesystem::path& run_folder, const VerifyFunction& verify = verify_hashes);

/// Claim of one attempt on the checkpoints of a run (owner.<attempt>), so that a superseded writer that lives on cannot
/// harm.
struct OwnerClaim {
  int attempt = 1;
  std::string token{};  ///< Random.
};
/// Claims the next attempt number: creates <run>/checkpoints/owner.<n> exclusively (n = highest seen + 1, at least
/// `lowest`), then writes into it which checkpoints were usable at that moment. Later manifests of lower attempts are
/// void, but for those that could not be read at that moment. `who` is kept for humans.
OwnerClaim claim_checkpoints(const std::filesystem::path& run_folder, const core::Json& who, int lowest = 1);
/// Who claimed an attempt, as claim_checkpoints was told; nothing where that is not known.
std::optional<core::Json> who_claimed(const std::filesystem::path& run_folder, int attempt);
/// True when a later attempt has claimed the checkpoints: the caller must not commit any more.
bool is_superseded(const std::filesystem::path& run_folder, int attempt);

/// Deletes a checkpoint's folder. It is renamed first: whoever lists meanwhile never sees half a checkpoint.
void remove_checkpoint(const std::filesystem::path& folder);
/// Removes what writers of lower attempts that were killed left: checkpoints that were never completed, and those that
/// were being deleted.
void remove_left_overs(const std::filesystem::path& run_folder, int attempt);

/// What is done with a checkpoint when it is whole.
using SavedFunction = std::function<void(const std::filesystem::path& folder, const CheckpointManifest& manifest)>;

}  // namespace lockstep::checkpoint
