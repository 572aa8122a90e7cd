#include "train/towers_build.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include <filesystem>
#include <vector>

#include "core/error.h"
#include "hw/device.h"
#include "models/clap/clap_model.h"
#include "models/clap/clap_weights.h"
#include "models/clip/clip_model.h"
#include "models/weights.h"
#include "nn/init.h"
#include "train/agree.h"
#include "train/weight_file.h"

namespace lockstep::train {

namespace {

void load_file(models::TwoTowers& model, const std::string& path) {
  if (!std::filesystem::exists(path))
    throw UsageError(
        fmt::format("train: --pretrained '{}' does not exist", path),
        "tags of OpenCLIP are not downloaded: fetch the weights and give the path of the .pt or .safetensors file");
  record::CheckpointManifest ignored;
  const auto weights = models::read_weights(weight_file(path, ignored));
  if (auto* clap = dynamic_cast<models::ClapModel*>(&model))
    models::load_clap_weights(*clap, weights);
  else
    models::load_weights(model, weights);
}

void load_pretrained(models::TwoTowers& model, const TowersConfig& config) {
  if (config.broadcast_from == nullptr) {
    load_file(model, config.pretrained);
    return;
  }
  decide_on_rank_zero(*config.broadcast_from, [&] {
    load_file(model, config.pretrained);
    return std::string();
  });
  models::broadcast_weights(model, *config.broadcast_from);
}

std::unique_ptr<models::TwoTowers> make_towers(const config::ContrastiveShape& shape, const TowersConfig& config) {
  const at::TensorOptions tensors(config.device);
  if (const auto* clap = shape.clap())
    return std::make_unique<models::ClapModel>(*clap,
                                               models::ClapModelOptions{.tensors = tensors,
                                                                        .grad_checkpointing = config.grad_checkpointing,
                                                                        .batch_norm_ranks = config.batch_norm_ranks});
  return std::make_unique<models::ClipModel>(*shape.clip(),
                                             models::ClipModelOptions{.tensors = tensors,
                                                                      .grad_checkpointing = config.grad_checkpointing,
                                                                      .batch_norm_ranks = config.batch_norm_ranks});
}

}  // namespace

std::unique_ptr<models::TwoTowers> build_towers(const config::ContrastiveShape& shape, const TowersConfig& config) {
  LOCKSTEP_CHECK(config.precision != nullptr, "no precision");
  auto model = make_towers(shape, config);
  const auto specs = shape.param_specs();
  nn::initialize(*model, specs, config.seed);
  if (!config.pretrained.empty()) load_pretrained(*model, config);
  config.precision->convert_parameters(model->named_parameters(), specs);
  auto statistics = model->named_buffers();
  std::erase_if(statistics,
                [](const auto& buffer) { return !buffer.tensor->is_floating_point(); });  // counters stay integers
  config.precision->convert_parameters(statistics, specs);
  return model;
}

}  // namespace lockstep::train
