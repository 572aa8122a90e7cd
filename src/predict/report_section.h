#pragma once
#include <optional>
#include <vector>

#include "analysis/curve.h"
#include "analysis/proposal.h"
#include "draw/document.h"
#include "published/recompute.h"

namespace lockstep::predict {

/// What a report says of predictions: every curve of four sizes or more is predicted from its smaller half and joined
/// with what was measured, and continued for two doublings, marked as not measured. Nothing where no curve is so long,
/// or where what is known of it does not make sense together.
std::optional<draw::Section> prediction_section(const analysis::Analysis& runs);

/// What `size` is predicted to keep of the rate per node of the curve's largest size, from all of its sizes; from one
/// size the loss is that of the priors. `tables`: those that rows of `runs` are from. Nothing where what is known of
/// the curve does not make sense together.
analysis::PredictKeptRate kept_rate_predictor(const analysis::Analysis& runs,
                                              const std::vector<published::PublishedTable>& tables = {});

}  // namespace lockstep::predict
