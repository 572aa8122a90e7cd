#pragma once
#include <vector>

#include "analysis/curve.h"
#include "draw/document.h"

namespace lockstep::analysis {

/// Samples to one loss at every size; after fill_relative.
void fill_losses(Curve& curve, const std::vector<RunSummary>& runs);
/// Samples to one loss against the base's; empty where nothing is compared.
draw::Table loss_table(const Curve& curve);

}  // namespace lockstep::analysis
