#pragma once
#include <string>

#include "core/json.h"

namespace lockstep::train {

/// Variables of the environment that change how a run behaves or say where it ran: NCCL_*, GLOO_*, OMP_*, SLURM_*,
/// CUDA_VISIBLE_DEVICES and the like.
core::Json environment_facts();

/// The command line of this process as a user would type it, with quotes where the shell needs them.
std::string command_line();

}  // namespace lockstep::train
