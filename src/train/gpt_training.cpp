#include "train/gpt_training.h"

#include "core/error.h"
#include "models/gpt/gpt_task.h"
#include "nn/init.h"
#include "parallel/grad_sync_summed.h"
#include "plan/gpt_train.h"

namespace lockstep::train {
namespace {

constexpr const char* kWordEmbedding = "embedding.word.weight";

models::GptModelOptions model_options(const spec::GptOptions& options, const plan::GptLayout& layout, at::Device device) {
  const plan::GptMemoryInput memory = plan::train_gpt_memory(options);
  models::GptModelOptions out{.tensors = at::TensorOptions(device).dtype(at::kFloat),
                              .loss_chunk_tokens = plan::loss_chunk_tokens(layout, options.loss_chunk_tokens),
                              .early_loss_gradients = memory.early_loss_gradients};
  switch (memory.recompute) {
    case plan::RecomputeKind::kNone: break;
    case plan::RecomputeKind::kSelective: out.recompute = models::GptRecompute::kSelective; break;
    case plan::RecomputeKind::kUniform:
      out.recompute = models::GptRecompute::kFull;
      out.recompute_unit = memory.recompute_layers;
      break;
    case plan::RecomputeKind::kBlock:
      out.recompute = models::GptRecompute::kFull;
      out.recompute_blocks = memory.recompute_layers;
      break;
  }
  return out;
}

std::unique_ptr<models::GptTask> build_task(const spec::GptOptions& options, const plan::GptLayout& layout, comm::Mesh& mesh, at::Device device) {
  const nn::ShardCtx shard{&mesh.tp(), layout.is_sequence_parallel};
  std::vector<std::unique_ptr<models::GptModel>> chunks;
  for (int chunk = 0; chunk < layout.pipe.num_chunks; ++chunk) {
    auto& model = chunks.emplace_back(std::make_unique<models::GptModel>(layout.shape, layout.part(mesh.point().pp, chunk), shard, model_options(options, layout, device)));
    nn::initialize_shard(*model, model->param_specs(), static_cast<uint64_t>(options.run.seed), shard);
  }
  return std::make_unique<models::GptTask>(std::move(chunks));
}

std::unique_ptr<parallel::GradSync> build_data_sync(const spec::GptOptions& options, const std::vector<comm::NamedTensor>& parameters, comm::Comm& dp) {
  if (dp.size() == 1) return parallel::make_grad_sync_none(parameters);
  const int64_t elements = options.ddp_bucket_size.value_or(std::max<int64_t>(40'000'000, int64_t{1'000'000} * dp.size()));
  return parallel::make_grad_sync_ddp(parameters, dp, elements * static_cast<int64_t>(sizeof(float)));
}

std::unique_ptr<parallel::GradSync> build_sync(const spec::GptOptions& options, const plan::GptLayout& layout, const std::vector<comm::NamedTensor>& parameters,
                                               const std::vector<spec::ParamSpec>& specs, comm::MeshGroups& groups) {
  std::vector<comm::NamedTensor> own, tied, partial;
  for (size_t i = 0; i < parameters.size(); ++i) {
    (layout.has_split_embedding() && specs[i].name == kWordEmbedding ? tied : own).push_back(parameters[i]);
    if (layout.is_sequence_parallel && specs[i].is_partial_over_tokens) partial.push_back(parameters[i]);
  }
  std::vector<std::unique_ptr<parallel::GradSync>> data;
  for (const auto* share : {&own, &tied})
    if (!share->empty()) data.push_back(build_data_sync(options, *share, groups.mesh.dp()));
  return parallel::make_grad_sync_summed(std::move(data), {{std::move(partial), &groups.mesh.tp()}, {std::move(tied), &groups.ends}});
}

/// What the sync holds, in the order of the parameters.
parallel::Holding in_order(const parallel::Holding& holding, const std::vector<comm::NamedTensor>& parameters) {
  parallel::Holding out{.segments = {}, .shards = holding.shards};
  for (const auto& parameter : parameters)
    for (const auto& segment : holding.segments)
      if (segment.name == parameter.name) out.segments.push_back(segment);
  return out;
}

/// Every element of the model counts on one rank: a replicated parameter on the first tensor rank, a tied one where the embedding is, and of the
/// copies over the data axis the first.
NormShare make_norm_share(const plan::MeshPoint& point, const std::vector<spec::ParamSpec>& specs, comm::Comm& world) {
  NormShare norm{.ranks = &world};
  for (const spec::ParamSpec& spec : specs) norm.counts.push_back(point.dp == 0 && !spec.is_tied_copy && (spec.split_dim.has_value() || point.tp == 0));
  return norm;
}

}  // namespace

void refuse_unbuilt_gpt_options(const spec::GptOptions& o) {
  const auto refuse_if = [](bool condition, const std::string& flag, const std::string& hint) {
    if (condition) throw UsageError(fmt::format("train: {} is not in this version yet", flag), hint);
  };
  refuse_if(o.fp8_format.has_value(), "--fp8-format", "leave it out; --dry-run plans it already");
  refuse_if(o.precision != "fp32", "--" + o.precision, "train in fp32; --dry-run plans it already");
  refuse_if(o.use_distributed_optimizer, "--use-distributed-optimizer", "leave it out: every data rank then keeps the whole state; --dry-run plans it already");
  refuse_if(o.calculate_per_token_loss, "--calculate-per-token-loss", "leave it out: without a loss mask both losses are the same");
  refuse_if(o.dataloader_type == "cyclic", "--dataloader-type cyclic", "leave it out: samples are shuffled once for the whole run");
  refuse_if(o.exit_duration_in_mins.has_value(), "--exit-duration-in-mins", "use --exit-interval, or stop the run with SIGTERM");
  refuse_if(!o.save.empty(), "--save", "checkpoints lie in the run's folder, which --logs and --name choose");
  refuse_if(o.ckpt_step.has_value(), "--ckpt-step", "name a checkpoint with --resume");
  refuse_if(o.no_load_optim, "--no-load-optim", "--load takes weights alone; --resume goes on with the optimiser's state");
  refuse_if(o.no_save_optim, "--no-save-optim", "leave it out");
  refuse_if(o.log_params_norm, "--log-params-norm", "leave it out");
  refuse_if(o.log_num_zeros_in_grad, "--log-num-zeros-in-grad", "leave it out");
}

Training build_gpt_training(const spec::GptOptions& options, const plan::GptLayout& layout, comm::MeshGroups& groups, at::Device device, const TrainingHooks& hooks) {
  refuse_unbuilt_gpt_options(options);
  if (hooks.fault) throw UsageError("train: LOCKSTEP_FAULT knows no stages of a pipeline", "unset it for `train gpt`");
  comm::Mesh& mesh = groups.mesh;
  const plan::MeshPoint point = mesh.point();
  const auto specs = layout.params_of(point.pp);
  Training training;
  training.precision = std::make_unique<Precision>(options.precision, device.type());
  auto task = build_task(options, layout, mesh, device);
  models::GptTask& stage = *task;
  training.task = std::move(task);
  const auto parameters = training.task->network().named_parameters();
  LOCKSTEP_CHECK(parameters.size() == specs.size(), "{} parameters, {} specs", parameters.size(), specs.size());
  training.sync = build_sync(options, layout, parameters, specs, groups);
  training.optimizer = build_optimizer({.beta1 = options.adam_beta1, .beta2 = options.adam_beta2, .epsilon = options.adam_eps, .weight_decay = options.weight_decay},
                                       in_order(training.sync->holding(), parameters), specs);
  training.norm = make_norm_share(point, specs, groups.world);
  const StepRunnerParts parts{.task = stage,
                              .sync = *training.sync,
                              .precision = *training.precision,
                              .data_rank = point.dp,
                              .phases = hooks.phases};
  training.runner = make_pipeline_step(parts, gpt_pipeline_parts(stage, layout, groups, device));
  return training;
}

PipelineParts gpt_pipeline_parts(models::Task& task, const plan::GptLayout& layout, comm::MeshGroups& groups, at::Device device) {
  return {.stage = static_cast<models::GptTask&>(task),
          .stages = groups.mesh.pp(),
          .schedule = plan::make_pipe_schedule(layout.pipe),
          .boundary = at::TensorOptions(device).dtype(at::kFloat),
          .num_data_ranks = groups.mesh.dp().size(),
          .world = groups.world,
          .reports_loss = groups.mesh.point().tp == 0};
}

}  // namespace lockstep::train
