#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::models {

/// The state dict of a .pt file of torch.save (zip form) as it stands there: names untouched.
struct PtStateDict {
  std::vector<std::pair<std::string, at::Tensor>> tensors;  ///< File order; views of one storage share memory.
  std::vector<std::string> others;                          ///< Keys whose value is no tensor.
  std::optional<int64_t> epoch;                             ///< Beside "state_dict".
};

/// Bounds of every record and tensor are checked, nothing is executed; whatever does not fit is a DataError.
PtStateDict read_pt_state_dict(const std::filesystem::path& path);

}  // namespace lockstep::models
