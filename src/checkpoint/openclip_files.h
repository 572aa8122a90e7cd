#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace lockstep::checkpoint {

inline constexpr const char* kLatestOpenClipFile = "epoch_latest.pt";

/// K of "epoch_K.pt", OpenCLIP's name for a checkpoint; nothing for other names.
std::optional<int64_t> openclip_epoch(const std::string& name);

/// The file in <run>/checkpoints that OpenCLIP would go on from: epoch_latest.pt, else that of the highest epoch; ""
/// where there is none. CheckpointError where that cannot be told: the folder cannot be listed, or a file not looked
/// at.
std::filesystem::path newest_openclip_file(const std::filesystem::path& run_folder);

/// True where a run may write <run>/checkpoints/`name` in OpenCLIP's format: nothing lies there, or an attempt of this
/// run wrote it. It is then noted as the run's own.
bool claim_openclip_file(const std::filesystem::path& run_folder, const std::string& name);
/// Whether an attempt of the run wrote it.
bool is_own_openclip_file(const std::filesystem::path& run_folder, const std::string& name);

}  // namespace lockstep::checkpoint
