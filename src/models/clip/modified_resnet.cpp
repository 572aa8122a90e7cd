// Letters: B micro-batch, C channels, Y, X pixels or cells, T tokens, D width, H heads, K head width.
#include "models/clip/modified_resnet.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/relu.h>

#include <string>

#include "config/image_towers/modified_resnet.h"
#include "core/error.h"
#include "nn/attention.h"

namespace lockstep::models {
namespace {

at::Tensor average_pool(const at::Tensor& x, int64_t stride) {
  return stride == 1 ? x : at::avg_pool2d(x, {stride, stride});
}

}  // namespace

Bottleneck::Bottleneck(int64_t inputs, int64_t planes, int64_t stride, const at::TensorOptions& options)
    : conv1_(inputs, planes, 1, options), bn1_(planes, options),
      conv2_(planes, planes, 3, options, /*stride=*/1, /*padding=*/1), bn2_(planes, options),
      conv3_(planes, planes * 4, 1, options), bn3_(planes * 4, options), stride_(stride) {
  register_child("conv1", conv1_);
  register_child("bn1", bn1_);
  register_child("conv2", conv2_);
  register_child("bn2", bn2_);
  register_child("conv3", conv3_);
  register_child("bn3", bn3_);
  declare_unit();
  if (stride == 1 && inputs == planes * 4) return;
  register_child("downsample.0", shortcut_conv_.emplace(inputs, planes * 4, 1, options));
  register_child("downsample.1", shortcut_norm_.emplace(planes * 4, options));
}

at::Tensor Bottleneck::forward(const at::Tensor& x_BCYX) {
  about_to_run();
  const auto [first, x] = conv1_.forward_and_input(x_BCYX);
  const at::Tensor shortcut =
      shortcut_conv_ ? shortcut_norm_->forward(shortcut_conv_->forward(average_pool(x, stride_))) : x;
  const at::Tensor y = bn2_.forward_relu(conv2_.forward(bn1_.forward_relu(first)));
  return bn3_.forward_add_relu(conv3_.forward(average_pool(y, stride_)), shortcut);
}

std::vector<nn::BatchNorm2d*> Bottleneck::batch_norms() {
  std::vector<nn::BatchNorm2d*> norms{&bn1_, &bn2_, &bn3_};
  if (shortcut_norm_) norms.push_back(&*shortcut_norm_);
  return norms;
}

AttentionPool::AttentionPool(int64_t tokens, int64_t width, int64_t heads, int64_t embed_dim, bool exact_shortcuts,
                             const at::TensorOptions& options)
    : positional_embedding_(nn::make_parameter({tokens, width}, options)), k_proj_(width, width, options),
      q_proj_(width, width, options), v_proj_(width, width, options), c_proj_(width, embed_dim, options), heads_(heads),
      exact_shortcuts_(exact_shortcuts) {
  register_parameter("positional_embedding", positional_embedding_);
  register_child("k_proj", k_proj_);
  register_child("q_proj", q_proj_);
  register_child("v_proj", v_proj_);
  register_child("c_proj", c_proj_);
}

at::Tensor AttentionPool::forward(const at::Tensor& x_BCYX) const {
  const at::Tensor cells_BTD = x_BCYX.flatten(2).transpose(1, 2);
  const at::Tensor x_BTD = at::cat({cells_BTD.mean(1, /*keepdim=*/true), cells_BTD}, 1)
                               .add(positional_embedding_.to(cells_BTD.scalar_type()));
  const int64_t batch = x_BTD.size(0), width = x_BTD.size(2);
  const auto heads_first = [&](const at::Tensor& t) {
    return t.view({batch, t.size(1), heads_, width / heads_}).transpose(1, 2);
  };
  const at::Tensor query_BLD = exact_shortcuts_ ? x_BTD.narrow(1, 0, 1) : x_BTD;
  const at::Tensor y_BHLK = nn::attention(heads_first(q_proj_.forward(query_BLD)), heads_first(k_proj_.forward(x_BTD)),
                                          heads_first(v_proj_.forward(x_BTD)), {}, /*is_causal=*/false);
  return c_proj_.forward(y_BHLK.transpose(1, 2).reshape({batch, query_BLD.size(1), width})).select(1, 0);
}

ModifiedResNet::ModifiedResNet(const config::ClipShape& shape, bool exact_shortcuts, const at::TensorOptions& options)
    : image_size_(shape.vision.image_size), conv1_(3, shape.vision.width / 2, 3, options, /*stride=*/2, /*padding=*/1),
      bn1_(shape.vision.width / 2, options),
      conv2_(shape.vision.width / 2, shape.vision.width / 2, 3, options, /*stride=*/1, /*padding=*/1),
      bn2_(shape.vision.width / 2, options),
      conv3_(shape.vision.width / 2, shape.vision.width, 3, options, /*stride=*/1, /*padding=*/1),
      bn3_(shape.vision.width, options), attnpool_(shape.vision.tokens(), shape.vision.feature_width(),
                                                   shape.vision.heads(), shape.embed_dim, exact_shortcuts, options) {
  register_child("conv1", conv1_);
  register_child("bn1", bn1_);
  register_child("conv2", conv2_);
  register_child("bn2", bn2_);
  register_child("conv3", conv3_);
  register_child("bn3", bn3_);
  int64_t inputs = shape.vision.width;
  for (size_t stage = 0; stage < shape.vision.stages.size(); ++stage) {
    const int64_t planes = shape.vision.width << stage;
    for (int64_t i = 0; i < shape.vision.stages[stage]; ++i) {
      blocks_.push_back(std::make_unique<Bottleneck>(inputs, planes, stage > 0 && i == 0 ? 2 : 1, options));
      register_child("layer" + std::to_string(stage + 1) + "." + std::to_string(i), *blocks_.back());
      inputs = planes * 4;
    }
  }
  register_child("attnpool", attnpool_);
}

at::Tensor ModifiedResNet::stem(const at::Tensor& image_BCYX) {
  at::Tensor x = bn1_.forward_relu(conv1_.forward(image_BCYX));
  x = bn2_.forward_relu(conv2_.forward(x));
  x = bn3_.forward_relu(conv3_.forward(x));
  return average_pool(x, 2);
}

at::Tensor ModifiedResNet::forward(const at::Tensor& image_BCYX, const ForwardContext& context) {
  LOCKSTEP_CHECK(image_BCYX.size(2) == image_size_ && image_BCYX.size(3) == image_size_, "image {} x {}, expected {}",
                 image_BCYX.size(2), image_BCYX.size(3), image_size_);
  for (nn::BatchNorm2d* norm : batch_norms()) norm->set_updates_statistics(context.updates_statistics);
  at::Tensor x = stem(image_BCYX);
  for (const auto& block : blocks_) x = block->forward(x);
  return attnpool_.forward(x);
}

std::vector<nn::BatchNorm2d*> ModifiedResNet::batch_norms() {
  std::vector<nn::BatchNorm2d*> norms{&bn1_, &bn2_, &bn3_};
  for (const auto& block : blocks_)
    for (nn::BatchNorm2d* norm : block->batch_norms()) norms.push_back(norm);
  return norms;
}

void ModifiedResNet::synchronize_batch_norm(comm::Comm* comm) {
  for (nn::BatchNorm2d* norm : batch_norms()) norm->synchronize(comm);
}

void ModifiedResNet::freeze_batch_norm() {
  for (nn::BatchNorm2d* norm : batch_norms()) norm->freeze_statistics();
}

}  // namespace lockstep::models

std::unique_ptr<lockstep::models::ImageTower> lockstep::config::ModifiedResnetTower::build(
    const ClipShape& shape, const models::ClipModelOptions& options) {
  return std::make_unique<models::ModifiedResNet>(shape, options.exact_shortcuts, options.tensors);
}
