#include "plan/gpt_layout.h"

#include <algorithm>

#include "core/error.h"
#include "core/strings.h"

namespace lockstep::plan {
namespace {

/// What the tensor axis must divide, with its name.
std::vector<std::pair<std::string, int64_t>> divided_sizes(const spec::GptShape& shape, bool is_sequence_parallel) {
  std::vector<std::pair<std::string, int64_t>> sizes = {
      {"attention heads", shape.heads}, {"query groups", shape.query_groups}, {"columns of the feed-forward layer", shape.ffn}};
  if (shape.fixed_vocab) sizes.emplace_back("rows of the padded vocabulary", *shape.fixed_vocab);
  if (is_sequence_parallel) sizes.emplace_back("tokens of a sequence", shape.sequence);
  return sizes;
}

void check_tensor_axis(const spec::GptShape& shape, const GptLayoutWish& wish) {
  const auto sizes = divided_sizes(shape, wish.is_sequence_parallel);
  const int64_t ranks = wish.world_size % wish.pp == 0 ? wish.world_size / wish.pp : wish.world_size;
  const auto is_legal = [&](int64_t tp) { return ranks % tp == 0 && std::all_of(sizes.begin(), sizes.end(), [&](const auto& size) { return size.second % tp == 0; }); };
  for (const auto& [what, size] : sizes) {
    if (size % wish.tp == 0) continue;
    std::vector<std::string> legal;
    int64_t below = std::min(wish.tp, size), above = wish.tp;
    while (!is_legal(below)) --below;
    while (above <= size && !is_legal(above)) ++above;
    legal.push_back(fmt::format("{}", below));
    if (above <= size) legal.push_back(fmt::format("{}", above));
    throw UsageError(fmt::format("plan: --tensor-model-parallel-size {} does not divide the {} {} of '{}'", wish.tp, size, what, shape.name),
                     fmt::format("use --tensor-model-parallel-size {}", core::join_or(legal)));
  }
}

/// Whether the model's layers divide among so many stages.
bool splits(const spec::GptShape& shape, const GptLayoutWish& wish, int64_t num_stages) {
  SplitWish split = wish.split;
  split.num_stages = static_cast<int>(num_stages);
  try {
    const auto parts = split_layers(shape, split);
    return num_stages > 1 || parts.size() == 1;
  } catch (const UsageError&) {
    return false;
  }
}

/// "start 4 or 8 ranks, or use --pipeline-model-parallel-size 1 or 3": what would fit with one of the two numbers changed.
std::string mesh_hint(const spec::GptShape& shape, const GptLayoutWish& wish) {
  const int64_t model_ranks = wish.tp * wish.pp, below = wish.world_size / model_ranks * model_ranks;
  std::string hint = below == 0 ? fmt::format("start {} ranks, or a multiple", model_ranks) : fmt::format("start {} or {} ranks", below, below + model_ranks);
  if (wish.world_size % wish.tp != 0) return hint;
  std::vector<std::string> stages;
  const int64_t places = wish.world_size / wish.tp, most = std::min(places, shape.layers + 2);
  const auto is_legal = [&](int64_t pp) { return places % pp == 0 && splits(shape, wish, pp); };
  int64_t less = std::min(wish.pp - 1, most), more = wish.pp + 1;
  while (less >= 1 && !is_legal(less)) --less;
  while (more <= most && !is_legal(more)) ++more;
  if (less >= 1) stages.push_back(fmt::format("{}", less));
  if (more <= most) stages.push_back(fmt::format("{}", more));
  return stages.empty() ? hint : fmt::format("{}, or use --pipeline-model-parallel-size {}", hint, core::join_or(stages));
}

constexpr int64_t kMostRanks = 1 << 24;

void check_sizes(const GptLayoutWish& wish) {
  for (const auto& [flag, value] : {std::pair("--world-size", wish.world_size), std::pair("--tensor-model-parallel-size", wish.tp),
                                    std::pair("--pipeline-model-parallel-size", wish.pp)})
    if (value < 1 || value > kMostRanks) throw UsageError(fmt::format("plan: {} is {}, expected 1 to {}", flag, value, kMostRanks));
}

MeshLayout make_mesh(const spec::GptShape& shape, const GptLayoutWish& wish) {
  const int64_t model_ranks = wish.tp * wish.pp;
  if (wish.world_size % model_ranks != 0)
    throw UsageError(fmt::format("plan: one copy of the model takes {} ranks (--tensor-model-parallel-size {} x --pipeline-model-parallel-size {}), which do not divide the {} "
                                 "that there are",
                                 model_ranks, wish.tp, wish.pp, wish.world_size),
                     mesh_hint(shape, wish));
  return MeshLayout::with_data_axis_filled(static_cast<int>(wish.world_size), static_cast<int>(wish.pp), static_cast<int>(wish.tp), wish.order);
}

BatchPlan make_batch(const GptLayoutWish& wish, int64_t dp) {
  const BatchFlags flags{.samples_per_micro = "--micro-batch-size", .num_micro = "micro-batches per step", .global_batch = "--global-batch-size"};
  BatchWish batch{.samples_per_micro = wish.samples_per_micro, .global_batch = wish.global_batch};
  const int64_t quantum = wish.samples_per_micro * dp;
  if (wish.lowers_batch && wish.global_batch && *wish.global_batch >= quantum) batch.global_batch = *wish.global_batch / quantum * quantum;
  return make_batch_plan(dp, batch, flags);
}

PipeShape make_pipe(const spec::GptShape& shape, const GptLayoutWish& wish, const BatchPlan& batch) {
  SplitWish split = wish.split;
  split.num_stages = static_cast<int>(wish.pp);
  const int64_t num_chunks = num_chunks_of(shape, split);
  if (num_chunks < 1) throw UsageError("plan: --num-virtual-stages-per-pipeline-rank must be at least 1");
  if (num_chunks > 1 && wish.pp == 1)
    throw UsageError(fmt::format("plan: {} virtual stages need several pipeline stages", num_chunks), "set --pipeline-model-parallel-size, or leave out virtual stages");
  if (num_chunks > 1 && wish.is_gpipe)
    throw UsageError("plan: --pipeline-schedule gpipe has no virtual stages", "use --pipeline-schedule 1f1b, or leave out virtual stages");
  if (num_chunks * wish.pp > 4 * shape.layers + 4)
    throw UsageError(fmt::format("plan: {} pipeline stages with {} virtual stages each for {} layers", wish.pp, num_chunks, shape.layers), "use fewer stages");
  PipeShape pipe{.kind = wish.is_gpipe ? ScheduleKind::kGpipe : num_chunks > 1 ? ScheduleKind::kInterleaved : ScheduleKind::kOneForwardOneBackward,
                 .num_stages = static_cast<int>(wish.pp),
                 .num_chunks = static_cast<int>(num_chunks),
                 .num_micro = batch.num_micro,
                 .group = num_chunks > 1 ? wish.group : 0};
  check_pipe_shape(pipe, batch.global_batch / batch.num_micro);
  return pipe;
}

}  // namespace

std::vector<spec::ParamSpec> GptLayout::params_of(int stage) const {
  std::vector<spec::ParamSpec> params;
  for (int chunk = 0; chunk < pipe.num_chunks; ++chunk)
    for (spec::ParamSpec& param : spec::gpt_param_specs(shape, part(stage, chunk), tp())) params.push_back(std::move(param));
  return params;
}

int64_t loss_chunk_tokens(const GptLayout& layout, int64_t asked) {
  constexpr int64_t kChunkLogits = int64_t{1} << 26;
  const int64_t tokens = layout.shape.sequence * layout.batch.samples_per_micro, rows = layout.shape.padded_vocab(layout.tp()) / layout.tp();
  return std::min(tokens, asked > 0 ? asked : std::max<int64_t>(1, kChunkLogits / rows));
}

GptLayout make_gpt_layout(const spec::GptShape& shape, const GptLayoutWish& wish) {
  spec::check_gpt_shape(shape);
  check_sizes(wish);
  check_tensor_axis(shape, wish);
  const MeshLayout mesh = make_mesh(shape, wish);
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

}  // namespace lockstep::plan
