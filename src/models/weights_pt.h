#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/named_values.h"

namespace lockstep::models {

/// The state dict of a .pt file of torch.save (zip form) as it stands there: names untouched.
struct PtStateDict {
  NamedValues tensors;              ///< File order; views of one storage share memory.
  std::vector<std::string> others;  ///< Keys whose value is no tensor.
  std::optional<int64_t> epoch;     ///< Beside "state_dict".
};

/// What torch's AdamW saves of one group of parameters. read_pt_checkpoint gives `parameters` alone.
struct PtParamGroup {
  std::vector<int64_t> parameters;  ///< Their numbers, counted over all groups.
  double lr = 0, beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;
};
/// The state of torch's AdamW.
struct PtOptimizer {
  std::vector<PtParamGroup> groups;
  std::map<int64_t, std::map<std::string, at::Tensor>> state;  ///< By number: "exp_avg", "exp_avg_sq", "step" (0-dim).
};
/// The state of torch's GradScaler; its rule of growth is the default one.
struct PtScaler {
  double scale = 1;
  int64_t growth_tracker = 0;
};

/// A training checkpoint of OpenCLIP: {"epoch", "name", "state_dict", "optimizer", "scaler"}.
struct PtCheckpoint {
  PtStateDict model;
  std::optional<PtOptimizer> optimizer;
  std::optional<PtScaler> scaler;
};
/// As read_pt_state_dict, with what stands beside the state dict.
PtCheckpoint read_pt_checkpoint(const std::filesystem::path& path);
/// The numbers of the last group of parameters in such a file (OpenCLIP's group that decays), without its `parameters`;
/// no tensor is read. Nothing where the file has no AdamW.
std::optional<PtParamGroup> read_pt_tuning(const std::filesystem::path& path);

/// Bounds of every record and tensor are checked, nothing is executed; whatever does not fit is a DataError. Bytes that
/// have another CRC-32 than was written are a CheckpointError that names the record.
PtStateDict read_pt_state_dict(const std::filesystem::path& path);

/// What an OpenCLIP checkpoint says besides its state_dict.
struct CheckpointHead {
  int64_t epoch = 0;
  std::string name;
  std::optional<PtOptimizer> optimizer = std::nullopt;
  std::optional<PtScaler> scaler = std::nullopt;
};
/// A file that torch.load(weights_only=True) reads: a state dict, or, with `head`, {"epoch", "name", "state_dict",
/// "optimizer", "scaler"} as OpenCLIP saves it. Written as write_file_atomic does.
void write_weights_pt(const std::filesystem::path& path, const NamedValues& tensors,
                      const std::optional<CheckpointHead>& head = std::nullopt);

}  // namespace lockstep::models
