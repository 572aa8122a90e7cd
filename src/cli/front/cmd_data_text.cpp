#include <fmt/format.h>
#include <glob.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/front/data_text.h"
#include "config/option_checks.h"
#include "core/counted.h"
#include "core/error_lines.h"
#include "core/log.h"
#include "core/options.h"
#include "core/print.h"
#include "core/strings.h"
#include "core/units.h"
#include "data/tokens/indexed_dataset.h"
#include "data/tokens/inspect_tokens.h"
#include "data/tokens/tokenize_job.h"

namespace lockstep::cli {
namespace {
using core::Json;
using core::OptionSet;

/// Files in the order of their names, as Python's sorted(glob()) has them; other words, and patterns that match
/// nothing, as they are.
std::vector<std::string> files_of(const std::vector<std::string>& words) {
  std::vector<std::string> files;
  for (const std::string& word : words) {
    glob_t found{};
    std::error_code ignored;
    const bool is_pattern = !std::filesystem::exists(word, ignored) && ::glob(word.c_str(), 0, nullptr, &found) == 0;
    if (!is_pattern) files.push_back(word);
    for (size_t i = 0; i < found.gl_pathc; ++i) files.emplace_back(found.gl_pathv[i]);
    ::globfree(&found);
  }
  return files;
}

/// Flags that name the texts.
struct InputFlags {
  std::vector<std::string> inputs;
  std::vector<std::string> json_keys = {"text"};
  std::optional<int64_t> num_workers;
  bool as_json = false;

  void declare(OptionSet& set) {
    set.add_positional(
        "input", &inputs,
        {.help = "JSON Lines files, or patterns such as '*.jsonl': one object per line.", .metavar = "FILES"});
    set.add("json-keys", &json_keys, {.help = "Fields that hold the text (or a list of texts)."});
    declare_data_workers(set, num_workers, "Threads; the output does not depend on it.");
    set.add("json", &as_json, {.help = "Machine-readable output."});
  }
  data::TokenizeJob job() const {
    return {.inputs = files_of(inputs),
            .keys = json_keys,
            .num_threads = data_threads(num_workers),
            .on_progress = [](int64_t num_documents, double done) {
              core::show_progress(fmt::format("{}  {:.0f} %", core::counted(num_documents, "document"), 100 * done));
            }};
  }
};

struct TokenizeFlags {
  InputFlags input;
  std::string output_prefix;
  data::TokenizerFiles tokenizer;
  bool append_eod = false;
};

/// Flags of Megatron's tools/preprocess_data.py that mean nothing here.
void declare_foreign_flags(OptionSet& set) {
  config::refuse_flags(
      set, {{"documents are not cut into sentences", "drop it, or split the texts before", {"split-sentences"}},
            {"there is one form of token files", "drop it", {"dataset-impl"}, {"mmap"}}});
  config::ignore_flags(set,
                       {{"the tokenizer is recognised by its files", {}, {"tokenizer-type", "tiktoken-pattern"}},
                        {"one process reads all, in order, with --workers threads",
                         {"keep-sequential-samples", "find-optimal-num-workers"},
                         {"partitions", "workers-to-check", "max-documents", "chunk-size"}},
                        {"it belongs to --split-sentences, which is not in this version", {"keep-newlines"}, {"lang"}},
                        {"progress is one line", {}, {"log-interval"}},
                        {"token files hold ids; the size of the vocabulary is the model's",
                         {},
                         {"vocab-size", "make-vocab-size-divisible-by", "padded-vocab-size", "vocab-extra-ids"}}});
}

/// --input FILES, as preprocess_data.py has it, is the argument FILES.
std::vector<std::string> with_input_as_argument(std::span<const std::string> args) {
  std::vector<std::string> inputs, others;
  for (size_t at = 0; at < args.size(); ++at) {
    if (core::starts_with(args[at], "--input=")) {
      inputs.push_back(args[at].substr(std::string("--input=").size()));
    } else if (args[at] == "--input") {
      while (at + 1 < args.size() && !core::starts_with(args[at + 1], "-")) inputs.push_back(args[++at]);
    } else {
      others.push_back(args[at]);
    }
  }
  inputs.insert(inputs.end(), others.begin(), others.end());
  return inputs;
}

OptionSet declare(TokenizeFlags& flags) {
  OptionSet set("data tokenize",
                "Turns JSON Lines into token files (.bin and .idx) that `train gpt` and Megatron read. Takes the flags "
                "of Megatron's preprocess_data.py, --input FILES among them.");
  flags.input.declare(set);
  set.add("output-prefix", &flags.output_prefix,
          {.help = "Files are called PREFIX_KEY_document.bin and .idx.", .metavar = "PREFIX", .aliases = {"o"}});
  set.add("tokenizer-model", &flags.tokenizer.model,
          {.help = "tokenizer.json, a folder with one (or with vocab.json and merges.txt), or a SentencePiece .model.",
           .metavar = "PATH"});
  set.add("vocab-file", &flags.tokenizer.vocab_file,
          {.help = "vocab.json of GPT-2, with --merge-file.", .metavar = "FILE"});
  set.add("merge-file", &flags.tokenizer.merge_file,
          {.help = "merges.txt of GPT-2, with --vocab-file.", .metavar = "FILE"});
  set.add("append-eod", &flags.append_eod, {.help = "Put the end-of-document token behind each document."});
  set.add("eod-token", &flags.tokenizer.eod_token,
          {.help = "That token.",
           .metavar = "TOKEN",
           .unset_text = "<|endoftext|>, <|end_of_text|> or </s>, whichever the model has"});
  declare_foreign_flags(set);
  return set;
}

struct TrainBpeFlags {
  InputFlags input;
  std::string output;
  data::BpeTrainConfig config;
  std::string split_pattern = data::kGpt2Pattern;
};

OptionSet declare(TrainBpeFlags& flags) {
  flags.config.special_tokens = {"<|endoftext|>"};
  OptionSet set("data train-bpe",
                "Trains a byte-level BPE vocabulary on JSON Lines: tokenizer.json, vocab.json and merges.txt.");
  flags.input.declare(set);
  set.add("output", &flags.output, {.help = "Folder to write to.", .metavar = "DIR", .aliases = {"o"}});
  set.add("vocab-size", &flags.config.vocab_size,
          {.help = "Tokens, the 256 bytes and special tokens included.", .unit = "tokens", .min = 256, .max = 1 << 22});
  set.add("min-frequency", &flags.config.min_frequency,
          {.help = "A pair that occurs less often is not merged.", .min = 1});
  set.add("special-tokens", &flags.config.special_tokens, {.help = "Tokens of their own; they get the first ids."});
  set.add("split-pattern", &flags.split_pattern,
          {.help = "How text is cut into words; the default is GPT-2's.", .metavar = "REGEX"});
  return set;
}

void require_flag(const std::string& value, const char* name) {
  if (value.empty()) throw UsageError(fmt::format("data: {} is missing", name), "see --help");
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// A .idx or .bin file, or the prefix of one that is here.
bool is_token_file(const std::string& path) {
  std::error_code ignored;
  const auto exists = [&](const std::string& name) { return std::filesystem::exists(name, ignored); };
  return core::ends_with(path, ".idx") || core::ends_with(path, ".bin") ||
         (!exists(path) && (exists(path + ".idx") || exists(path + ".bin")));
}

}  // namespace

int run_tokenize(std::span<const std::string> args) {
  TokenizeFlags flags;
  OptionSet set = declare(flags);
  if (parse_or_help(set, with_input_as_argument(args))) return 0;
  if (const std::string ignored = set.ignored_warning(); !ignored.empty()) core::log_warning("data: {}", ignored);
  require_flag(flags.output_prefix, "--output-prefix");
  config::need_folder_of(flags.output_prefix);
  data::TokenizeJob job = flags.input.job();
  job.output_prefix = flags.output_prefix;
  job.append_eod = flags.append_eod;
  const auto tokenizer = data::open_text_tokenizer(flags.tokenizer);
  const auto start = std::chrono::steady_clock::now();
  const std::vector<data::TokenizedFile> files = data::tokenize_json_lines(job, *tokenizer);
  core::end_progress();
  const double seconds = seconds_since(start);
  Json list = Json::array();
  for (const data::TokenizedFile& file : files) {
    list.push_back({{"prefix", file.prefix},
                    {"documents", file.num_documents},
                    {"empty_documents", file.num_empty},
                    {"tokens", file.num_tokens}});
    if (!flags.input.as_json)
      core::print("{}: {} ({} empty), {}, {:.1f} s\n", file.prefix, core::counted(file.num_documents, "document"),
                  file.num_empty, core::counted(file.num_tokens, "token"), seconds);
  }
  if (flags.input.as_json)
    print_data_json({{"vocab_size", tokenizer->vocab_size()}, {"seconds", seconds}, {"files", list}});
  return 0;
}

int run_train_bpe(std::span<const std::string> args) {
  TrainBpeFlags flags;
  OptionSet set = declare(flags);
  if (parse_or_help(set, args)) return 0;
  require_flag(flags.output, "--output");
  const data::WordCounter words = data::count_json_lines(flags.input.job(), flags.split_pattern);
  flags.config.on_progress = [&](int64_t num_tokens) {
    core::show_progress(fmt::format("{} of {} tokens", num_tokens, flags.config.vocab_size));
  };
  const data::TrainedBpe trained = data::train_bpe(words.counts(), flags.config);
  core::end_progress();
  data::write_trained_bpe(trained, flags.split_pattern, flags.output);
  const auto num_tokens = static_cast<int64_t>(trained.vocab.size());
  if (flags.input.as_json) {
    print_data_json({{"output", flags.output},
                     {"words", words.counts().size()},
                     {"vocab_size", num_tokens},
                     {"merges", trained.merges.size()}});
  } else {
    core::print("{}: {} from {} different words\n", flags.output, core::counted(num_tokens, "token"),
                words.counts().size());
    if (num_tokens < flags.config.vocab_size)
      core::print("asked for {} tokens: no other pair occurs {} times\n", flags.config.vocab_size,
                  flags.config.min_frequency);
  }
  return 0;
}

void visit_text_options(const OptionVisitor& visit) {
  TokenizeFlags tokenize;
  visit(declare(tokenize));
  TrainBpeFlags train;
  visit(declare(train));
}

bool are_token_files(std::span<const std::string> paths) {
  size_t num_token_files = 0;
  for (const std::string& path : paths) num_token_files += is_token_file(path) ? 1 : 0;
  if (num_token_files != 0 && num_token_files != paths.size())
    throw UsageError("data: token files (.idx, .bin) and shards in one command", "give them to two commands");
  return num_token_files != 0;
}

int inspect_token_files(std::span<const std::string> paths, int64_t vocab_size, bool as_json) {
  Json list = Json::array();
  int exit_code = 0;
  for (const std::string& path : paths) {
    try {
      const data::TokenReport report = data::inspect_tokens(path, vocab_size);
      list.push_back(report.to_json());
      if (as_json) continue;
      core::print("{}: {}, {} ({} empty), {} of type {}\n", report.prefix,
                  core::counted(report.num_documents, "document"), core::counted(report.num_sequences, "sequence"),
                  report.num_empty, core::counted(report.num_tokens, "token"), report.type);
      core::print("  tokens of a sequence: {} to {}, median {}; ids {} to {}\n", report.min_length, report.max_length,
                  report.median_length, report.min_id, report.max_id);
      core::print("  first ids: {}\n", fmt::join(report.first_ids, " "));
    } catch (const DataError& error) {
      exit_code = static_cast<int>(ExitCode::kData);
      list.push_back({{"prefix", data::indexed_prefix(path).string()}, {"error", error.text()}});
      if (!as_json) core::print("DAMAGED {}\n  {}\n", path, one_line_text(error));
    }
  }
  if (as_json) print_data_json({{"token_files", list}});
  return exit_code;
}

}  // namespace lockstep::cli
