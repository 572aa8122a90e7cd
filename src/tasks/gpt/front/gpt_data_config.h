#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/json.h"
#include "data/tokens/gpt_dataset.h"
#include "plan/gpt_layout.h"
#include "tasks/gpt/front/gpt_options.h"

namespace lockstep::tasks {

/// Evaluations of the whole run, that after the last step included; 0 where nothing is evaluated.
int64_t gpt_num_evaluations(const GptOptions& options, int64_t num_steps);

/// Which samples a run takes, as far as flags say it: eod, memory and cache are the run's.
data::GptDataConfig gpt_data_config(const GptOptions& options, const plan::GptLayout& layout);

/// How much there is of a split, and how often the run passes over it.
struct SplitFact {
  std::string name = {};  ///< "train", "valid"
  core::Json json = {};
  /// "950 documents, 112000 tokens, 1749 samples of 64 tokens a pass; the run takes 400: 0.229 passes"
  std::string text = {};
  std::string warning = {};  ///< Where the split has not even one sample; else "".
};
/// Of the splits that the run reads; none of made-up data. DataError where files are missing or damaged.
std::vector<SplitFact> gpt_split_facts(const data::GptDataConfig& config);

}  // namespace lockstep::tasks
