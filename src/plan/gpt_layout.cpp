#include "plan/gpt_layout.h"

#include <algorithm>
#include <functional>

#include "core/error.h"
#include "core/strings.h"

namespace lockstep::plan {
namespace {

/// What the tensor axis must divide, with its name.
std::vector<std::pair<std::string, int64_t>> divided_sizes(const config::GptShape& shape, bool is_sequence_parallel) {
  std::vector<std::pair<std::string, int64_t>> sizes = {{"attention heads", shape.heads},
                                                        {"query groups", shape.query_groups},
                                                        {"columns of the feed-forward layer", shape.ffn}};
  if (shape.fixed_vocab) sizes.emplace_back("rows of the padded vocabulary", *shape.fixed_vocab);
  if (is_sequence_parallel) sizes.emplace_back("tokens of a sequence", shape.sequence);
  return sizes;
}

GptLayout build_layout(const config::GptShape& shape, const GptLayoutWish& wish, bool gives_hints);

/// With the global batch of the wish, or where it has none, with some.
bool is_legal(const config::GptShape& shape, GptLayoutWish wish) {
  if (wish.world_size % (wish.tp * wish.pp) != 0) return false;
  if (!wish.global_batch)
    wish.global_batch = wish.samples_per_micro * (wish.world_size / wish.tp);  // as many micro-batches as stages
  try {
    build_layout(shape, wish, /*gives_hints=*/false);
    return true;
  } catch (const UsageError&) {
    return false;
  }
}

/// The nearest legal values of a number of the wish, below and above what it has: "2 or 4"; "" where there are none.
std::string nearest_legal(const config::GptShape& shape, const GptLayoutWish& wish, int64_t GptLayoutWish::*number,
                          int64_t step, int64_t most) {
  std::vector<std::string> legal;
  for (const int64_t direction : {-1, 1}) {
    GptLayoutWish other = wish;
    int64_t& value = other.*number;
    value = direction > 0 ? value / step * step + step : std::min(most, (value - 1) / step * step);
    while (value >= step && value <= most && !is_legal(shape, other)) value += direction * step;
    if (value >= step && value <= most) legal.push_back(fmt::format("{}", value));
  }
  return core::join_or(legal);
}

/// Hints for the wish, or where its global batch leaves none, for what it asks besides.
std::string with_or_without_batch(GptLayoutWish wish, const std::function<std::string(const GptLayoutWish&)>& hint) {
  std::string text = hint(wish);
  if (!text.empty() || !wish.global_batch) return text;
  wish.global_batch.reset();
  text = hint(wish);
  return text.empty() ? text : text + ", with another --global-batch-size";
}

void check_tensor_axis(const config::GptShape& shape, const GptLayoutWish& wish, bool gives_hints) {
  for (const auto& [what, size] : divided_sizes(shape, wish.is_sequence_parallel)) {
    if (size % wish.tp == 0) continue;
    const auto hint = [&](const GptLayoutWish& base) {
      const std::string sizes = nearest_legal(shape, base, &GptLayoutWish::tp, 1, std::min(size, wish.world_size));
      return sizes.empty() ? "" : "use --tensor-model-parallel-size " + sizes;
    };
    throw UsageError(fmt::format("plan: --tensor-model-parallel-size {} does not divide the {} {} of '{}'", wish.tp,
                                 size, what, shape.name),
                     gives_hints ? with_or_without_batch(wish, hint) : "");
  }
}

/// "start 4 or 8 ranks; or use --pipeline-model-parallel-size 1 or 3": what would fit with one of the numbers changed.
std::string mesh_hint(const config::GptShape& shape, const GptLayoutWish& wish) {
  constexpr int64_t kMultiples = 64;  // of one copy of the model
  const int64_t model_ranks = wish.tp * wish.pp;
  const std::string worlds =
      nearest_legal(shape, wish, &GptLayoutWish::world_size, model_ranks, wish.world_size + kMultiples * model_ranks);
  const std::string stages =
      nearest_legal(shape, wish, &GptLayoutWish::pp, 1, std::min(wish.world_size, shape.layers + 2));
  const std::string tensor = nearest_legal(shape, wish, &GptLayoutWish::tp, 1, std::min(wish.world_size, shape.heads));
  std::vector<std::string> hints;
  if (!worlds.empty()) hints.push_back(fmt::format("start {} ranks", worlds));
  if (wish.pp > 1 && !stages.empty()) hints.push_back(fmt::format("use --pipeline-model-parallel-size {}", stages));
  if (wish.tp > 1 && !tensor.empty()) hints.push_back(fmt::format("use --tensor-model-parallel-size {}", tensor));
  return core::join(hints, "; or ");
}

constexpr int64_t kMostRanks = 1 << 24;

void check_sizes(const GptLayoutWish& wish) {
  for (const auto& [flag, value] :
       {std::pair("--world-size", wish.world_size), std::pair("--tensor-model-parallel-size", wish.tp),
        std::pair("--pipeline-model-parallel-size", wish.pp)})
    if (value < 1 || value > kMostRanks)
      throw UsageError(fmt::format("plan: {} is {}, expected 1 to {}", flag, value, kMostRanks));
}

MeshLayout make_mesh(const config::GptShape& shape, const GptLayoutWish& wish, bool gives_hints) {
  const int64_t model_ranks = wish.tp * wish.pp;
  if (wish.world_size % model_ranks != 0)
    throw UsageError(
        fmt::format("plan: one copy of the model takes {} ranks (--tensor-model-parallel-size {} x "
                    "--pipeline-model-parallel-size {}), which do not divide the {} "
                    "that there are",
                    model_ranks, wish.tp, wish.pp, wish.world_size),
        gives_hints ? with_or_without_batch(wish, [&](const GptLayoutWish& base) { return mesh_hint(shape, base); })
                    : "");
  return MeshLayout::with_data_axis_filled(static_cast<int>(wish.world_size), static_cast<int>(wish.pp),
                                           static_cast<int>(wish.tp), wish.order);
}

BatchPlan make_batch(const GptLayoutWish& wish, int64_t dp) {
  const BatchFlags flags{.samples_per_micro = "--micro-batch-size",
                         .num_micro = "micro-batches per step",
                         .global_batch = "--global-batch-size"};
  BatchWish batch{.samples_per_micro = wish.samples_per_micro, .global_batch = wish.global_batch};
  const int64_t quantum = wish.samples_per_micro * dp;
  if (wish.lowers_batch && wish.global_batch && *wish.global_batch >= quantum)
    batch.global_batch = *wish.global_batch / quantum * quantum;
  return make_batch_plan(dp, batch, flags);
}

PipeShape make_pipe(const config::GptShape& shape, const GptLayoutWish& wish, const BatchPlan& batch) {
  SplitWish split = wish.split;
  split.num_stages = static_cast<int>(wish.pp);
  const int64_t num_chunks = num_chunks_of(shape, split);
  if (num_chunks < 1) throw UsageError("plan: --num-virtual-stages-per-pipeline-rank must be at least 1");
  if (num_chunks > 1 && wish.pp == 1)
    throw UsageError(fmt::format("plan: {} virtual stages need several pipeline stages", num_chunks),
                     "set --pipeline-model-parallel-size, or leave out virtual stages");
  if (num_chunks > 1 && wish.is_gpipe)
    throw UsageError("plan: --pipeline-schedule gpipe has no virtual stages",
                     "use --pipeline-schedule 1f1b, or leave out virtual stages");
  if (num_chunks * wish.pp > 4 * shape.layers + 4)
    throw UsageError(fmt::format("plan: {} pipeline stages with {} virtual stages each for {} layers", wish.pp,
                                 num_chunks, shape.layers),
                     "use fewer stages");
  PipeShape pipe{.kind = wish.is_gpipe    ? ScheduleKind::kGpipe
                         : num_chunks > 1 ? ScheduleKind::kInterleaved
                                          : ScheduleKind::kOneForwardOneBackward,
                 .num_stages = static_cast<int>(wish.pp),
                 .num_chunks = static_cast<int>(num_chunks),
                 .num_micro = batch.num_micro,
                 .group = num_chunks > 1 ? wish.group : 0};
  check_pipe_shape(pipe, batch.global_batch / batch.num_micro);
  return pipe;
}

GptLayout build_layout(const config::GptShape& shape, const GptLayoutWish& wish, bool gives_hints) {
  config::check_gpt_shape(shape);
  check_sizes(wish);
  check_tensor_axis(shape, wish, gives_hints);
  const MeshLayout mesh = make_mesh(shape, wish, gives_hints);
  SplitWish split = wish.split;
  split.num_stages = static_cast<int>(wish.pp);
  split.num_ranks = wish.world_size / wish.tp;
  auto parts = split_layers(shape, split);
  const BatchPlan batch = make_batch(wish, mesh.size(Axis::kData));
  return {.shape = shape,
          .mesh = mesh,
          .is_sequence_parallel = wish.is_sequence_parallel && wish.tp > 1,
          .is_optimizer_sharded = wish.is_optimizer_sharded,
          .pipe = make_pipe(shape, wish, batch),
          .parts = std::move(parts),
          .batch = batch};
}

}  // namespace

std::vector<config::ParamSpec> GptLayout::params_of(int stage) const {
  std::vector<config::ParamSpec> params;
  for (int chunk = 0; chunk < pipe.num_chunks; ++chunk)
    for (config::ParamSpec& param : config::gpt_param_specs(shape, part(stage, chunk), tp()))
      params.push_back(std::move(param));
  return params;
}

int64_t loss_chunk_tokens(const GptLayout& layout, int64_t asked) {
  constexpr int64_t kChunkLogits = int64_t{1} << 26;
  const int64_t tokens = layout.shape.sequence * layout.batch.samples_per_micro,
                rows = layout.shape.padded_vocab(layout.tp()) / layout.tp();
  return std::min(tokens, asked > 0 ? asked : std::max<int64_t>(1, kChunkLogits / rows));
}

GptLayout make_gpt_layout(const config::GptShape& shape, const GptLayoutWish& wish) {
  return build_layout(shape, wish, /*gives_hints=*/true);
}

}  // namespace lockstep::plan
