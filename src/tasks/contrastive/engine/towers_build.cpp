#include "tasks/contrastive/engine/towers_build.h"

#include <ATen/Context.h>

#include <functional>
#include <vector>

#include "config/pretrained_weights.h"
#include "core/error.h"
#include "core/log.h"
#include "core/strings.h"
#include "hw/device.h"
#include "models/clap/clap_model.h"
#include "models/clap/clap_weights.h"
#include "models/clip/clip_model.h"
#include "models/position_resize.h"
#include "models/tower_weights.h"
#include "models/weights.h"
#include "nn/init.h"
#include "tasks/front/recorded_run.h"
#include "train/agree.h"
#include "train/weight_file.h"

namespace lockstep::tasks {

namespace {

/// A network, and how the tensors of a weight file get into it.
struct MadeTowers {
  std::string model;
  std::unique_ptr<models::TwoTowers> network;
  std::function<void(models::WeightFile&)> load;
  bool loads_every_value = false;  ///< `load` fails or leaves nothing as it was.
};

void load_file(const MadeTowers& towers, const TowersConfig& config) {
  const auto path = config::pretrained_file(config.pretrained_flag, config.pretrained, towers.model);
  checkpoint::CheckpointManifest ignored;
  models::WeightFile weights = models::read_weights(train::weight_file(path, ignored));
  if (towers.network->logit_bias() == nullptr)  // of a model trained with the sigmoid loss: no softmax depends on it
    std::erase_if(weights.tensors, [](const auto& entry) { return entry.first == "logit_bias"; });
  try {
    towers.load(weights);
  } catch (const DataError& error) {
    const auto recorded = recorded_attempt(config.pretrained);
    const std::string flag = config.pretrained_flag == "--distill-pretrained" ? "--distill-model" : "--model";
    const bool is_known = recorded && recorded->options.contains("model") && recorded->options.at("model").is_string();
    throw DataError(error.what(),
                    fmt::format("{}; it names '{}'{}", core::replace_all(error.hint(), "--model", flag), towers.model,
                                is_known ? fmt::format(", the weights are of a run of '{}'",
                                                       recorded->options.at("model").get<std::string>())
                                         : ""));
  }
}

const char* name_of(config::Tower tower) {
  switch (tower) {
    case config::Tower::kImage: return "image";
    case config::Tower::kAudio: return "audio";
    case config::Tower::kText: break;
  }
  return "text";
}

void load_towers(const MadeTowers& towers, const config::ContrastiveShape& shape, const TowersConfig& config) {
  for (const config::TowerWeights& weights : config::find_tower_weights(config.tower_weights, shape)) {
    const auto kept =
        models::load_tower_weights(*towers.network, shape, weights.tower, models::read_weights(weights.file));
    core::log_info("the {} tower begins with {}{}", name_of(weights.tower), weights.file.string(),
                   kept.empty() ? "" : ", which does not have " + core::join(kept, ", "));
  }
}

/// Collective: the files may be read by one rank.
void load_weights_of(const MadeTowers& towers, const config::ContrastiveShape& shape, const TowersConfig& config) {
  if (config.pretrained.empty() && !config::names_weights(config.tower_weights, shape)) return;
  const auto load = [&] {
    if (!config.pretrained.empty()) load_file(towers, config);
    load_towers(towers, shape, config);
    return std::string();
  };
  if (config.broadcast_from == nullptr) {
    load();
    return;
  }
  train::decide_on_rank_zero(*config.broadcast_from, load, config.wait_for_reader);
  models::broadcast_weights(*towers.network, *config.broadcast_from);
}

MadeTowers make_towers(const config::ContrastiveShape& shape, const TowersConfig& config) {
  const at::TensorOptions tensors(config.device);
  if (const auto* clap_shape = shape.clap()) {
    auto clap = std::make_unique<models::ClapModel>(
        *clap_shape, models::ClapModelOptions{.tensors = tensors,
                                              .grad_checkpointing = config.grad_checkpointing,
                                              .exact_shortcuts = config.exact_shortcuts,
                                              .batch_norm_ranks = config.batch_norm_ranks});
    const auto load = [&model = *clap](models::WeightFile& file) { models::load_clap_weights(model, file); };
    return {.model = clap_shape->name, .network = std::move(clap), .load = load};
  }
  auto clip = std::make_unique<models::ClipModel>(
      *shape.clip(), models::ClipModelOptions{.tensors = tensors,
                                              .grad_checkpointing = config.grad_checkpointing,
                                              .exact_shortcuts = config.exact_shortcuts,
                                              .freezes_batch_norm = config.freezes_batch_norm,
                                              .batch_norm_ranks = config.batch_norm_ranks});
  const auto load = [&model = *clip](models::WeightFile& file) {
    for (const auto& told : models::resize_positions(models::named_values(model), file.tensors))
      core::log_info("{}: {}", file.path.string(), told);
    models::load_weights(model, file);
  };
  return {.model = shape.clip()->name, .network = std::move(clip), .load = load, .loads_every_value = true};
}

}  // namespace

std::unique_ptr<models::TwoTowers> build_towers(const config::ContrastiveShape& shape, const TowersConfig& config) {
  LOCKSTEP_CHECK(config.precision != nullptr, "no precision");
  MadeTowers towers = make_towers(shape, config);
  models::TwoTowers& model = *towers.network;
  const auto specs = shape.param_specs();
  if (config.pretrained.empty() || !towers.loads_every_value) nn::initialize(model, specs, config.seed);
  load_weights_of(towers, shape, config);
  config.precision->convert_parameters(model.named_parameters(), specs);
  auto statistics = model.named_buffers();
  std::erase_if(statistics,
                [](const auto& buffer) { return !buffer.tensor->is_floating_point(); });  // counters stay integers
  config.precision->convert_parameters(statistics, specs);
  return std::move(towers.network);
}

}  // namespace lockstep::tasks
