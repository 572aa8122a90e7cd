#pragma once
#include <filesystem>
#include <string>

#include "comm/mesh_groups.h"
#include "comm/world.h"
#include "config/gpt_options.h"
#include "core/json.h"
#include "plan/gpt_layout.h"
#include "train/pipeline_step.h"
#include "train/training.h"

namespace lockstep::train {

/// Model, gradients, AdamW and steps of one rank of `train gpt`. `layout` is that of the options
/// (plan::train_gpt_layout) of `groups`, which outlive the result. Collective.
Training build_gpt_training(const config::GptOptions& options, const plan::GptLayout& layout, comm::MeshGroups& groups,
                            at::Device device, const TrainingHooks& hooks = {});

/// Where parameters and activations lie, and of which type they are.
struct GptTensors {
  at::Device device;
  at::ScalarType type;
};

/// The stage of `task` (of build_gpt_training) in the pipeline.
PipelineParts gpt_pipeline_parts(models::Task& task, const plan::GptLayout& layout, comm::MeshGroups& groups,
                                 const GptTensors& tensors, bool is_mean_over_tokens = false);

/// The Precision that --bf16 or --fp16 mean: 16-bit weights with fp32 copies.
std::string gpt_precision(const config::GptOptions& options);

/// Of the tensor and pipeline ranks that hold a parameter or a part of it whether this one speaks for it (in norms and
/// checkpoints): of a replicated parameter the first tensor rank, of an embedding on two stages the first. Ranks of the
/// data axis are not told apart.
bool owns_parameter(const plan::MeshPoint& point, const config::ParamSpec& parameter);

/// The checkpoint of lockstep that --load names: the folder itself, or the newest whole one of a run, damaged ones
/// passed over with warnings, or that of
/// --ckpt-step; none where it is no such thing but weights of another program. CheckpointError where there is none or
/// it is damaged. Collective.
Snapshot find_gpt_snapshot(const config::GptOptions& options, comm::World& world);

/// What a model is: sizes, and what tells models of equal tensors apart (heads, positions, activation, norm).
core::Json gpt_model_facts(const config::GptShape& shape);

}  // namespace lockstep::train
