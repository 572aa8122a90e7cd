#pragma once
#include <optional>
#include <string>

#include "predict/validation.h"

namespace lockstep::predict {

/// Does the machine have so many nodes, as far as it is known?
bool has_nodes(const std::optional<Machine>& machine, double nodes);
/// "Karolina GPU has 72 nodes: 128, 256 nodes do not exist." `sizes`: those that it lacks, in words.
std::string missing_nodes_text(const Machine& machine, const std::string& sizes);

/// Adds, where sizes were asked for of a curve that counts devices, what --nodes counts and how many a node has.
void note_size_unit(CurvePrediction& prediction);

/// Adds what users should know of the machine to a prediction's notes: its faults and doubts, predicted sizes that it
/// lacks, and, where --system named it (`is_asked`), that a model that is not known leaves its rates unused.
void note_machine(const std::optional<Machine>& machine, bool is_asked, CurvePrediction& prediction);

}  // namespace lockstep::predict
