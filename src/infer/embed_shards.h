#pragma once
#include "config/infer_options.h"
#include "hw/ranks.h"

namespace lockstep::infer {

/// `infer embed --shards`: every shard's samples into a folder (see EmbeddingFolder). Rank r of W does shards r, r + W,
/// ... and talks to nobody; shards that are there are left alone. Batches never cross shards, so that what is written
/// depends on neither ranks nor interruptions, bit for bit. Bad samples are listed and left out. DataError at the end
/// when shards could not be read, or only in part: those are embedded again by the next start.
void embed_shards(const config::InferOptions& options, const hw::RankInfo& ranks);

}  // namespace lockstep::infer
