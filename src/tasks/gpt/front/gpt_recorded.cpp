#include "tasks/gpt/front/gpt_recorded.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/strings.h"

namespace lockstep::tasks {
namespace {

constexpr std::array<std::string_view, 5> kDataFlags = {"mock-data", "tokenizer-type", "tokenizer-model", "vocab-file",
                                                        "merge-file"};

bool is_wanted(const core::Option& option) {
  return option.spec.group == "Model" ||
         std::find(kDataFlags.begin(), kDataFlags.end(), option.name) != kDataFlags.end();
}

/// The flag as it would be typed; "" where nothing would.
std::string typed(const core::Option& option, const core::Json& value) {
  if (value.is_null() || value == core::Json("") || value == core::Json(false)) return "";
  if (option.is_flag()) return "--" + option.name;
  return fmt::format("--{}={}", option.name, value.is_string() ? value.get<std::string>() : value.dump());
}

}  // namespace

GptOptions recorded_gpt_options(const core::Json& values, const std::string& where) {
  GptOptions options;
  core::OptionSet set = declare_gpt_options(options);
  std::vector<std::string> args;
  for (const core::Option& option : set.options()) {
    const std::string key = core::replace_all(option.name, "-", "_");
    if (!is_wanted(option) || !values.is_object() || !values.contains(key)) continue;
    if (std::string arg = typed(option, values.at(key)); !arg.empty()) args.push_back(std::move(arg));
  }
  try {
    set.parse(args);
  } catch (const UsageError& error) {
    throw DataError(fmt::format("spec: the options recorded in '{}' cannot be taken: {}", where, error.what()),
                    "was the file edited?");
  }
  return options;
}

}  // namespace lockstep::tasks
