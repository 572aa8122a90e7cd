#include "config/option_checks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "core/error.h"
#include "core/strings.h"

namespace lockstep::config {

void refuse_if(bool is_wrong, const std::string& message, const std::string& hint) {
  if (is_wrong) throw UsageError("options: " + message, hint);
}

void need_flag(const core::OptionSet& set, bool is_missing, const char* flag, const char* hint) {
  refuse_if(is_missing, fmt::format("'{}' needs {}", set.command(), flag), hint);
}

void need_folder_of(const std::string& file) {
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  std::error_code ignored;
  refuse_if(!folder.empty() && !std::filesystem::exists(folder, ignored),
            fmt::format("the folder '{}' of '{}' does not exist", folder.string(), file),
            "make it first, with mkdir -p");
}

void need_place_of(const std::string& file) {
  std::error_code ignored;
  refuse_if(std::filesystem::is_directory(file, ignored), fmt::format("--output '{}' is a folder", file),
            "name a file in it");
  need_folder_of(file);
}

int64_t parse_bytes(std::string_view text, std::string_view flag) {
  std::string number = core::to_lower_ascii(text);
  for (const char* suffix : {"ib", "b"})
    if (core::ends_with(number, suffix)) {
      number.resize(number.size() - std::string_view(suffix).size());
      break;
    }
  double scale = 1;
  const std::string_view kPrefixes = "kmgt";
  const size_t at = number.empty() ? std::string_view::npos : kPrefixes.find(number.back());
  if (at != std::string_view::npos) {
    scale = std::pow(1024.0, static_cast<double>(at + 1));
    number.pop_back();
  }
  const auto value = core::parse_double(number);
  constexpr double kMost = 1e15;
  if (!value || !(*value * scale >= 1) || *value * scale > kMost)
    throw UsageError(
        fmt::format("options: {} '{}' is no size, expected 1 to 1e15 bytes as 8, 32K, 128M or 1G", flag, text));
  return static_cast<int64_t>(*value * scale);
}

void refuse_flags(core::OptionSet& set, const std::vector<RefusedFlags>& groups) {
  for (const RefusedFlags& group : groups)
    for (const char* name : group.names) set.refuse(name, group.reason, group.instead, group.off);
}

void ignore_flags(core::OptionSet& set, const std::vector<IgnoredFlags>& groups) {
  for (const IgnoredFlags& group : groups) {
    for (const char* name : group.switches) set.ignore(name, group.reason, false);
    for (const char* name : group.with_values) set.ignore(name, group.reason, true);
  }
}

namespace {

constexpr std::string_view kYielded = "wins over ";

bool is_off(const core::Option& option) {
  constexpr std::array<std::string_view, 5> kOff{"False", "None", "", "[]", "0"};
  return std::find(kOff.begin(), kOff.end(), option.value_text()) != kOff.end();
}

const core::Option& option_of(const core::OptionSet& set, std::string_view name) {
  const core::Option* option = set.find(name);
  LOCKSTEP_CHECK(option != nullptr, "no option --{} in '{}'", name, set.command());
  return *option;
}

/// The flag of the command line that chooses this alternative; "" where there is none.
std::string chosen_by(const core::OptionSet& set, const Alternative& alternative) {
  for (const char* flag : alternative.flags) {
    const core::Option& option = option_of(set, flag);
    if (option.origin.kind == core::Origin::Kind::kCommandLine && !is_off(option)) return flag;
  }
  return "";
}

}  // namespace

std::vector<Yielding> find_yielding(const core::OptionSet& set, const std::vector<Alternatives>& groups) {
  std::vector<Yielding> yielding;
  for (const Alternatives& group : groups)
    for (const Alternative& chosen : group) {
      const std::string flag = chosen_by(set, chosen);
      for (const Alternative& other : group) {
        if (flag.empty() || &other == &chosen) continue;
        for (const auto& names : {other.flags, other.parts})
          for (const char* name : names)
            if (option_of(set, name).origin.kind == core::Origin::Kind::kFile && !is_off(option_of(set, name)))
              yielding.push_back({name, flag});
      }
    }
  return yielding;
}

void take_default(core::OptionSet& set, const core::OptionSet& defaults, const Yielding& yielding) {
  const core::Option& option = option_of(set, yielding.name);
  if (option.origin.kind != core::Origin::Kind::kFile) return;  // it has yielded to another flag before
  const core::Option& fresh = option_of(defaults, yielding.name);
  const std::string where = option.origin.text();
  std::visit([&](auto* field) { *field = *std::get<decltype(field)>(fresh.target); }, option.target);
  set.mark_derived(yielding.name, fmt::format("--{}, which {}{}", yielding.to, kYielded, where));
}

std::vector<std::string> yielding_texts(const core::OptionSet& set) {
  std::vector<std::string> texts;
  for (const core::Option& option : set.options())
    if (option.origin.kind == core::Origin::Kind::kDerived && option.origin.file.find(kYielded) != std::string::npos)
      texts.push_back(fmt::format("--{} {}: from {}", option.name, option.value_text(), option.origin.file));
  return texts;
}

}  // namespace lockstep::config
