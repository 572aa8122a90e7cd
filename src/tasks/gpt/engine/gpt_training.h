#pragma once
#include <filesystem>
#include <string>

#include "comm/comm.h"
#include "comm/mesh_groups.h"
#include "core/json.h"
#include "models/gpt/gpt_task.h"
#include "plan/gpt_layout.h"
#include "tasks/gpt/front/gpt_options.h"
#include "train/pipeline_step.h"
#include "train/training.h"

namespace lockstep::tasks {

/// The steps of a GPT on this rank.
struct GptTraining : train::Training {
  models::GptTask* stage = nullptr;  ///< The task: this rank's stage of the pipeline.
};

/// Model, gradients, AdamW and steps of one rank of `train gpt`. `layout` is that of the options
/// (tasks::train_gpt_layout) of `groups`, which outlive the result. Collective.
GptTraining build_gpt_training(const GptOptions& options, const plan::GptLayout& layout, comm::MeshGroups& groups,
                               at::Device device, const train::TrainingHooks& hooks = {});

/// Where parameters and activations lie, and of which type they are.
struct GptTensors {
  at::Device device;
  at::ScalarType type;
};

/// `stage` (of build_gpt_training) in the pipeline.
train::PipelineParts gpt_pipeline_parts(models::GptTask& stage, const plan::GptLayout& layout, comm::MeshGroups& groups,
                                        const GptTensors& tensors, bool is_mean_over_tokens = false);

/// Of the tensor and pipeline ranks that hold a parameter or a part of it whether this one speaks for it (in norms and
/// checkpoints): of a replicated parameter the first tensor rank, of an embedding on two stages the first. Ranks of the
/// data axis are not known apart.
bool owns_parameter(const plan::MeshPoint& point, const config::ParamSpec& parameter);

/// The checkpoint of lockstep that --load names: the folder itself, or the newest whole one of a run, damaged ones
/// passed over with warnings, or that of --ckpt-step; none where it is no such thing but weights of another program.
/// CheckpointError where there is none, or where its manifest or the sizes of its files tell of damage; what is in them
/// is tested when it is taken. `options` outlive the result. Collective.
train::Snapshot find_gpt_snapshot(const GptOptions& options, comm::Comm& world);

/// What a model is: sizes, and what tells models of equal tensors apart (heads, positions, activation, norm).
core::Json gpt_model_facts(const config::GptShape& shape);

}  // namespace lockstep::tasks
