#include "tasks/gpt/engine/gpt_training.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "checkpoint/manifest.h"
#include "config/hub_names.h"
#include "core/error.h"
#include "core/json.h"
#include "core/log.h"
#include "core/strings.h"
#include "models/gpt/gpt_task.h"
#include "models/gpt/gpt_weights.h"
#include "models/weights_folder.h"
#include "nn/init.h"
#include "optim/make_optimizer.h"
#include "parallel/grad_sync_summed.h"
#include "tasks/gpt/front/gpt_plan.h"
#include "train/agree.h"
#include "train/checkpoint_files.h"
#include "train/checkpoint_reader.h"
#include "train/grad_sync_choice.h"
#include "train/recorded_step.h"

namespace lockstep::tasks {
namespace {

std::optional<nn::Fp8Options> fp8_options(const GptOptions& options) {
  if (!options.fp8_format) return std::nullopt;
  return nn::Fp8Options{
      .recipe = options.fp8_recipe == "delayed" ? nn::Fp8Recipe::kDelayed : nn::Fp8Recipe::kTensorwise,
      .gradient_type = *options.fp8_format == "hybrid" ? at::kFloat8_e5m2 : at::kFloat8_e4m3fn,
      .margin = options.fp8_margin,
      .history_len = options.fp8_amax_history_len,
      .uses_max = options.fp8_amax_compute_algo == "max"};
}

models::GptModelOptions model_options(const GptOptions& options, const plan::GptLayout& layout,
                                      const GptTensors& tensors) {
  const plan::GptMemoryInput memory = train_gpt_memory(options);
  return {.tensors = at::TensorOptions(tensors.device).dtype(tensors.type),
          .recompute = memory.recompute,
          .recompute_layers = memory.recompute_layers,
          .loss_chunk_tokens = plan::loss_chunk_tokens(layout, options.loss_chunk_tokens),
          .early_loss_gradients = memory.early_loss_gradients,
          .numbered_attention_dropout = options.attention_backend == "unfused",
          .fp8 = fp8_options(options),
          .fp8_spares_ends = options.first_last_layers_bf16};
}

std::unique_ptr<models::GptTask> build_task(const GptOptions& options, const plan::GptLayout& layout, comm::Mesh& mesh,
                                            const GptTensors& tensors) {
  const nn::ShardCtx shard{&mesh.tp(), layout.is_sequence_parallel};
  std::vector<std::unique_ptr<models::GptModel>> chunks;
  for (int chunk = 0; chunk < layout.pipe.num_chunks; ++chunk) {
    auto& model = chunks.emplace_back(std::make_unique<models::GptModel>(
        layout.shape, layout.part(mesh.point().pp, chunk), shard, model_options(options, layout, tensors)));
    nn::initialize_shard(*model, model->param_specs(), static_cast<uint64_t>(options.seed), shard);
  }
  return std::make_unique<models::GptTask>(std::move(chunks), &mesh.dp());
}

std::unique_ptr<parallel::GradSync> build_data_sync(const GptOptions& options,
                                                    const std::vector<comm::NamedTensor>& parameters, comm::Comm& dp) {
  const plan::GptTrafficInput traffic = train_gpt_traffic(options);
  const parallel::MasterOptions masters{.has_masters = options.precision != "fp32",
                                        .fp32_gradients = options.accumulate_allreduce_grads_in_fp32};
  return train::make_grad_sync({.flag = options.use_distributed_optimizer ? "zero1" : "auto",
                                .bucket_bytes = plan::gpt_bucket_elements(traffic, dp.size()) * traffic.bytes.gradient,
                                .masters = masters},
                               parameters, dp);
}

std::unique_ptr<parallel::GradSync> build_sync(const GptOptions& options, const plan::GptLayout& layout,
                                               const std::vector<comm::NamedTensor>& parameters,
                                               const std::vector<config::ParamSpec>& specs, comm::MeshGroups& groups) {
  std::vector<comm::NamedTensor> own, tied;
  std::set<std::string> partial, tied_names;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const bool is_tied = layout.has_split_embedding() && specs[i].name == config::kGptWordEmbedding;
    (is_tied ? tied : own).push_back(parameters[i]);
    if (is_tied) tied_names.insert(specs[i].name);
    if (layout.is_sequence_parallel && specs[i].is_partial_over_tokens) partial.insert(specs[i].name);
  }
  std::vector<std::unique_ptr<parallel::GradSync>> data;
  // Parameters are gathered in the order of use: the embedding on the first stage, the head on the last.
  const bool uses_tied_first = groups.mesh.point().pp == 0;
  for (const auto* share : uses_tied_first ? std::array{&tied, &own} : std::array{&own, &tied})
    if (!share->empty()) data.push_back(build_data_sync(options, *share, groups.mesh.dp()));
  return parallel::make_grad_sync_summed(
      std::move(data), {{std::move(partial), &groups.mesh.tp()}, {std::move(tied_names), &groups.ends}});
}

/// What the sync holds, in the order of the parameters.
parallel::Partition in_order(const parallel::Partition& partition, const std::vector<comm::NamedTensor>& parameters) {
  parallel::Partition out{.segments = {}, .shards = partition.shards};
  for (const auto& parameter : parameters)
    for (const auto& segment : partition.segments)
      if (segment.name == parameter.name) out.segments.push_back(segment);
  return out;
}

/// Elements of this rank's part of a parameter that are of the model: padding of a vocabulary lies behind them.
int64_t num_elements(const plan::GptLayout& layout, const plan::MeshPoint& point, const config::ParamSpec& spec) {
  const int64_t own = spec.numel() / (spec.split_dim ? layout.tp() : 1);
  if (!config::is_vocab_table(spec)) return own;
  const int64_t width = spec.shape.at(1), num_rows = own / width;
  return std::clamp<int64_t>(layout.shape.vocab - (spec.split_dim ? point.tp * num_rows : 0), 0, num_rows) * width;
}

/// Every element of the model counts on one rank, that which owns_parameter() names; of copies over the data axis the
/// first.
train::NormShare make_norm_share(const plan::GptLayout& layout, const plan::MeshPoint& point,
                                 const std::vector<optim::Segment>& segments,
                                 const std::vector<config::ParamSpec>& specs, comm::Comm& world) {
  std::map<std::string, int64_t> owned;
  for (const config::ParamSpec& spec : specs)
    owned[spec.name] = owns_parameter(point, spec) ? num_elements(layout, point, spec) : 0;
  train::NormShare norm{.ranks = &world};
  for (const optim::Segment& segment : segments)
    norm.counted.push_back(
        layout.is_optimizer_sharded || point.dp == 0
            ? std::clamp<int64_t>(owned.at(segment.name) - segment.offset, 0, segment.parameter.numel())
            : 0);
  return norm;
}

std::unique_ptr<optim::LossScaler> make_scaler(const GptOptions& options, at::Device device) {
  if (options.precision != "fp16" && !options.loss_scale) return nullptr;
  return std::make_unique<optim::LossScaler>(
      device, optim::LossScalerConfig{.initial_scale = options.loss_scale.value_or(options.initial_loss_scale),
                                      .growth_interval = options.loss_scale_window,
                                      .hysteresis = options.hysteresis,
                                      .min_scale = options.min_loss_scale,
                                      .is_constant = options.loss_scale.has_value()});
}

/// Where the tensors of this rank lie in the model.
std::map<std::string, train::TensorPlace> make_places(const plan::GptLayout& layout, const plan::MeshPoint& point,
                                                      nn::Module& network,
                                                      const std::vector<config::ParamSpec>& specs) {
  std::map<std::string, train::TensorPlace> places;
  const bool writes_state = layout.is_optimizer_sharded || point.dp == 0;
  for (const config::ParamSpec& spec : specs) {
    const bool is_owner = owns_parameter(point, spec);
    train::TensorPlace place{
        .whole = spec.shape,
        .num_rows = config::is_vocab_table(spec) ? std::optional(layout.shape.vocab) : std::nullopt,
        .writes_values = is_owner && point.dp == 0,
        .writes_state = is_owner && writes_state};
    if (spec.split_dim) {
      place.dim = *spec.split_dim;
      place.begin = point.tp * (spec.shape[static_cast<size_t>(place.dim)] / layout.tp());
    }
    places.emplace(spec.name, std::move(place));
  }
  for (const auto& [name, tensor] : network.named_buffers())
    places.emplace(name,
                   train::TensorPlace{.whole = tensor->sizes().vec(), .writes_values = point.tp == 0 && point.dp == 0});
  return places;
}

/// Parameters and buffers of all ranks. Collective.
std::set<std::string> names_of_all(nn::Module& network, comm::Comm& world) {
  std::vector<std::string> own;
  for (const auto& tensors : {network.named_parameters(), network.named_buffers()})
    for (const auto& tensor : tensors) own.push_back(tensor.name);
  std::set<std::string> all;
  for (const std::string& of_rank : world.gather_strings(core::join(own, "\n")))
    for (const std::string& name : core::split(of_rank, "\n")) all.insert(name);
  return all;
}

/// Where a folder has a configuration it must be that of this model: equal tensors are not enough.
void check_foreign_model(const config::GptShape& shape, const std::filesystem::path& config) {
  if (!std::filesystem::exists(config)) return;
  const core::Json own = gpt_model_facts(shape), other = gpt_model_facts(config::resolve_gpt_shape(config.string()));
  if (const auto key = train::differing_fact(own, other))
    throw CheckpointError(fmt::format("train: --load '{}' is of another model: it has {}={}, this run {}",
                                      config.string(), *key, other.at(*key).dump(), own.at(*key).dump()),
                          fmt::format("train it with --model {}", config.string()));
}

/// A folder or file of Hugging Face's or Megatron's names.
void load_foreign_weights(models::GptTask& task, const std::filesystem::path& load) {
  if (!std::filesystem::exists(load))
    throw CheckpointError(
        fmt::format("train: --load '{}' does not exist", load.string()),
        config::hint_for_name(load.string(), "name its folder with --load",
                              "name a run of lockstep or one of its checkpoints, or a folder of Hugging Face"));
  check_foreign_model(task.chunk(0).shape(), load / "config.json");
  const models::WeightFile weights =
      std::filesystem::is_directory(load) ? models::read_weight_folder(load) : models::read_weights(load);
  for (int64_t chunk = 0; chunk < task.num_chunks(); ++chunk) models::load_gpt_weights(task.chunk(chunk), weights);
}

/// --load, as far as it is weights alone: what they were taken of, if that is a checkpoint of lockstep. Collective.
std::optional<train::RestoredCheckpoint> load_weights(const GptOptions& options, const train::TrainingHooks& hooks,
                                                      const GptTraining& training, comm::Comm& world) {
  const train::Snapshot& snapshot = hooks.snapshot;
  if (options.load.empty() || hooks.is_restored) return std::nullopt;  // the Checkpointer restores all of it
  if (snapshot.folder.empty()) {
    train::succeed_together(
        world, [&] { load_foreign_weights(*training.stage, options.load); }, hooks.waits.for_all);
    return std::nullopt;
  }
  if (snapshot.use == train::SnapshotUse::kAll) return std::nullopt;  // so it does then
  const train::CheckpointReader reader({.tensors = training.task->network().named_parameters(),
                                        .layout = training.layout,
                                        .replicas = training.data_axis},
                                       world, hooks.waits);
  return reader.take(snapshot.choose);
}

struct SnapshotChoice {
  std::string folder{};  ///< "": --load is no such thing.
  std::vector<std::string> passed_over{};
};

/// The checkpoint of --load.
SnapshotChoice choose_snapshot(const GptOptions& options, const checkpoint::VerifyFunction& verify) {
  const std::filesystem::path load = options.load;
  const bool is_checkpoint = std::filesystem::exists(load / checkpoint::kManifestName);
  if (load.empty()) return {};
  const auto is_run = [&] {  // or a copy of its folder checkpoints/
    return std::filesystem::exists(load / "checkpoints") ||
           (std::filesystem::is_directory(load) && !checkpoint::list_checkpoints(load).empty());
  };
  if (!is_checkpoint && !is_run()) return {};
  const auto whole = [&](const std::filesystem::path& folder) {
    train::require_whole(folder, verify);
    return SnapshotChoice{.folder = folder.string()};
  };
  if (is_checkpoint) return whole(load);
  if (options.ckpt_step) {
    for (const auto& entry : checkpoint::list_checkpoints(load))
      if (entry.step == *options.ckpt_step && entry.problem.empty()) return whole(entry.folder);
    throw CheckpointError(
        fmt::format("train: '{}' has no usable checkpoint of --ckpt-step {}", load.string(), *options.ckpt_step),
        "leave --ckpt-step out for the newest");
  }
  const auto choice = checkpoint::choose_latest(load, verify);
  if (!choice.chosen)
    throw CheckpointError(fmt::format("train: --load '{}' has no whole checkpoint{}", load.string(),
                                      choice.skipped.empty() ? "" : ": " + choice.skipped.front()));
  return {.folder = choice.chosen->folder.string(), .passed_over = choice.skipped};
}

/// By the files themselves, and with a word on those that are passed over.
std::string choose_whole_snapshot(const GptOptions& options, const checkpoint::VerifyFunction& verify) {
  const SnapshotChoice choice = choose_snapshot(options, verify);
  for (const auto& reason : choice.passed_over)
    core::log_warning("train: checkpoint of --load passed over: {}", reason);
  if (choice.folder.empty())
    throw CheckpointError(
        fmt::format("train: the checkpoint of --load '{}' is gone since this run began", options.load));
  return choice.folder;
}

}  // namespace

core::Json gpt_model_facts(const config::GptShape& shape) {
  core::Json facts{{"layers", shape.layers},
                   {"hidden", shape.hidden},
                   {"ffn", shape.ffn},
                   {"heads", shape.heads},
                   {"query_groups", shape.query_groups},
                   {"positions", config::gpt_positions_name(shape.positions)},
                   {"activation", config::gpt_activation_name(shape.activation)},
                   {"norm", config::gpt_norm_name(shape.norm)},
                   {"norm_eps", shape.norm_eps}};
  if (shape.positions == config::GptPositions::kRotary)
    facts.update({{"rotary_fraction", shape.rotary_fraction},
                  {"rotary_base", shape.rotary_base},
                  {"rotary_scaling", shape.rotary_scaling.has_value()}});
  return facts;
}

train::Snapshot find_gpt_snapshot(const GptOptions& options, comm::Comm& world) {
  const auto use = options.finetune        ? train::SnapshotUse::kWeights
                   : options.no_load_optim ? train::SnapshotUse::kWeightsAndPosition
                                           : train::SnapshotUse::kAll;
  const checkpoint::VerifyFunction sizes = [](const std::filesystem::path& folder,
                                              const checkpoint::CheckpointManifest& manifest) {
    return checkpoint::verify_files(folder, manifest, checkpoint::VerifyDepth::kSizes);
  };
  const bool is_whole = use == train::SnapshotUse::kAll;
  return {.folder = train::decide_on_rank_zero(
              world, [&] { return choose_snapshot(options, is_whole ? sizes : train::of_model(sizes)).folder; }),
          .use = use,
          .choose = [&options](const checkpoint::VerifyFunction& verify) {
            return choose_whole_snapshot(options, verify);
          }};
}

bool owns_parameter(const plan::MeshPoint& point, const config::ParamSpec& parameter) {
  return !parameter.is_tied_copy && (parameter.split_dim.has_value() || point.tp == 0);
}

GptTraining build_gpt_training(const GptOptions& options, const plan::GptLayout& layout, comm::MeshGroups& groups,
                               at::Device device, const train::TrainingHooks& hooks) {
  if (hooks.fault) throw UsageError("train: LOCKSTEP_FAULT knows no stages of a pipeline", "unset it for `train gpt`");
  comm::Mesh& mesh = groups.mesh;
  const plan::MeshPoint point = mesh.point();
  const auto specs = layout.params_of(point.pp);
  GptTraining training;
  training.data_axis = &mesh.dp();
  training.precision = std::make_unique<train::Precision>(gpt_precision(options), device.type());
  auto task = build_task(options, layout, mesh, {device, training.precision->input_type()});
  training.stage = task.get();
  training.task = std::move(task);
  training.layout = {.holds_part = layout.tp() * layout.pp() > 1,
                     .places = make_places(layout, point, training.task->network(), specs),
                     .all_names = names_of_all(training.task->network(), groups.world)};
  training.weights_from = load_weights(options, hooks, training, groups.world);  // before they are copied
  const auto parameters = training.task->network().named_parameters();
  LOCKSTEP_CHECK(parameters.size() == specs.size(), "{} parameters, {} specs", parameters.size(), specs.size());
  training.sync = build_sync(options, layout, parameters, specs, groups);
  train::prepare_parameter_reads(training);
  training.optimizer =
      optim::make_optimizer({.beta1 = options.adam_beta1,
                             .beta2 = options.adam_beta2,
                             .epsilon = options.adam_eps,
                             .weight_decay = options.weight_decay},
                            train::optimizer_segments(in_order(training.sync->partition(), parameters), specs));
  training.norm = make_norm_share(layout, point, training.optimizer->segments(), specs, groups.world);
  training.scaler = make_scaler(options, device);
  training.runner = train::make_recorded_step(
      train::step_runner_parts(training, point.dp, hooks), [&](const train::StepRunnerParts& parts) {
        return train::make_pipeline_step(
            parts, gpt_pipeline_parts(*training.stage, layout, groups, {device, training.precision->input_type()},
                                      options.calculate_per_token_loss));
      });
  return training;
}

train::PipelineParts gpt_pipeline_parts(models::GptTask& stage, const plan::GptLayout& layout, comm::MeshGroups& groups,
                                        const GptTensors& tensors, bool is_mean_over_tokens) {
  return {.stage = stage,
          .stages = groups.mesh.pp(),
          .back = groups.back,
          .schedule = plan::make_pipe_schedule(layout.pipe),
          .boundary = at::TensorOptions(tensors.device).dtype(tensors.type),
          .data_axis = groups.mesh.dp(),
          .world = groups.world,
          .reports_loss = groups.mesh.point().tp == 0,
          .is_mean_over_tokens = is_mean_over_tokens};
}

}  // namespace lockstep::tasks
