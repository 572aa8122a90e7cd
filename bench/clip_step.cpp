// One CLIP training step on given weights and batches; the other side of bench/peers/clip_step.py.
//   bench_clip_step --inputs FOLDER --model NAME --precision fp32|bf16 --threads N --steps N --lr X --beta1 X --beta2 X --eps X
#include <ATen/ATen.h>

#include "contrastive_step.h"
#include "train/clip_build.h"

int main(int argc, char** argv) {
  using namespace lockstep;
  const auto build = [](const bench::StepOptions& options, const train::Precision& precision) {
    auto model = train::build_clip_model(spec::resolve_clip_shape(options.model), {.precision = &precision, .pretrained = options.weights()});
    auto specs = model->param_specs();
    return bench::StepNetwork{std::move(model), std::move(specs)};
  };
  const auto read_batch = [](const std::map<std::string, at::Tensor>& tensors) {
    models::Batch batch;
    batch.image_BCYX = tensors.at("image").contiguous(at::MemoryFormat::ChannelsLast);
    batch.text_BT = tensors.at("text").to(at::kLong);
    batch.num_samples = batch.text_BT.size(0);
    return batch;
  };
  return bench::step_main(argc, argv, {.model = "ViT-B-32"}, build, read_batch);
}
