#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/comm.h"
#include "models/named_values.h"
#include "models/weights_pt.h"
#include "nn/module.h"

namespace lockstep::models {

/// Tensors of a weight file by their names in OpenCLIP's native models.
struct WeightFile {
  std::filesystem::path path;
  NamedValues tensors;               ///< On the CPU, in file order.
  std::vector<std::string> ignored;  ///< Entries that are no weights (position_ids).
  std::optional<int64_t> epoch;      ///< Of an OpenCLIP training checkpoint.
  bool had_text_prefix = false;      ///< Names of its text tower began with "text.", as in OpenCLIP's CustomTextCLIP.
};

/// Reads safetensors, or .pt files of torch.save (the format is recognised by content): a state dict, or a dictionary
/// that holds one under "state_dict" or, as torchvision's training saves it, "model". A leading "module." is taken off,
/// keys of a custom text tower
/// ("text.transformer...") become the flat ones. Nothing in a file is executed. Anything that cannot be read is a
/// DataError with the path and the reason.
WeightFile read_weights(const std::filesystem::path& path);

/// The same of a .pt file that was read already.
WeightFile normalised_weights(const std::filesystem::path& path, PtStateDict dict);

/// Copies weights into the module's parameters and buffers, converting types. All names and shapes must fit, but for:
/// one-element tensors of shape [] and [1]; a missing logit_bias (becomes 0) and num_batches_tracked. Otherwise a
/// DataError lists missing, unexpected and mis-shaped names, and nothing was changed.
void load_weights(nn::Module& module, const WeightFile& weights);
/// The same into some of a module's values.
void load_values(const NamedValues& targets, const WeightFile& weights);

/// DataError as of load_weights unless the file holds just the tensors of `targets`, of which names and shapes count
/// alone (they may lie on the meta device).
void require_fit(const NamedValues& targets, const WeightFile& weights);

/// The tensors under the names that the file has them by, but for prefixes of wrappers ("module.").
NamedValues names_of_file(const WeightFile& weights);

/// The tensors under the names of `targets`, which they must fit (require_fit), in the order of the file.
NamedValues names_of_model(const NamedValues& targets, const WeightFile& weights);

/// Parameters and buffers of `root` to all ranks. Collective.
void broadcast_weights(nn::Module& module, comm::Comm& world, int root = 0);

/// Parameters and buffers as named values (handles, not copies).
NamedValues named_values(nn::Module& module);

void write_weights_safetensors(const std::filesystem::path& path, const NamedValues& tensors,
                               const std::map<std::string, std::string>& metadata = {});

}  // namespace lockstep::models
