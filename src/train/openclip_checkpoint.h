#pragma once
#include <cstdint>
#include <filesystem>

#include "checkpoint/manifest.h"
#include "models/weights_pt.h"
#include "optim/adamw.h"
#include "train/checkpoint_state.h"

namespace lockstep::train {

/// Is it a training checkpoint of OpenCLIP (a file, where ours are folders)?
bool is_openclip_checkpoint(const std::filesystem::path& path);

/// Where a run stands that goes on from a checkpoint of OpenCLIP, which counts epochs alone.
struct EpochLength {
  int64_t steps = 0, samples = 0;
};

/// Writes what `file` (OpenCLIP's epoch_K.pt: weights, AdamW, scaler) holds as a checkpoint of ours into the new
/// `folder`, for the model and the optimiser of `state`. The data begin a new pass there. DataError for a file of
/// another model, CheckpointError for one without an optimiser, or for state in 16-bit weights with fp32 copies, which
/// OpenCLIP does not have.
void import_openclip_checkpoint(const std::filesystem::path& file, const std::filesystem::path& folder,
                                const CheckpointState& state, const EpochLength& epoch);

/// Betas, epsilon and weight decay in a checkpoint of OpenCLIP; nothing where it has no AdamW. No tensor is read.
std::optional<optim::AdamWConfig> openclip_adamw(const std::filesystem::path& file);

/// The same in our checkpoints of a run that went on from such a file: `kAdamWKey` of callers_extra.
inline constexpr const char* kAdamWKey = "adamw_of_openclip";
std::optional<optim::AdamWConfig> adamw_of(const checkpoint::CheckpointManifest& manifest);
core::Json to_json(const optim::AdamWConfig& adamw);
optim::AdamWConfig adamw_from_json(const core::Json& json);

/// The loss scale in our checkpoint as OpenCLIP saves it; nothing where the run has none.
std::optional<models::PtScaler> openclip_scaler(const checkpoint::CheckpointManifest& manifest);

/// AdamW's state in our checkpoint `folder` as OpenCLIP saves it, or nothing where the checkpoint has none.
/// `state_dict`: in OpenCLIP's order, by which its parameters are numbered: first those that do not decay, then the
/// rest. `tuning`: learning rate, betas, epsilon and weight decay of AdamW, which OpenCLIP takes from the file, too;
/// but for the learning rate, adamw_of the checkpoint wins over it.
std::optional<models::PtOptimizer> openclip_optimizer(const std::filesystem::path& folder,
                                                      const models::NamedValues& state_dict,
                                                      models::PtParamGroup tuning);

}  // namespace lockstep::train
