#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "record/run_data.h"
#include "stats/series.h"

namespace lockstep::analysis {

/// How one number is made of a run's steps: our way, and the ways of published benchmarks, so that their tables can be
/// repeated and the difference seen.
enum class Protocol {
  kLockstep,         ///< Median of the steps after the warm-up.
  kClap,             ///< CLAP scaling benchmark on JUPITER: mean of the rates in the log lines.
  kNemotron,         ///< DGX Cloud recipe of Nemotron-4 340B: the last step.
  kEpicureVision,    ///< EPICURE guide, ResNet-50: median images per second in the fourth epoch.
  kEpicureLanguage,  ///< EPICURE guide, GPT: TFLOP/s per GPU as the program logs them.
};

/// "lockstep", "clap", "nemotron", "epicure-vision", "epicure-language".
std::string_view protocol_name(Protocol protocol);
/// UsageError with the known names.
Protocol parse_protocol(std::string_view name);

/// What a protocol prints of a run. Absent: the protocol or the record does not give it.
struct ProtocolResult {
  Protocol protocol = Protocol::kLockstep;
  std::optional<double> step_ms{};
  std::optional<double> samples_per_s{}, tokens_per_s{};  ///< Over all ranks.
  std::optional<double> tflops_per_device{};              ///< As logged, never computed.
  std::optional<double> elbow{};  ///< Share of undisturbed steps among those used; of means over several there is none.
  std::optional<double> epoch_train_s{};  ///< Sum of all steps of the epoch that was used.
  size_t num_rows = 0;                    ///< Rows of the log that went into it.
  /// Some of these rows are means over several steps, where the protocol's own were single ones.
  bool is_of_means = false;
  std::string sentence{};  ///< What was done, or why it could not be.

  bool is_given() const { return num_rows > 0; }
};

ProtocolResult apply_protocol(Protocol protocol, const record::StepColumns& steps,
                              const stats::SeriesOptions& options = {});

}  // namespace lockstep::analysis
