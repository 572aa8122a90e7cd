#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <filesystem>
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

/// Bounds of every record and tensor are checked, nothing is executed; whatever does not fit is a DataError.
PtStateDict read_pt_state_dict(const std::filesystem::path& path);

/// What an OpenCLIP checkpoint says besides its state_dict.
struct CheckpointHead {
  int64_t epoch = 0;
  std::string name;
};
/// A file that torch.load(weights_only=True) reads: a state dict, or, with `head`, {"epoch", "name", "state_dict"} as
/// OpenCLIP saves it. Written as write_file_atomic does.
void write_weights_pt(const std::filesystem::path& path, const NamedValues& tensors,
                      const std::optional<CheckpointHead>& head = std::nullopt);

}  // namespace lockstep::models
