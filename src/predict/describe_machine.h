#pragma once
#include <string>
#include <vector>

namespace lockstep::predict {

/// A system file (TOML, docs/predict.md) from documents of `lockstep bench`: peaks and memory rate of `bench op`, link
/// rate of `bench collective`, processors and memory of the host. Every number names its document. DataError for other
/// files; UsageError where no document tells a peak, or where they are of different hosts.
std::string describe_machine(const std::vector<std::string>& bench_documents);

}  // namespace lockstep::predict
