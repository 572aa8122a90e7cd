#pragma once
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "record/run_data.h"

namespace lockstep::record {

/// Facts about a run from outside its log. Later ones win: pattern, then file, then values.
///
/// Names of facts (groups of the pattern, keys of the file, names of values): task, model, precision, system, device,
/// layout, nodes, devices, devices_per_node, batch (samples per device and micro-batch), accum, samples_per_device,
/// global_batch, sequence_length, sample_unit, forward_gflops, flops_formula, peak_tflops, peak_source, synthetic, job.
/// Any other group of the pattern becomes a tag.
struct MetaOptions {
  std::string path_pattern{};    ///< Perl-compatible expression with named groups, searched in the absolute path.
  std::filesystem::path file{};  ///< TOML: `name = value` lines, and [tags].
  std::vector<std::pair<std::string, std::string>> values{};  ///< Name and text.
};

/// Puts the facts into run.setup (and `allocation`) and completes what follows from them: devices from nodes, the
/// global batch from the local one, samples and tokens of the steps. Listed in `problems`: a pattern that does not
/// match, a fact that contradicts the log. UsageError for an unknown name, a value that is no number, or a pattern that
/// does not compile.
void apply_meta(RunData& run, const MetaOptions& options);

/// Whether the pattern of --meta is found in the absolute path of a source.
bool matches_path(const std::string& path_pattern, const std::filesystem::path& source);

/// A fact that a report needs and that neither the log nor the user gave.
struct MissingFact {
  std::string name{};        ///< "nodes"
  std::string needed_for{};  ///< "the node axis of every table"
  std::string flag{};        ///< The flag that gives it: "--fact nodes=4".
  std::string how{};         ///< All ways of giving it.
};
std::vector<MissingFact> missing_facts(const RunData& run);

/// What hints name as examples, of the kind of model that a run trains.
struct ExampleFacts {
  const char* model = "ViT-B-32";
  const char* forward_gflops = "14.78";
  const char* sequence_length = "4096";
};
/// By task, or by the program that wrote the log; where neither tells the kind, words that are no model's name.
ExampleFacts example_facts(const RunSetup& setup, const std::string& format);

}  // namespace lockstep::record
