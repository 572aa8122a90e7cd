#include "tasks/gpt/front/gpt_data_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/counted.h"

namespace lockstep::tasks {
namespace {

/// "0.23 passes"; "0.2 to 3.1 passes" over several corpora.
std::string passes_text(double fewest, double most) {
  const std::string least = fmt::format("{:.3g}", fewest), highest = fmt::format("{:.3g}", most);
  return least == highest ? fmt::format("{} {}", least, least == "1" ? "pass" : "passes")
                          : fmt::format("{} to {} passes", least, highest);
}

SplitFact split_fact(const data::GptDataConfig& config, data::Split split, const std::vector<data::SplitSize>& sizes) {
  const int64_t wanted = config.num_samples[static_cast<size_t>(split)], length = config.sequence_length;
  int64_t documents = 0, tokens = 0, samples = 0;
  double fewest = 0, most = 0;
  for (const data::SplitSize& size : sizes) {
    documents += size.num_documents;
    tokens += size.num_tokens;
    samples += std::max<int64_t>(0, size.num_tokens - 1) / length;  // one token more for the last label
    const double passes =
        static_cast<double>(wanted * length) * size.share / static_cast<double>(std::max<int64_t>(1, size.num_tokens));
    fewest = &size == &sizes.front() ? passes : std::min(fewest, passes);
    most = std::max(most, passes);
  }
  SplitFact fact{.name = data::split_name(split),
                 .json = {{"documents", documents},
                          {"tokens", tokens},
                          {"samples_per_pass", samples},
                          {"samples", wanted},
                          {"passes", {fewest, most}}}};
  fact.text = fmt::format("{}, {}, {} of {} tokens a pass; the run takes {}: {}", core::counted(documents, "document"),
                          core::counted(tokens, "token"), core::counted(samples, "sample"), length, wanted,
                          passes_text(fewest, most));
  if (samples == 0)
    fact.warning = fmt::format(
        "the {} split holds {}, less than one sample of {} and its last label: the same tokens come again within a "
        "sample; were --split, --seq-length or the data meant otherwise?",
        fact.name, core::counted(tokens, "token"), length);
  return fact;
}

}  // namespace

int64_t gpt_num_evaluations(const GptOptions& options, int64_t num_steps) {
  return options.eval_interval && options.eval_iters > 0 ? num_steps / *options.eval_interval + 1 : 0;
}

data::GptDataConfig gpt_data_config(const GptOptions& options, const plan::GptLayout& layout) {
  const int64_t batch = layout.batch.global_batch, steps = gpt_train_steps(options, batch);
  data::GptDataConfig config{
      .data_path = options.data_path,
      .split = options.split.value_or(options.mock_data ? "1,1,1" : "969, 30, 1"),
      .sequence_length = layout.shape.sequence,
      // Of --train-samples also those that fill no whole step: Megatron-LM puts all of them in order.
      .num_samples = {std::max(options.train_samples.value_or(0), steps * batch),
                      gpt_num_evaluations(options, steps) * options.eval_iters * batch, 0},
      .seed = static_cast<uint32_t>(options.seed),
      .vocab_size = layout.shape.vocab};
  config.path_of_split[static_cast<size_t>(data::Split::kTrain)] = options.train_data_path;
  config.path_of_split[static_cast<size_t>(data::Split::kValid)] = options.valid_data_path;
  return config;
}

std::vector<SplitFact> gpt_split_facts(const data::GptDataConfig& config) {
  std::vector<SplitFact> facts;
  for (const data::Split split : {data::Split::kTrain, data::Split::kValid}) {
    if (config.num_samples[static_cast<size_t>(split)] == 0) continue;
    if (const auto sizes = data::measure_split(config, split); !sizes.empty())
      facts.push_back(split_fact(config, split, sizes));
  }
  return facts;
}

}  // namespace lockstep::tasks
