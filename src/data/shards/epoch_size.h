#pragma once
#include <cstdint>
#include <string>

#include "data/shards/source_config.h"

namespace lockstep::data {

/// Length of an epoch.
struct EpochSize {
  int64_t num_batches = 0;  ///< Optimiser steps (global batches).
  int64_t num_samples = 0;  ///< num_batches * global_batch.
  int64_t num_known = 0;    ///< Samples the data set is said or known to hold.
  int64_t num_dropped = 0;  ///< Samples of the data set that an epoch leaves out (known sizes only).
  bool each_once = false;   ///< Every sample appears at most once per epoch.
  std::string origin;       ///< Where num_known comes from: "--train-num-samples", "sizes.json", "index", ...
};

/// Whole global batches that hold all `known` samples.
EpochSize rounded_up(int64_t known, int64_t global_batch, std::string origin);
/// Whole global batches of samples that each appear once.
EpochSize rounded_down(int64_t known, int64_t global_batch, std::string origin);
/// DataError for an epoch without a batch.
void refuse_empty(const EpochSize& size, const SourceConfig& config);

/// The size of an epoch of shards: --train-num-samples, the index, sizes.json or __len__. DataError when it cannot be
/// found, or is less than one batch.
EpochSize shards_epoch_size(const SourceConfig& config);

/// What a person should know where more samples were told (`told_by`) than the data hold; "" where not.
std::string told_too_many(int64_t num_told, const std::string& told_by, int64_t num_found);
/// The same of shards with an index: of --train-num-samples, else of sizes.json or __len__.
std::string shards_size_warning(const SourceConfig& config);

}  // namespace lockstep::data
