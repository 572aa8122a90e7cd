#include "infer/generate.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <c10/core/TensorOptions.h>

#include <chrono>

#include "core/counted.h"
#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "core/log.h"
#include "core/print.h"
#include "core/strings.h"
#include "data/text/text_utf8.h"
#include "infer/file_list.h"
#include "infer/generation.h"
#include "infer/gpt_source.h"
#include "infer/print_lines.h"
#include "train/device.h"

namespace lockstep::infer {
namespace {

constexpr size_t kShownCharacters = 40;

/// A prompt as the user gave it, and as the model reads it.
struct Prompt {
  std::string text;
  std::vector<int32_t> ids;
  size_t num_leading = 0;  ///< Of ids: those put before the text.
};

std::string shown(const std::string& text) {
  return text.size() <= kShownCharacters ? text : data::repair_utf8(text.substr(0, kShownCharacters)) + "...";
}

/// Between texts and ids, as the model's tokenizer does it, or, without one, as numbers.
class Texts {
 public:
  /// `source` becomes what open_tokenizer makes of it.
  Texts(GptSource& source, const config::GenerateOptions& options)
      : shape_(source.shape), tokenizer_(open_tokenizer(source)), bos_(options.add_bos ? source.bos_id : std::nullopt),
        eod_ids_(source.eod_ids) {
    if (!tokenizer_ && !source.tokenizer.eod_token.empty())
      throw UsageError("infer: --eod-token without a tokenizer",
                       "give --tokenizer-model, or --vocab-file and --merge-file");
    if (options.add_bos && !bos_)
      throw UsageError("infer: --add-bos, but no bos_token_id is known",
                       "it stands in the config.json beside the weights; leave --add-bos out for other models");
  }

  const std::vector<int32_t>& eod_ids() const { return eod_ids_; }
  int64_t num_ids() const { return tokenizer_ ? tokenizer_->vocab_size() : shape_.vocab; }

  /// `number`: of the prompt, from 1, for messages.
  Prompt read(const std::string& text, size_t number) const {
    Prompt prompt{.text = text, .ids = tokenizer_ ? tokenizer_->encode(text) : parse_ids(text, number)};
    const std::optional<int32_t> leading = bos_                                      ? bos_
                                           : prompt.ids.empty() && !eod_ids_.empty() ? std::optional(eod_ids_.front())
                                                                                     : std::nullopt;
    if (leading) prompt.ids.insert(prompt.ids.begin(), *leading);
    prompt.num_leading = leading ? 1 : 0;
    if (prompt.ids.empty())
      throw UsageError(
          fmt::format("infer: prompt {} is empty, and no end-of-document token is known to begin with", number),
          "give --eod-token, or a text");
    for (const int32_t id : prompt.ids)
      if (id < 0 || id >= shape_.vocab)
        throw DataError(fmt::format("infer: prompt {} '{}' has the token id {}, expected 0 to {}", number, shown(text),
                                    id, shape_.vocab - 1),
                        "the model has no such token");
    if (std::ssize(prompt.ids) > shape_.max_positions)
      throw DataError(fmt::format("infer: prompt {} '{}' has {} tokens, the model {} positions", number, shown(text),
                                  prompt.ids.size(), shape_.max_positions),
                      "shorten the prompt");
    return prompt;
  }

  /// The text of a prompt with more ids behind it.
  std::string write(const Prompt& prompt, std::span<const int32_t> more) const {
    std::vector<int32_t> ids(prompt.ids.begin() + static_cast<std::ptrdiff_t>(prompt.num_leading), prompt.ids.end());
    ids.insert(ids.end(), more.begin(), more.end());
    return tokenizer_ ? tokenizer_->decode(ids) : fmt::format("{}", fmt::join(ids, " "));
  }

 private:
  std::vector<int32_t> parse_ids(const std::string& text, size_t number) const {
    std::vector<int32_t> ids;
    for (const std::string& word : core::split(text, " ")) {
      if (word.empty()) continue;
      const auto id = core::parse_int(word);
      if (!id || *id < INT32_MIN || *id > INT32_MAX)
        throw UsageError(
            fmt::format("infer: prompt {} '{}' has the word '{}', expected token ids: the model has no tokenizer",
                        number, shown(text), shown(word)),
            "give --tokenizer-model, or --vocab-file and --merge-file");
      ids.push_back(static_cast<int32_t>(*id));
    }
    return ids;
  }

  const config::GptShape& shape_;
  std::unique_ptr<data::TextTokenizer> tokenizer_;  // nullptr: ids
  std::optional<int32_t> bos_;
  std::vector<int32_t> eod_ids_;
};

std::vector<Prompt> read_prompts(const config::GenerateOptions& options, const Texts& texts) {
  std::vector<std::string> given = options.prompts;
  if (!options.prompt_file.empty())
    for (std::string& line : read_lines(options.prompt_file)) given.push_back(std::move(line));
  std::vector<Prompt> prompts;
  for (const std::string& text : given) prompts.push_back(texts.read(text, prompts.size() + 1));
  return prompts;
}

GenerationConfig generation_config(const config::GenerateOptions& options, const Texts& texts) {
  return {.choice = {.is_greedy = !options.is_sampled(),
                     .temperature = options.temperature.value_or(1.0),
                     .top_k = options.top_k.value_or(0),
                     .top_p = options.top_p.value_or(1.0)},
          .seed = static_cast<uint64_t>(options.seed),
          .max_new_tokens = options.max_new_tokens,
          .num_ids = texts.num_ids(),
          .stop_ids = options.stop_at_eod ? texts.eod_ids() : std::vector<int32_t>()};
}

/// Without the token that ended the text.
std::span<const int32_t> said(const Continuation& continuation) {
  const std::span<const int32_t> ids = continuation.ids;
  return continuation.reason == StopReason::kEod ? ids.first(ids.size() - 1) : ids;
}

std::string result_text(const Prompt& prompt, const Continuation& continuation, const Texts& texts, bool as_json) {
  const std::string all = texts.write(prompt, said(continuation));
  if (!as_json) return core::printable(data::repair_utf8(all)) + "\n";
  const std::string before = texts.write(prompt, {});
  const std::string added = core::starts_with(all, before) ? all.substr(before.size()) : all;
  return core::Json{{"prompt", data::repair_utf8(prompt.text)},
                    {"text", data::repair_utf8(added)},
                    {"ids", continuation.ids},
                    {"stopped", stop_reason_name(continuation.reason)}}
             .dump() +
         "\n";
}

}  // namespace

void generate(const config::GenerateOptions& options) {
  if (options.threads > 0) at::set_num_threads(static_cast<int>(options.threads));
  GptSource source = find_gpt(options);
  const Texts texts(source, options);
  const std::vector<Prompt> prompts = read_prompts(options, texts);  // before the weights, which take longer
  const at::Device device = train::pick_device(options.device, options.gpu_math);
  const auto model =
      load_gpt(source, at::TensorOptions(device).dtype(options.precision == "bf16" ? at::kBFloat16 : at::kFloat));
  const GenerationConfig config = generation_config(options, texts);
  const auto start = std::chrono::steady_clock::now();
  const auto batch = static_cast<size_t>(options.prompts_per_batch);
  prepare_generation(*model, std::min(batch, prompts.size()));
  std::string results;
  size_t num_read = 0, num_added = 0;
  for (size_t first = 0; first < prompts.size(); first += batch) {
    std::vector<std::vector<int32_t>> ids;
    for (size_t i = first; i < std::min(first + batch, prompts.size()); ++i) ids.push_back(prompts[i].ids);
    const auto continuations = generate_tokens(*model, ids, first, config);
    std::string lines;
    for (size_t i = 0; i < continuations.size(); ++i) {
      if (first + i > 0 && !options.as_json) lines += "\n";
      lines += result_text(prompts[first + i], continuations[i], texts, options.as_json);
      num_read += ids[i].size();
      num_added += continuations[i].ids.size();
    }
    if (options.output.empty())
      print_lines(lines);
    else
      results += lines;
    core::show_progress(fmt::format("{} of {} prompts", first + ids.size(), prompts.size()));
  }
  core::end_progress();
  if (!options.output.empty()) core::write_file_atomic(options.output, results);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  core::log_info("{} of {}, {} added in {:.2f} s: {:.1f} tokens/s{}", core::counted(prompts.size(), "prompt"),
                 core::counted(num_read, "token"), core::counted(num_added, "token"), seconds,
                 static_cast<double>(num_added) / seconds, options.output.empty() ? "" : " -> " + options.output);
}

}  // namespace lockstep::infer
