#pragma once
#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <vector>

#include "config/clip_shape.h"
#include "models/clip/clip_model.h"
#include "support/tensor_golden.h"

namespace lockstep::tests {

/// A case under tests/golden/clip, or the path of a file of the same layout.
inline std::string file_of(const std::string& golden) {
  return golden.ends_with(".safetensors") ? golden : "clip/" + golden + ".safetensors";
}

inline config::ClipShape golden_shape(const std::string& golden) {
  return config::parse_clip_shape(golden_metadata(file_of(golden), "config"), golden);
}

inline std::vector<nn::NamedTensor> all_tensors(nn::Module& module) {
  std::vector<nn::NamedTensor> tensors = module.named_parameters();
  for (auto& buffer : module.named_buffers()) tensors.push_back(buffer);
  return tensors;
}

/// The golden case's model with its parameters.
inline std::unique_ptr<models::ClipModel> golden_model(const std::string& golden, const TensorMap& tensors,
                                                       const models::ClipModelOptions& options = {}) {
  auto model = std::make_unique<models::ClipModel>(golden_shape(golden), options);
  for (auto& entry : all_tensors(*model)) entry.tensor->detach().copy_(tensors.at("param/" + entry.name));
  return model;
}

}  // namespace lockstep::tests
