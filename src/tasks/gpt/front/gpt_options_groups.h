#pragma once
#include "tasks/gpt/front/gpt_options.h"

namespace lockstep::tasks {

/// Groups of flags of `train gpt` that do not describe the model and its training, for declare_gpt_options.
void declare_gpt_data(core::OptionSet& set, GptOptions& options);     ///< Data and tokenizer.
void declare_gpt_logging(core::OptionSet& set, GptOptions& options);  ///< Devices, ranks, logs, evaluation and profile.
void declare_gpt_checkpoints(core::OptionSet& set, GptOptions& options);  ///< Checkpoints.
void declare_megatron_foreign_flags(core::OptionSet& set);  ///< What of Megatron-LM is refused or has no effect.

}  // namespace lockstep::tasks
