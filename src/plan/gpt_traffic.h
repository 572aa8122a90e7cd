#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "plan/bucket_plan.h"
#include "plan/gpt_layout.h"
#include "plan/gpt_memory.h"

namespace lockstep::plan {

/// Calls of one kind and size that a rank makes in one training step, counted as comm::Recorder does: bytes of one call
/// on one rank, of a gather the output, of a scatter the input; nothing on axes of size 1.
struct CollectiveCount {
  std::string axis;  ///< "tp", "dp", "pp", "world"; "embedding": the first and the last stage of a pipeline.
  std::string kind;  ///< "all_reduce", "all_gather", "reduce_scatter", "send", "receive"
  int64_t bytes = 0, count = 0;
  std::string what;  ///< In words: "layers forward".
};

/// Linear layers of the blocks with operands of 8 bits. What is gathered then has 1 byte an element.
enum class Fp8Scaling {
  kNone,
  kDelayed,     ///< Scales are agreed on once per step.
  kTensorwise,  ///< With each tensor that ranks hold parts of.
};

struct GptTrafficInput {
  StateBytes bytes{};
  config::GptRecompute recompute = config::GptRecompute::kNone;
  int64_t recompute_layers = 1;      ///< kBlock: layers of each chunk.
  int64_t loss_chunk_tokens = 0;     ///< See loss_chunk_tokens().
  bool early_loss_gradients = true;  ///< Else the logits are made twice.
  int64_t bucket_elements = 0;  ///< Of a gradient bucket; 0: 40 million, or 1 million per data rank where that is more.
  Fp8Scaling fp8 = Fp8Scaling::kNone;
  bool counts_tokens = false;    ///< The data ranks add up the tokens that count in the loss.
  bool fp8_spares_ends = false;  ///< The model's first and last layer stay in the type of the activations.
};

/// Elements of a gradient bucket at most.
int64_t gpt_bucket_elements(const GptTrafficInput& input, int64_t num_data_ranks);

/// Gradient buckets of a stage's ranks, last parameter first; a word embedding that two stages hold lies alone.
std::vector<Bucket> gpt_buckets(const GptLayout& layout, int stage, const GptTrafficInput& input);

/// What the ranks of a stage send in one step of training without evaluation: layers, ends of the model, gradients,
/// pipeline, loss and norm of the gradients. What the record of the run costs (times and requests of all ranks) is not
/// in it. `schedule` must be the layout's. `data_rank` matters where replicated parameters lie in shards.
std::vector<CollectiveCount> predict_gpt_traffic(const GptLayout& layout, const PipeSchedule& schedule, int stage,
                                                 const GptTrafficInput& input, int64_t data_rank = 0);

/// Bytes that a rank sends and receives over an axis in a step with ring algorithms: of a gather or scatter of n bytes
/// over k ranks n (k - 1) / k, of an all-reduce twice that, of a message n.
double ring_bytes(const std::vector<CollectiveCount>& traffic, const std::string& axis, int64_t num_ranks);

}  // namespace lockstep::plan
