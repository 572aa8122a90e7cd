#include "train/clip_build.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include <filesystem>
#include <vector>

#include "core/error.h"
#include "hw/device.h"
#include "models/weights.h"
#include "nn/init.h"
#include "train/agree.h"
#include "train/weight_file.h"

namespace lockstep::train {

at::Device pick_device(const std::string& wish, int local_rank, int local_world_size) {
  const int visible_gpus = at::globalContext().hasCUDA() ? static_cast<int>(at::detail::getCUDAHooks().getNumGPUs()) : 0;
  const bool is_cuda = wish == "cuda" || (wish == "auto" && visible_gpus > 0);
  const auto choice = hw::choose_device(is_cuda ? hw::DeviceKind::kCuda : hw::DeviceKind::kCpu, visible_gpus, local_rank, local_world_size);
  return choice.kind == hw::DeviceKind::kCuda ? at::Device(at::kCUDA, static_cast<at::DeviceIndex>(choice.index)) : at::Device(at::kCPU);
}

namespace {

void load_pretrained(models::ClipModel& model, const ClipBuildConfig& config) {
  const auto read = [&] {
    if (!std::filesystem::exists(config.pretrained))
      throw UsageError(fmt::format("train: --pretrained '{}' does not exist", config.pretrained),
                       "tags of OpenCLIP are not downloaded: fetch the weights and give the path of the .pt or .safetensors file");
    record::CheckpointManifest ignored;
    models::load_weights(model, models::read_weights(weight_file(config.pretrained, ignored)));
    return std::string();
  };
  if (config.broadcast_from == nullptr) {
    read();
    return;
  }
  decide_on_rank_zero(*config.broadcast_from, read);
  models::broadcast_weights(model, *config.broadcast_from);
}

}  // namespace

std::unique_ptr<models::ClipModel> build_clip_model(const spec::ClipShape& shape, const ClipBuildConfig& config) {
  LOCKSTEP_CHECK(config.precision != nullptr, "no precision");
  auto model = std::make_unique<models::ClipModel>(
      shape, models::ClipModelOptions{.tensors = at::TensorOptions(config.device),
                                      .grad_checkpointing = config.grad_checkpointing,
                                      .batch_norm_ranks = config.batch_norm_ranks});
  nn::initialize(*model, model->param_specs(), config.seed);
  if (!config.pretrained.empty()) load_pretrained(*model, config);
  config.precision->convert_parameters(model->named_parameters(), model->param_specs());
  auto statistics = model->named_buffers();
  std::erase_if(statistics, [](const auto& buffer) { return !buffer.tensor->is_floating_point(); });  // counters stay integers
  config.precision->convert_parameters(statistics, model->param_specs());
  return model;
}

}  // namespace lockstep::train
