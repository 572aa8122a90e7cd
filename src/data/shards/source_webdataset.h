#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/order/lane_plan.h"
#include "data/shards/source.h"
#include "data/shards/source_config.h"

namespace lockstep::data {

/// Expands config.spec; UsageError for weights without resampling, commands where they are not allowed, no shard at
/// all.
std::vector<std::string> expand_shards(const SourceConfig& config);

/// The shards with weights, filter and, as config.index says, the counts of their index. IndexUse::kRequire without a
/// complete index throws DataError that names the first shard without one.
std::shared_ptr<const ShardSet> load_shard_set(const SourceConfig& config);

/// Samples of one pass: all of the index, rounded down to whole global batches. 0 where they are not known or not each
/// read once.
int64_t pass_samples(const ShardSet& set, const SourceConfig& config);

/// DataOrder::kLockstep: lanes as docs/data.md says. With config.shuffle off one lane holds everything as given, and
/// every rank reads it.
std::unique_ptr<SampleSource> open_lane_source(const SourceConfig& config);
/// Every sample once, in order, shared out one by one.
std::unique_ptr<SampleSource> open_sequential_source(const SourceConfig& config);

}  // namespace lockstep::data
