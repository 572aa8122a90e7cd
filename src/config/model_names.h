#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "config/flops.h"

namespace lockstep::config {

/// A model outside our tables that results are often published for. "BERT" alone is the large one, as in MLPerf.
struct PublishedModel {
  std::string_view name{};
  double parameters = 0;
  double forward_gflops = 0;  ///< Of a picture of the usual size; 0: a model of sequences.
};

/// By its name as the table has it; nullptr where there is none.
const PublishedModel* find_published_model(std::string_view name);

/// The named model of our tables that a text speaks of (the longest name of several), else a published one; "": none.
std::string find_model_name(std::string_view text);

/// What a model takes as a sample.
enum class SampleKind { kPair, kSequence };

/// Forward FLOPs of one sample of the model of our tables whose name a text is, written in any way ("Llama 3 70B").
/// Sequences have `sequence` tokens. Nothing where no such model takes such samples.
std::optional<FlopCount> forward_by_name(std::string_view text, SampleKind kind, int64_t sequence);

}  // namespace lockstep::config
