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

GptLayout build_layout(const config::GptShape& shape, const GptLayoutRequest& request, bool gives_hints);

/// With the global batch of the request, or where it has none, with some.
bool is_legal(const config::GptShape& shape, GptLayoutRequest request) {
  if (request.world_size % (request.tp * request.pp) != 0) return false;
  if (!request.global_batch)
    request.global_batch =
        request.micro_batch_size * (request.world_size / request.tp);  // as many micro-batches as stages
  try {
    build_layout(shape, request, /*gives_hints=*/false);
    return true;
  } catch (const UsageError&) {
    return false;
  }
}

/// The nearest legal values of a number of the request, below and above what it has: "2 or 4"; "" where there are none.
std::string nearest_legal(const config::GptShape& shape, const GptLayoutRequest& request,
                          int64_t GptLayoutRequest::*number, int64_t step, int64_t most) {
  std::vector<std::string> legal;
  for (const int64_t direction : {-1, 1}) {
    GptLayoutRequest other = request;
    int64_t& value = other.*number;
    value = direction > 0 ? value / step * step + step : std::min(most, (value - 1) / step * step);
    while (value >= step && value <= most && !is_legal(shape, other)) value += direction * step;
    if (value >= step && value <= most) legal.push_back(fmt::format("{}", value));
  }
  return core::join_or(legal);
}

/// Hints for the request, or where its global batch leaves none, for what it asks besides.
std::string with_or_without_batch(GptLayoutRequest request,
                                  const std::function<std::string(const GptLayoutRequest&)>& hint) {
  std::string text = hint(request);
  if (!text.empty() || !request.global_batch) return text;
  request.global_batch.reset();
  text = hint(request);
  return text.empty() ? text : text + ", with another --global-batch-size";
}

void check_tensor_axis(const config::GptShape& shape, const GptLayoutRequest& request, bool gives_hints) {
  for (const auto& [what, size] : divided_sizes(shape, request.is_sequence_parallel)) {
    if (size % request.tp == 0) continue;
    const auto hint = [&](const GptLayoutRequest& base) {
      const std::string sizes =
          nearest_legal(shape, base, &GptLayoutRequest::tp, 1, std::min(size, request.world_size));
      return sizes.empty() ? "" : "use --tensor-model-parallel-size " + sizes;
    };
    throw UsageError(fmt::format("plan: --tensor-model-parallel-size {} does not divide the {} {} of '{}'", request.tp,
                                 size, what, shape.name),
                     gives_hints ? with_or_without_batch(request, hint) : "");
  }
}

/// "start 4 or 8 ranks; or use --pipeline-model-parallel-size 1 or 3": what would fit with one of the numbers changed.
std::string mesh_hint(const config::GptShape& shape, const GptLayoutRequest& request) {
  constexpr int64_t kMultiples = 64;  // of one copy of the model
  const int64_t model_ranks = request.tp * request.pp;
  const std::string worlds = nearest_legal(shape, request, &GptLayoutRequest::world_size, model_ranks,
                                           request.world_size + kMultiples * model_ranks);
  const std::string stages =
      nearest_legal(shape, request, &GptLayoutRequest::pp, 1, std::min(request.world_size, shape.layers + 2));
  const std::string tensor =
      nearest_legal(shape, request, &GptLayoutRequest::tp, 1, std::min(request.world_size, shape.heads));
  std::vector<std::string> hints;
  if (!worlds.empty()) hints.push_back(fmt::format("start {} ranks", worlds));
  if (request.pp > 1 && !stages.empty()) hints.push_back(fmt::format("use --pipeline-model-parallel-size {}", stages));
  if (request.tp > 1 && !tensor.empty()) hints.push_back(fmt::format("use --tensor-model-parallel-size {}", tensor));
  return core::join(hints, "; or ");
}

constexpr int64_t kMostRanks = 1 << 24;

void check_sizes(const GptLayoutRequest& request) {
  for (const auto& [flag, value] :
       {std::pair("--world-size", request.world_size), std::pair("--tensor-model-parallel-size", request.tp),
        std::pair("--pipeline-model-parallel-size", request.pp)})
    if (value < 1 || value > kMostRanks)
      throw UsageError(fmt::format("plan: {} is {}, expected 1 to {}", flag, value, kMostRanks));
}

MeshLayout make_mesh(const config::GptShape& shape, const GptLayoutRequest& request, bool gives_hints) {
  const int64_t model_ranks = request.tp * request.pp;
  if (request.world_size % model_ranks != 0)
    throw UsageError(fmt::format("plan: one copy of the model takes {} ranks (--tensor-model-parallel-size {} x "
                                 "--pipeline-model-parallel-size {}), which do not divide the {} "
                                 "that there are",
                                 model_ranks, request.tp, request.pp, request.world_size),
                     gives_hints ? with_or_without_batch(
                                       request, [&](const GptLayoutRequest& base) { return mesh_hint(shape, base); })
                                 : "");
  return MeshLayout::with_data_axis_filled(static_cast<int>(request.world_size), static_cast<int>(request.pp),
                                           static_cast<int>(request.tp), request.order);
}

BatchPlan make_batch(const GptLayoutRequest& request, int64_t dp) {
  const BatchFlags flags{.micro_batch_size = "--micro-batch-size",
                         .num_micro_batches = "micro-batches per step",
                         .global_batch = "--global-batch-size"};
  BatchRequest batch{.micro_batch_size = request.micro_batch_size, .global_batch = request.global_batch};
  const int64_t quantum = request.micro_batch_size * dp;
  if (request.lowers_batch && request.global_batch && *request.global_batch >= quantum)
    batch.global_batch = *request.global_batch / quantum * quantum;
  return make_batch_plan(dp, batch, flags);
}

PipeShape make_pipe(const config::GptShape& shape, const GptLayoutRequest& request, const BatchPlan& batch) {
  SplitRequest split = request.split;
  split.num_stages = static_cast<int>(request.pp);
  const int64_t num_chunks = num_chunks_of(shape, split);
  if (num_chunks < 1) throw UsageError("plan: --num-virtual-stages-per-pipeline-rank must be at least 1");
  if (num_chunks > 1 && request.pp == 1)
    throw UsageError(fmt::format("plan: {} virtual stages need several pipeline stages", num_chunks),
                     "set --pipeline-model-parallel-size, or leave out virtual stages");
  if (num_chunks > 1 && request.is_gpipe)
    throw UsageError("plan: --pipeline-schedule gpipe has no virtual stages",
                     "use --pipeline-schedule 1f1b, or leave out virtual stages");
  if (num_chunks * request.pp > 4 * shape.layers + 4)
    throw UsageError(fmt::format("plan: {} pipeline stages with {} virtual stages each for {} layers", request.pp,
                                 num_chunks, shape.layers),
                     "use fewer stages");
  PipeShape pipe{.kind = request.is_gpipe ? ScheduleKind::kGpipe
                         : num_chunks > 1 ? ScheduleKind::kInterleaved
                                          : ScheduleKind::kOneForwardOneBackward,
                 .num_stages = static_cast<int>(request.pp),
                 .num_chunks = static_cast<int>(num_chunks),
                 .num_micro_batches = batch.num_micro_batches,
                 .group = num_chunks > 1 ? request.group : 0};
  check_pipe_shape(pipe, batch.global_batch / batch.num_micro_batches);
  return pipe;
}

GptLayout build_layout(const config::GptShape& shape, const GptLayoutRequest& request, bool gives_hints) {
  config::check_gpt_shape(shape);
  check_sizes(request);
  check_tensor_axis(shape, request, gives_hints);
  const MeshLayout mesh = make_mesh(shape, request, gives_hints);
  SplitRequest split = request.split;
  split.num_stages = static_cast<int>(request.pp);
  split.num_ranks = request.world_size / request.tp;
  auto parts = split_layers(shape, split);
  const BatchPlan batch = make_batch(request, mesh.size(Axis::kData));
  return {.shape = shape,
          .mesh = mesh,
          .is_sequence_parallel = request.is_sequence_parallel && request.tp > 1,
          .is_optimizer_sharded = request.is_optimizer_sharded,
          .pipe = make_pipe(shape, request, batch),
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
  const int64_t tokens = layout.shape.sequence * layout.batch.micro_batch_size,
                rows = layout.shape.padded_vocab(layout.tp()) / layout.tp();
  return std::min(tokens, asked > 0 ? asked : std::max<int64_t>(1, kChunkLogits / rows));
}

GptLayout make_gpt_layout(const config::GptShape& shape, const GptLayoutRequest& request) {
  return build_layout(shape, request, /*gives_hints=*/true);
}

}  // namespace lockstep::plan
