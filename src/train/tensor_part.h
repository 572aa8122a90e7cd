#pragma once
#include <ATen/core/TensorBody.h>

#include <map>
#include <set>
#include <string>

#include "train/part_description.h"

namespace lockstep::train {

/// How ranks share the tensors of a model; by default every rank holds all.
struct TensorLayout {
  bool holds_part = false;                         ///< Ranks hold parts of the model.
  std::map<std::string, TensorPlace> places = {};  ///< Of tensors that are not simply whole.
  std::set<std::string> all_names = {};            ///< With holds_part: the tensors of all ranks.
};

/// A tensor's memory as one row.
at::Tensor flat_memory(const at::Tensor& tensor);
/// All of a tensor, in the order of its memory.
TensorPart part_of(const at::Tensor& tensor, const std::map<std::string, TensorPlace>& places, const std::string& name);

}  // namespace lockstep::train
