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

int64_t cut_size(const TensorPart& part) {
  return part.sizes.empty() ? 1 : part.sizes[static_cast<size_t>(part.place.dim)];
}

bool has_same_cut(const TensorPart& a, const TensorPart& b) {
  return a.sizes == b.sizes && a.strides == b.strides && a.place.whole == b.place.whole &&
         a.place.begin == b.place.begin && (a.place.dim == b.place.dim || b.sizes == b.place.whole);
}

core::Json describe_part(const TensorPart& part) {
  return {{"sizes", part.sizes},       {"strides", part.strides}, {"offset", part.offset},
          {"whole", part.place.whole}, {"dim", part.place.dim},   {"begin", part.place.begin}};
}

TensorPart part_from_json(const core::Json& said) {
  TensorPart part;
  part.sizes = said.at("sizes").get<std::vector<int64_t>>();
  part.strides = said.at("strides").get<std::vector<int64_t>>();
  part.offset = said.at("offset");
  part.place.whole = said.at("whole").get<std::vector<int64_t>>();
  part.place.dim = said.at("dim");
  part.place.begin = said.at("begin");
  return part;
}

}  // namespace lockstep::train
