// Letters: B micro-batch, C = 3 colours, Y, X pixels, P patches, F = C p p numbers of a patch, D width.
#include "nn/patch_embedding.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/gather.h>

#include "nn/layers.h"
#include "nn/product.h"

namespace lockstep::nn {

PatchEmbedding::PatchEmbedding(int64_t width, int64_t patch_size, const at::TensorOptions& options)
    : weight_(make_parameter({width, 3, patch_size, patch_size}, options)), patch_size_(patch_size) {
  register_parameter("weight", weight_);
}

at::Tensor PatchEmbedding::forward(const at::Tensor& image_BCYX, const at::Tensor& kept_BP) const {
  const int64_t batch = image_BCYX.size(0), rows = image_BCYX.size(2) / patch_size_,
                columns = image_BCYX.size(3) / patch_size_;
  const at::Tensor whole_BCYX =
      image_BCYX.narrow(2, 0, rows * patch_size_).narrow(3, 0, columns * patch_size_);  // a rest is ignored
  const at::Tensor split =
      whole_BCYX.unflatten(2, {rows, patch_size_}).unflatten(4, {columns, patch_size_});  // B C y p x p
  at::Tensor patches_BPF =
      split.permute({0, 2, 4, 1, 3, 5}).reshape({batch, rows * columns, 3 * patch_size_ * patch_size_});
  if (kept_BP.defined()) {
    const at::Tensor index = kept_BP.unsqueeze(2).expand({batch, kept_BP.size(1), patches_BPF.size(2)});
    patches_BPF = at::gather(patches_BPF, 1, index);
  }
  return is_usable(packed_) ? packed_.forward(patches_BPF) : linear_layer(patches_BPF, weight_.flatten(1), {});
}

void PatchEmbedding::prepare_inference(std::optional<at::ScalarType> type) {
  packed_ = pack_where_possible(weight_.flatten(1), {}, type);
}

}  // namespace lockstep::nn
