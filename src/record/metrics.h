#pragma once
#include <span>
#include <string>

#include "core/json.h"
#include "record/metric.h"

namespace lockstep::record {

/// Every metric, by source and then in the order of reading.
std::span<const MetricDef> metric_catalogue();

/// docs/metrics.md.
std::string metrics_markdown();
core::Json metrics_json();

}  // namespace lockstep::record
