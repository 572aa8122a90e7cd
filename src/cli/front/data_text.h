#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/front/commands.h"
#include "core/json.h"

namespace lockstep::cli {

/// The commands of data that deal with text and tokens.
int run_tokenize(std::span<const std::string> args);
int run_train_bpe(std::span<const std::string> args);
void visit_text_options(const OptionVisitor& visit);

/// Do all of these name token files (.idx or .bin)? UsageError when only some do.
bool are_token_files(std::span<const std::string> paths);
/// `data inspect` and `data verify` of token files. Exit code 4 when one is damaged; vocab_size 0: any id.
int inspect_token_files(std::span<const std::string> paths, int64_t vocab_size, bool as_json);

/// What the commands of data share.
int64_t data_threads(const std::optional<int64_t>& num_workers);
void print_data_json(const core::Json& json);
bool parse_or_help(core::OptionSet& set, std::span<const std::string> args);
void declare_data_workers(core::OptionSet& set, std::optional<int64_t>& num_workers, const std::string& help);

}  // namespace lockstep::cli
