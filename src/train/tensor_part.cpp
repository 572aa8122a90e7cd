#include "train/tensor_part.h"

namespace lockstep::train {

at::Tensor flat_memory(const at::Tensor& tensor) { return tensor.detach().as_strided({tensor.numel()}, {1}); }

TensorPart part_of(const at::Tensor& tensor, const std::map<std::string, TensorPlace>& places,
                   const std::string& name) {
  const auto place = places.find(name);
  return {.sizes = tensor.sizes().vec(),
          .strides = tensor.strides().vec(),
          .count = tensor.numel(),
          .place = place == places.end() ? TensorPlace{.whole = tensor.sizes().vec()} : place->second};
}

}  // namespace lockstep::train
