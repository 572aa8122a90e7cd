#pragma once
#include <ATen/core/TensorBody.h>

#include "comm/mesh_groups.h"
#include "plan/gpt_layout.h"
#include "tasks/gpt/front/gpt_options.h"

namespace lockstep::tasks {

/// Refuses a model whose plan is beyond the memory of the ranks' devices, on the CPU of their machines, by more than
/// the plan's margin: EnvironmentError on every rank, before anything is made. Collective.
void check_gpt_fits(const GptOptions& options, const plan::GptLayout& layout, comm::MeshGroups& groups,
                    at::Device device);

}  // namespace lockstep::tasks
