#pragma once
#include <cstdint>
#include <string>

#include "core/options.h"

namespace lockstep::config {

/// What every command that computes with a model in one process has: --device and --threads.
void declare_device_option(core::OptionSet& set, std::string* device);
void declare_threads_option(core::OptionSet& set, int64_t* threads);
/// --cuda-graphs, of commands that compute the same network over and over.
void declare_cuda_graphs_option(core::OptionSet& set, std::string* cuda_graphs);

}  // namespace lockstep::config
