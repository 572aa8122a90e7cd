#include "record/meta.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "core/error.h"
#include "core/files.h"
#include "core/strings.h"
#include "core/toml.h"

namespace lockstep::record {
namespace {

namespace fs = std::filesystem;

/// Facts as they were given, by name; later sources replace earlier ones.
struct Facts {
  std::map<std::string, std::string> values{};  // name -> text
  std::map<std::string, std::string> tags{};
};

constexpr std::array kTexts =
    std::to_array<std::pair<std::string_view, std::string RunSetup::*>>({{"task", &RunSetup::task},
                                                                         {"model", &RunSetup::model},
                                                                         {"precision", &RunSetup::precision},
                                                                         {"system", &RunSetup::system},
                                                                         {"device", &RunSetup::device},
                                                                         {"layout", &RunSetup::layout},
                                                                         {"sample_unit", &RunSetup::sample_unit},
                                                                         {"flops_formula", &RunSetup::flops_formula},
                                                                         {"peak_source", &RunSetup::peak_source}});
constexpr std::array kCounts = std::to_array<std::pair<std::string_view, std::optional<int64_t> RunSetup::*>>(
    {{"nodes", &RunSetup::nodes},
     {"devices", &RunSetup::devices},
     {"global_batch", &RunSetup::global_batch},
     {"samples_per_device", &RunSetup::samples_per_device},
     {"accum", &RunSetup::accum},
     {"sequence_length", &RunSetup::sequence_length}});
constexpr std::array kNumbers = std::to_array<std::pair<std::string_view, std::optional<double> RunSetup::*>>(
    {{"forward_gflops", &RunSetup::forward_gflops_per_sample}, {"peak_tflops", &RunSetup::peak_tflops_per_device}});
constexpr std::array<std::string_view, 4> kDerivedKeys = {"devices_per_node", "batch", "synthetic",
                                                          "job"};  // no members of RunSetup of their own

std::vector<std::string> names_of_facts() {
  std::vector<std::string> names;
  for (const auto& [name, place] : kTexts) names.emplace_back(name);
  for (const auto& [name, place] : kCounts) names.emplace_back(name);
  for (const auto& [name, place] : kNumbers) names.emplace_back(name);
  names.insert(names.end(), kDerivedKeys.begin(), kDerivedKeys.end());
  return names;
}

bool is_fact(std::string_view name) {
  const auto names = names_of_facts();
  return std::find(names.begin(), names.end(), name) != names.end();
}

int64_t to_count(const std::string& name, const std::string& text) {
  const auto count = core::parse_int(text);
  constexpr int64_t kMaxCount = 1'000'000'000'000;
  if (!count || *count < 1 || *count > kMaxCount)
    throw UsageError(fmt::format("record: fact '{}' is '{}', expected a whole number above 0", name, text),
                     "correct --meta, its file or the flag that gives it");
  return *count;
}

double to_positive(const std::string& name, const std::string& text) {
  const auto number = core::parse_double(text);
  if (!number || !std::isfinite(*number) || *number <= 0)
    throw UsageError(fmt::format("record: fact '{}' is '{}', expected a number above 0", name, text),
                     "correct --meta, its file or the flag that gives it");
  return *number;
}

bool to_bool(const std::string& name, const std::string& text) {
  if (text == "true" || text == "yes" || text == "1") return true;
  if (text == "false" || text == "no" || text == "0") return false;
  throw UsageError(fmt::format("record: fact '{}' is '{}', expected true or false", name, text));
}

/// Whether a x b is something that a run can have.
bool is_possible_product(int64_t a, int64_t b) {
  constexpr double kMaxProduct = 1e15;
  return static_cast<double>(a) * static_cast<double>(b) <= kMaxProduct;
}

/// a x b of two facts that the user gave.
int64_t product(const char* name, int64_t a, int64_t b) {
  if (!is_possible_product(a, b))
    throw UsageError(fmt::format("record: fact '{}' would be {} x {}, more than any run has", name, a, b),
                     "correct --meta, its file or the flag that gives it");
  return a * b;
}

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};

std::unique_ptr<pcre2_code, FreeCode> compile(const std::string& pattern) {
  int status = 0;
  PCRE2_SIZE offset = 0;
  std::unique_ptr<pcre2_code, FreeCode> code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                                           PCRE2_DUPNAMES, &status, &offset, nullptr));
  if (code != nullptr) return code;
  std::array<PCRE2_UCHAR, 256> words{};
  pcre2_get_error_message(status, words.data(), words.size());
  throw UsageError(fmt::format("record: --meta '{}' is no valid expression: {} at character {}", pattern,
                               reinterpret_cast<const char*>(words.data()), offset),
                   "name groups like this: 'bs(?<batch>\\d+)_n(?<nodes>\\d+)'");
}

/// Calls visit(name, text) for each named group that took part in the match; false when nothing matched.
template <typename Visit>
bool match_groups(const std::string& pattern, const std::string& subject, const Visit& visit) {
  const auto code = compile(pattern);
  const std::unique_ptr<pcre2_match_data, FreeMatch> match(pcre2_match_data_create_from_pattern(code.get(), nullptr));
  const int status =
      pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(subject.data()), subject.size(), 0, 0, match.get(), nullptr);
  if (status == PCRE2_ERROR_NOMATCH) return false;
  if (status < 0)
    throw UsageError(fmt::format("record: --meta '{}' gives up on '{}' (error {})", pattern, subject, status),
                     "use a simpler expression");
  uint32_t num_names = 0, entry_bytes = 0;
  PCRE2_SPTR table = nullptr;
  pcre2_pattern_info(code.get(), PCRE2_INFO_NAMECOUNT, &num_names);
  pcre2_pattern_info(code.get(), PCRE2_INFO_NAMEENTRYSIZE, &entry_bytes);
  pcre2_pattern_info(code.get(), PCRE2_INFO_NAMETABLE, &table);
  const PCRE2_SIZE* const bounds = pcre2_get_ovector_pointer(match.get());
  if (num_names == 0)
    throw UsageError(fmt::format("record: --meta '{}' has no named group", pattern),
                     "name groups like this: 'bs(?<batch>\\d+)_n(?<nodes>\\d+)'");
  for (uint32_t at = 0; at < num_names; ++at) {
    const PCRE2_SPTR entry = table + static_cast<size_t>(at) * entry_bytes;
    const auto group = static_cast<size_t>(entry[0] << 8 | entry[1]);
    if (group >= static_cast<size_t>(status) || bounds[2 * group] == PCRE2_UNSET) continue;
    visit(std::string(reinterpret_cast<const char*>(entry + 2)),
          subject.substr(bounds[2 * group], bounds[2 * group + 1] - bounds[2 * group]));
  }
  return true;
}

void read_file(const fs::path& path, Facts& facts) {
  toml::table table;
  try {
    table = core::parse_toml(core::read_file_or_pipe(path), path.string());
  } catch (const toml::parse_error& error) {
    throw UsageError(
        fmt::format("record: '{}' line {}: {}", path.string(), error.source().begin.line, error.description()),
        "write `name = value` lines");
  }
  const auto text_of = [&](const toml::node& node, std::string_view name) -> std::string {
    if (const auto text = node.value_exact<std::string>()) return *text;
    if (const auto count = node.value_exact<int64_t>()) return std::to_string(*count);
    if (const auto number = node.value_exact<double>()) return fmt::format("{}", *number);
    if (const auto flag = node.value_exact<bool>()) return *flag ? "true" : "false";
    throw UsageError(fmt::format("record: '{}': '{}' is no text, number or truth value", path.string(), name));
  };
  for (const auto& [key, node] : table) {
    if (key == "tags" && node.is_table()) {
      for (const auto& [tag, value] : *node.as_table()) facts.tags[std::string(tag)] = text_of(value, tag);
      continue;
    }
    facts.values[std::string(key)] = text_of(node, key);
  }
}

void check_names(const Facts& facts) {
  const auto names = names_of_facts();
  for (const auto& [name, text] : facts.values) {
    if (is_fact(name)) continue;
    const auto nearest = core::nearest_name(name, names);
    throw UsageError(fmt::format("record: unknown fact '{}', expected {}", name, core::join_or(names)),
                     nearest ? fmt::format("did you mean '{}'?", *nearest)
                             : "other names belong into the table [tags] of the file or a group of --meta");
  }
}

/// Puts one fact into its place; a source that says otherwise is a problem that is listed.
template <typename Place, typename Value>
void put(RunData& run, std::string_view name, Place& place, const Value& value) {
  const bool is_known = [&] {
    if constexpr (std::is_same_v<Place, std::string>)
      return !place.empty();
    else
      return place.has_value();
  }();
  if (is_known && place != value && name != "sample_unit") {
    const auto plain = [](const auto& known) {
      if constexpr (std::is_same_v<Place, std::string>)
        return known;
      else
        return *known;
    };
    run.problems.push_back(fmt::format("{}: the log says {}, you say {}; yours is used", name, plain(place), value));
  }
  place = value;
}

/// Nodes of a run whose devices are known: as many as these fill, or the one that they fill in part.
void put_nodes(RunData& run, int64_t devices, int64_t devices_per_node) {
  if (devices < devices_per_node || devices % devices_per_node == 0)
    run.setup.nodes = std::max<int64_t>(1, devices / devices_per_node);
  else
    run.problems.push_back(
        fmt::format("devices_per_node: {} devices fill no whole number of nodes of {}; its nodes stay unknown", devices,
                    devices_per_node));
}

void put_facts(RunData& run, const Facts& facts) {
  RunSetup& setup = run.setup;
  for (const auto& [name, text] : facts.values) {
    for (const auto& [key, place] : kTexts)
      if (key == name) put(run, name, setup.*place, text);
    for (const auto& [key, place] : kCounts)
      if (key == name) put(run, name, setup.*place, to_count(name, text));
    for (const auto& [key, place] : kNumbers)
      if (key == name) put(run, name, setup.*place, to_positive(name, text));
    if (name == "synthetic") setup.is_synthetic = to_bool(name, text);
    if (name == "job") run.allocation = "slurm " + text;
  }
  for (const auto& [name, text] : facts.tags) setup.tags[name] = text;
  const auto find = [&](const char* name) { return facts.values.find(name); };
  const auto end = facts.values.end();
  if (find("peak_tflops") != end && find("peak_source") == end) setup.peak_source = "given by the user";
  if (find("forward_gflops") != end && find("flops_formula") == end) setup.flops_formula = "given by the user";
  if (const auto per_node = find("devices_per_node"); per_node != end && setup.nodes && find("devices") == end)
    put(run, "devices", setup.devices,
        product("devices", *setup.nodes, to_count("devices_per_node", per_node->second)));
  if (const auto per_node = find("devices_per_node"); per_node != end && !setup.nodes && setup.devices)
    put_nodes(run, *setup.devices, to_count("devices_per_node", per_node->second));
  if (const auto batch = find("batch"); batch != end && find("samples_per_device") == end)
    put(run, "samples_per_device", setup.samples_per_device,
        product("samples_per_device", to_count("batch", batch->second), setup.accum.value_or(1)));
}

/// Data-parallel replicas: dp of the layout, else the devices when the layout names no other axis.
std::optional<int64_t> replicas_of(const RunSetup& setup) {
  int64_t dp = 0;
  bool has_other = false;
  for (const std::string& part : core::split(setup.layout, " ")) {
    const size_t equals = part.find('=');
    if (equals == std::string::npos) continue;
    const auto size = core::parse_int(std::string_view(part).substr(equals + 1));
    if (!size || *size < 1) continue;
    if (part.substr(0, equals) == "dp")
      dp = *size;
    else if (*size > 1)
      has_other = true;
  }
  if (dp > 0) return dp;
  return has_other ? std::nullopt : setup.devices;
}

/// Batches and lengths as the log tells them.
struct LoggedBatch {
  std::optional<int64_t> global, local, sequence;
};

/// The batch that all steps have; nothing where they have several, or none.
std::optional<int64_t> batch_of_steps(const StepColumns& steps) {
  constexpr double kMost = 1e15;
  const std::vector<double>& samples = steps.samples;
  if (samples.empty() || !(samples.front() >= 1) || samples.front() > kMost) return std::nullopt;
  const bool is_one = std::all_of(samples.begin(), samples.end(), [&](double one) { return one == samples.front(); });
  return is_one ? std::optional(static_cast<int64_t>(samples.front())) : std::nullopt;
}

LoggedBatch logged_batch(const RunData& run) {
  const RunSetup& setup = run.setup;
  LoggedBatch logged{setup.global_batch, setup.samples_per_device, setup.sequence_length};
  if (!logged.global) logged.global = batch_of_steps(run.steps);
  return logged;
}

/// Sequences of steps that tell tokens alone.
void take_sequences(RunData& run) {
  RunSetup& setup = run.setup;
  StepColumns& steps = run.steps;
  if (!setup.sequence_length || setup.global_batch) return;
  bool is_told = false;
  for (size_t row = 0; row < steps.size(); ++row)
    if (std::isnan(steps.samples[row]) && !std::isnan(steps.tokens[row])) {
      steps.samples[row] = steps.tokens[row] / static_cast<double>(*setup.sequence_length);
      is_told = true;
    }
  if (is_told) setup.global_batch = batch_of_steps(steps);
}

/// A batch or length that the user corrects is that of the log's steps, too; what followed from the log's own goes.
void correct_steps(RunData& run, const Facts& facts, const LoggedBatch& logged) {
  RunSetup& setup = run.setup;
  const auto says = [&](const char* name) { return facts.values.find(name) != facts.values.end(); };
  const bool says_global = says("global_batch"), says_local = says("samples_per_device") || says("batch");
  if (says_local && !says_global && logged.local && setup.samples_per_device != logged.local)
    setup.global_batch.reset();
  if (says_global && !says_local && logged.global && setup.global_batch != logged.global)
    setup.samples_per_device.reset();
  const bool is_other_batch = says_global ? logged.global && setup.global_batch != logged.global
                                          : says_local && logged.global && !setup.global_batch;
  const bool is_other_length = says("sequence_length") && logged.sequence && setup.sequence_length != logged.sequence;
  StepColumns& steps = run.steps;
  for (size_t row = 0; row < steps.size(); ++row) {
    if (is_other_batch && steps.samples[row] == static_cast<double>(*logged.global))
      steps.samples[row] = steps.tokens[row] = kUnknown;
    if (is_other_length && !std::isnan(steps.samples[row])) steps.tokens[row] = kUnknown;
  }
}

/// What follows from the facts.
void complete(RunData& run) {
  RunSetup& setup = run.setup;
  take_sequences(run);
  const auto replicas = replicas_of(setup);
  if (!setup.global_batch && setup.samples_per_device && replicas &&
      is_possible_product(*setup.samples_per_device, *replicas))
    setup.global_batch = *setup.samples_per_device * *replicas;
  if (!setup.samples_per_device && setup.global_batch && replicas && *setup.global_batch % *replicas == 0)
    setup.samples_per_device = *setup.global_batch / *replicas;
  StepColumns& steps = run.steps;
  for (size_t row = 0; row < steps.size(); ++row) {
    if (std::isnan(steps.samples[row]) && setup.global_batch)
      steps.samples[row] = static_cast<double>(*setup.global_batch);
    if (std::isnan(steps.tokens[row]) && setup.sequence_length)
      steps.tokens[row] = steps.samples[row] * static_cast<double>(*setup.sequence_length);
  }
}

/// A group that is no fact, and the fact it may have been meant for: names of tags are free, so only close ones count.
std::optional<std::string> meant_fact(const std::string& group) {
  const auto nearest = core::nearest_name(group, names_of_facts());
  constexpr size_t kSurelyMeant = 6;
  if (!nearest || (group.size() < kSurelyMeant && (group[0] != (*nearest)[0] || group.size() < 3))) return std::nullopt;
  return nearest;
}

}  // namespace

void apply_meta(RunData& run, const MetaOptions& options) {
  Facts facts;
  if (!options.path_pattern.empty()) {
    const std::string path = fs::absolute(run.source).lexically_normal().string();
    const bool is_matched = match_groups(options.path_pattern, path, [&](std::string name, std::string text) {
      if (const auto meant = is_fact(name) ? std::nullopt : meant_fact(name))
        run.problems.push_back(
            fmt::format("--meta: the group '{}' is no fact and was taken for a tag that tells configurations apart; "
                        "did you mean '{}'?",
                        name, *meant));
      (is_fact(name) ? facts.values : facts.tags)[name] = std::move(text);
    });
    if (!is_matched) run.problems.push_back(fmt::format("--meta '{}' does not match its path", options.path_pattern));
  }
  if (!options.file.empty()) read_file(options.file, facts);
  for (const auto& [name, text] : options.values) facts.values[name] = text;
  check_names(facts);
  const LoggedBatch logged = logged_batch(run);
  put_facts(run, facts);
  correct_steps(run, facts, logged);
  complete(run);
}

bool matches_path(const std::string& path_pattern, const fs::path& source) {
  return match_groups(path_pattern, fs::absolute(source).lexically_normal().string(),
                      [](const std::string&, const std::string&) {});
}

ExampleFacts example_facts(const RunSetup& setup, const std::string& format) {
  if (setup.task == "clip" || (setup.task.empty() && format == "openclip")) return {};
  if (setup.task == "clap") return {.model = "HTSAT-tiny-Roberta-base", .forward_gflops = "111.20"};
  if (setup.counts_sequences()) return {.model = "llama3-8b", .forward_gflops = "140544", .sequence_length = "8192"};
  if (setup.sample_unit == "images" || setup.task == "resnet") return {.model = "resnet50", .forward_gflops = "8.18"};
  return {.model = "NAME", .forward_gflops = "NUMBER"};
}

std::vector<MissingFact> missing_facts(const RunData& run) {
  const RunSetup& setup = run.setup;
  const ExampleFacts examples = example_facts(setup, run.format);
  std::vector<MissingFact> missing;
  const auto ask = [&](bool is_missing, const char* name, const char* needed_for, const char* example) {
    if (is_missing)
      missing.push_back({name, needed_for, fmt::format("--fact {}={}", name, example),
                         fmt::format("--fact {0}={1}, or a group (?<{0}>...) of --meta where the path tells it, or a "
                                     "line `{0} = ...` in the file of --meta-file",
                                     name, example)});
  };
  const bool has_steps = run.steps.size() > 0;
  const bool has_samples = has_steps && std::any_of(run.steps.samples.begin(), run.steps.samples.end(),
                                                    [](double samples) { return samples > 0; });
  const bool has_tokens = has_steps && std::any_of(run.steps.tokens.begin(), run.steps.tokens.end(),
                                                   [](double tokens) { return tokens > 0; });
  ask(!setup.nodes, "nodes", "the node axis, efficiency and node-hours", "4");
  ask(!setup.devices, "devices", "rates per device and MFU", "16");
  const bool tells_rates_only = run.format == "deepspeed" || run.format == "tf_cnn";
  ask(!has_steps && tells_rates_only && !setup.global_batch, "global_batch",
      "step times, of a log that tells rates only", "4096");
  if (!has_steps) return missing;
  ask(setup.model.empty(), "model", "telling curves apart", examples.model);
  ask(!has_samples, "global_batch", "throughput", "4096");
  ask(!setup.samples_per_device, "samples_per_device", "telling weak from strong scaling", "256");
  ask(setup.counts_sequences() && !has_tokens, "sequence_length", "tokens per second", examples.sequence_length);
  ask(setup.precision.empty(), "precision", "telling curves apart and choosing the peak", "bf16");
  const bool is_example = setup.model.empty() || setup.model == examples.model;  // of another model it would be wrong
  ask(!setup.forward_gflops_per_sample, "forward_gflops", "MFU", is_example ? examples.forward_gflops : "NUMBER");
  ask(!setup.peak_tflops_per_device, "peak_tflops", "MFU", "NUMBER");
  return missing;
}

}  // namespace lockstep::record
