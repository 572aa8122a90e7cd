#pragma once
#include <ATen/core/TensorBody.h>

#include <string>
#include <utility>
#include <vector>

namespace lockstep::models {

using NamedValues = std::vector<std::pair<std::string, at::Tensor>>;

}  // namespace lockstep::models
