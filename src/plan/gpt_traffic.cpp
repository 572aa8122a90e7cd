#include "plan/gpt_traffic.h"

#include <algorithm>
#include <map>

#include "core/error.h"

namespace lockstep::plan {
namespace {

constexpr const char* kTensor = "tp";
constexpr const char* kData = "dp";
constexpr const char* kPipe = "pp";
constexpr const char* kEmbedding = "embedding";
constexpr const char* kWorld = "world";
constexpr const char* kAllReduce = "all_reduce";
constexpr const char* kAllGather = "all_gather";
constexpr const char* kReduceScatter = "reduce_scatter";
constexpr int64_t kAmaxBytes = 4, kDoubleBytes = 8;
constexpr int64_t kLinearsPerLayer = 4, kOperandsPerLinear = 3;

/// Adds calls up by axis, kind, size and purpose.
class Counts {
 public:
  void add(const char* axis, const char* kind, int64_t bytes, int64_t count, const std::string& what) {
    if (count == 0) return;
    for (CollectiveCount& entry : entries_)
      if (entry.axis == axis && entry.kind == kind && entry.bytes == bytes && entry.what == what) {
        entry.count += count;
        return;
      }
    entries_.push_back({axis, kind, bytes, count, what});
  }
  std::vector<CollectiveCount> take() { return std::move(entries_); }

 private:
  std::vector<CollectiveCount> entries_;
};

/// Bytes of the hidden state of a micro-batch, all tokens.
int64_t hidden_bytes(const GptLayout& layout, const GptTrafficInput& input) {
  return layout.shape.sequence * layout.batch.micro_batch_size * layout.shape.hidden * input.bytes.compute;
}

bool is_fp8(const GptLayout& layout, int64_t layer, const GptTrafficInput& input) {
  return input.fp8 != Fp8Scaling::kNone && !(input.fp8_spares_ends && layout.is_end_layer(layer));
}

/// Layers of a chunk whose forward pass runs again during backward, messages included.
int64_t num_recomputed(const config::GptPart& part, const GptTrafficInput& input) {
  if (input.recompute == config::GptRecompute::kUniform) return part.num_layers;
  return input.recompute == config::GptRecompute::kBlock ? std::min(part.num_layers, input.recompute_layers) : 0;
}

void add_layers(const GptLayout& layout, const config::GptPart& part, const GptTrafficInput& input, Counts& counts) {
  const int64_t bytes = hidden_bytes(layout, input), micro = layout.batch.num_micro_batches;
  const auto add_pass = [&](int64_t layer, int64_t num_gathers, const std::string& what) {
    const bool has_fp8 = is_fp8(layout, layer, input);
    if (has_fp8 && input.fp8 == Fp8Scaling::kTensorwise)
      counts.add(kTensor, kAllReduce, kAmaxBytes, (layout.is_sequence_parallel ? 4 : 2) * micro, "scales");
    if (!layout.is_sequence_parallel) return counts.add(kTensor, kAllReduce, bytes, 2 * micro, what);
    counts.add(kTensor, kAllGather, has_fp8 ? bytes / input.bytes.compute : bytes, num_gathers * micro, what);
    counts.add(kTensor, kReduceScatter, bytes, 2 * micro, what);
  };
  for (int64_t i = 0; i < part.num_layers; ++i) {
    const int64_t layer = part.first_layer + i;
    if (is_fp8(layout, layer, input) && input.fp8 == Fp8Scaling::kTensorwise)
      counts.add(kTensor, kAllReduce, kAmaxBytes, kLinearsPerLayer, "scales");  // of weights
    add_pass(layer, 2, "layers forward");
    if (i < num_recomputed(part, input)) add_pass(layer, 2, "layers forward again");
    add_pass(layer, 4, "layers backward");  // two for gradients, two to have the inputs of the column layers again
  }
}

/// All ranks that have the stage's layers agree on the next step's scales.
void add_scales(const GptLayout& layout, int stage, const GptTrafficInput& input, Counts& counts) {
  if (input.fp8 != Fp8Scaling::kDelayed) return;
  int64_t num_layers = 0;
  for (int chunk = 0; chunk < layout.pipe.num_chunks; ++chunk) {
    const config::GptPart part = layout.part(stage, chunk);
    for (int64_t i = 0; i < part.num_layers; ++i) num_layers += is_fp8(layout, part.first_layer + i, input) ? 1 : 0;
  }
  const int64_t bytes = num_layers * kLinearsPerLayer * kOperandsPerLinear * kAmaxBytes;
  counts.add(kTensor, kAllReduce, bytes, bytes > 0 && layout.tp() > 1 ? 1 : 0, "scales");
  counts.add(kData, kAllReduce, bytes, bytes > 0 && layout.dp() > 1 ? 1 : 0, "scales");
}

void add_ends(const GptLayout& layout, const config::GptPart& part, const GptTrafficInput& input, Counts& counts) {
  const int64_t bytes = hidden_bytes(layout, input), micro = layout.batch.num_micro_batches;
  if (part.has_embedding) {
    counts.add(kTensor, layout.is_sequence_parallel ? kReduceScatter : kAllReduce, bytes, micro, "embedding forward");
    if (layout.is_sequence_parallel) counts.add(kTensor, kAllGather, bytes, micro, "embedding backward");
  }
  if (!part.has_head) return;
  if (layout.is_sequence_parallel) counts.add(kTensor, kAllGather, bytes, micro, "head forward");
  counts.add(kTensor, layout.is_sequence_parallel ? kReduceScatter : kAllReduce, bytes, micro, "head backward");
  // Of each token and rank: largest logit, sum of exponentials, logit of the target; in fp32.
  const int64_t tokens = layout.shape.sequence * layout.batch.micro_batch_size,
                chunk = loss_chunk_tokens(layout, input.loss_chunk_tokens);
  const int64_t times = micro * (input.early_loss_gradients ? 1 : 2), per_token = layout.tp() * 3 * 4;
  counts.add(kTensor, kAllGather, chunk * per_token, times * (tokens / chunk), "loss");
  counts.add(kTensor, kAllGather, tokens % chunk * per_token, tokens % chunk > 0 ? times : 0, "loss");
}

/// Replicated parameters saw only their rank's tokens: one sum of all of their gradients, or of those in the own shard.
void add_partial_gradients(const GptLayout& layout, const std::vector<config::ParamSpec>& params,
                           const std::vector<Bucket>& buckets, const GptTrafficInput& input, int64_t data_rank,
                           Counts& counts) {
  const int64_t shards = layout.is_optimizer_sharded ? layout.dp() : 1;
  int64_t elements = 0;
  for (const Bucket& bucket : buckets)
    for (const ShardSegment& segment : shard_segments(bucket, shards, data_rank % shards))
      if (params.at(static_cast<size_t>(segment.item)).is_partial_over_tokens) elements += segment.num_elements;
  counts.add(kTensor, kAllReduce, elements * input.bytes.gradient, elements > 0 ? 1 : 0,
             "gradients of replicated parameters");
}

void add_gradients(const GptLayout& layout, const std::vector<Bucket>& buckets, const GptTrafficInput& input,
                   Counts& counts) {
  for (const Bucket& bucket : buckets) {
    if (!layout.is_optimizer_sharded) {
      counts.add(kData, kAllReduce, bucket.num_elements * bucket.element_bytes, 1, "gradients");
      continue;
    }
    counts.add(kData, kReduceScatter, bucket.num_elements * bucket.element_bytes, 1, "gradients");
    counts.add(kData, kAllGather, bucket.num_elements * input.bytes.weight, 1, "parameters");
  }
}

/// Both end stages sum the gradients of their copies: of the own shard, where there are shards.
void add_tied_embedding(const GptLayout& layout, int stage, const std::vector<config::ParamSpec>& params,
                        const std::vector<Bucket>& buckets, Counts& counts) {
  if (!layout.has_split_embedding() || (stage != 0 && stage != layout.pp() - 1)) return;
  for (const Bucket& bucket : buckets) {
    if (params.at(static_cast<size_t>(bucket.slots.front().item)).name != config::kGptWordEmbedding) continue;
    const int64_t shards = layout.is_optimizer_sharded ? layout.dp() : 1;
    counts.add(kEmbedding, kAllReduce, bucket.num_elements / shards * bucket.element_bytes, 1,
               "gradient of the tied embedding");
  }
}

void add_messages(const GptLayout& layout, const PipeSchedule& schedule, int stage, const GptTrafficInput& input,
                  Counts& counts) {
  const int64_t bytes = hidden_bytes(layout, input) / (layout.is_sequence_parallel ? layout.tp() : 1);
  std::map<std::pair<bool, bool>, int64_t> messages;
  for (const PipeAction& action : schedule.stages.at(static_cast<size_t>(stage)))
    for (const PipeTransfer& transfer : action.transfers) ++messages[{transfer.is_activation, transfer.is_send}];
  for (const auto& [message, count] : messages)
    counts.add(kPipe, message.second ? "send" : "receive", bytes, count,
               message.first ? "activations" : "gradients of activations");
}

}  // namespace

int64_t gpt_bucket_elements(const GptTrafficInput& input, int64_t num_data_ranks) {
  return input.bucket_elements > 0 ? input.bucket_elements : std::max<int64_t>(40'000'000, 1'000'000 * num_data_ranks);
}

std::vector<Bucket> gpt_buckets(const GptLayout& layout, int stage, const GptTrafficInput& input) {
  const int64_t elements = gpt_bucket_elements(input, layout.dp());
  std::vector<BucketItem> items;
  for (const config::ParamSpec& param : layout.params_of(stage))
    items.push_back({.name = param.name,
                     .num_elements = config::local_numel(param, layout.tp()),
                     .dtype = "gradient",
                     .element_bytes = input.bytes.gradient,
                     .is_alone = layout.has_split_embedding() && param.name == config::kGptWordEmbedding});
  if (items.empty()) return {};
  return plan_buckets(items, elements * input.bytes.gradient, layout.is_optimizer_sharded ? layout.dp() : 1);
}

std::vector<CollectiveCount> predict_gpt_traffic(const GptLayout& layout, const PipeSchedule& schedule, int stage,
                                                 const GptTrafficInput& input, int64_t data_rank) {
  Counts counts;
  const std::vector<Bucket> buckets = gpt_buckets(layout, stage, input);
  if (layout.tp() > 1) {
    for (int chunk = 0; chunk < layout.pipe.num_chunks; ++chunk) {
      add_layers(layout, layout.part(stage, chunk), input, counts);
      add_ends(layout, layout.part(stage, chunk), input, counts);
    }
    if (layout.is_sequence_parallel)
      add_partial_gradients(layout, layout.params_of(stage), buckets, input, data_rank, counts);
  }
  if (layout.dp() > 1) add_gradients(layout, buckets, input, counts);
  counts.add(kData, kAllReduce, kDoubleBytes,
             input.counts_tokens && layout.dp() > 1 && stage == layout.pp() - 1 ? 1 : 0, "tokens of the loss");
  add_tied_embedding(layout, stage, layout.params_of(stage), buckets, counts);
  add_scales(layout, stage, input, counts);
  if (layout.pp() > 1) add_messages(layout, schedule, stage, input, counts);
  if (layout.mesh.world_size() > 1) counts.add(kWorld, kAllReduce, kDoubleBytes, 2, "loss, norm of the gradients");
  return counts.take();
}

double ring_bytes(const std::vector<CollectiveCount>& traffic, const std::string& axis, int64_t num_ranks) {
  const double part = static_cast<double>(num_ranks - 1) / static_cast<double>(num_ranks);
  double total = 0;
  for (const CollectiveCount& entry : traffic) {
    if (entry.axis != axis) continue;
    const bool is_message = entry.kind == "send" || entry.kind == "receive";
    total += static_cast<double>(entry.bytes) * static_cast<double>(entry.count) *
             (is_message                 ? 1
              : entry.kind == kAllReduce ? 2 * part
                                         : part);
  }
  return total;
}

}  // namespace lockstep::plan
