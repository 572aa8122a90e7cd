#include "support/gpt_mesh.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <set>
#include <stdexcept>
#include <tuple>

#include "comm/recorder.h"
#include "core/error.h"
#include "core/strings.h"
#include "models/gpt/gpt_task.h"
#include "models/gpt/gpt_weights.h"
#include "tasks/gpt/front/gpt_plan.h"

namespace lockstep::tests {
namespace {

constexpr int kSteps = 3;
constexpr int64_t kSamplesPerMicro = 2;  // of a micro-batch
constexpr double kLr = 1e-2, kClip = 0.5;

using Counts = std::map<std::tuple<std::string, std::string, int64_t>, int64_t>;

models::Batch batch_of(const config::GptShape& shape, int step, int64_t place) {
  const int64_t tokens = shape.sequence, count = kSamplesPerMicro * (tokens + 1);
  const at::Tensor ids = at::arange(count)
                             .add(step * 17 + place * 7)
                             .mul(29)
                             .add(3)
                             .mul(11)
                             .remainder(shape.vocab)
                             .view({kSamplesPerMicro, tokens + 1});
  models::Batch batch;
  batch.text_BT = ids.narrow(1, 0, tokens);
  batch.target_BT = ids.narrow(1, 1, tokens);
  batch.num_samples = kSamplesPerMicro;
  batch.loss_weight_BT = at::arange(kSamplesPerMicro * tokens)
                             .add(step + place)
                             .remainder(5)
                             .ne(0)
                             .to(at::kFloat)
                             .view({kSamplesPerMicro, tokens});
  return batch;
}

at::Tensor whole_of(const at::Tensor& own, const config::ParamSpec& spec, const models::GptModel& model) {
  const at::Tensor whole = models::whole_parameter(own, spec, model.shard());
  return (config::is_vocab_table(spec) ? whole.narrow(0, 0, model.shape().vocab) : whole).clone();
}

/// What the optimiser has for a parameter (gradient, moments), put together where data ranks have a piece of it each.
at::Tensor assembled(const comm::NamedTensor& parameter, const tasks::GptTraining& training,
                     const std::function<at::Tensor(size_t)>& of_segment) {
  const at::Tensor whole = at::zeros(parameter.tensor->sizes(), at::kFloat), flat = whole.view({-1});
  const auto& segments = training.optimizer->segments();
  for (size_t i = 0; i < segments.size(); ++i)
    if (segments[i].name == parameter.name) {
      const at::Tensor piece = of_segment(i);
      flat.narrow(0, segments[i].offset, piece.numel()).copy_(piece.reshape({-1}));
    }
  if (comm::Comm* shards = training.sync->partition().shards; shards != nullptr) shards->all_reduce(flat).wait();
  return whole;
}

/// Of all chunks of a stage, whole. Collective over the tensor and data axes.
std::map<std::string, at::Tensor> whole_tensors(const tasks::GptTraining& training,
                                                const std::function<at::Tensor(const comm::NamedTensor&)>& own_part) {
  std::map<std::string, at::Tensor> out;
  auto& task = *training.stage;
  training.sync->wait_params();
  for (int64_t chunk = 0; chunk < task.num_chunks(); ++chunk) {
    models::GptModel& model = task.chunk(chunk);
    const auto parameters = model.named_parameters();
    for (size_t i = 0; i < parameters.size(); ++i)
      out[parameters[i].name] = whole_of(own_part(parameters[i]), model.param_specs()[i], model);
  }
  return out;
}

/// Roots of the means of squares: their errors are as large as those of gradients.
std::map<std::string, at::Tensor> whole_moments(const tasks::GptTraining& training) {
  std::map<std::string, at::Tensor> out;
  const auto state = training.optimizer->state();
  const auto add = [&](const std::string& what, const std::function<at::Tensor(size_t)>& of_segment) {
    for (auto& [name, tensor] : whole_tensors(
             training, [&](const comm::NamedTensor& parameter) { return assembled(parameter, training, of_segment); }))
      out.emplace(fmt::format("{} of {}", what, name), tensor);
  };
  add("exp_avg", [&](size_t i) { return state[i].at("exp_avg"); });
  add("root of exp_avg_sq", [&](size_t i) { return state[i].at("exp_avg_sq").sqrt(); });
  return out;
}

Counts counts_of(comm::Recorder& recorder) {
  Counts counts;
  for (const comm::RecorderEntry& entry : recorder.snapshot())
    counts[{entry.axis, entry.kind, entry.bytes}] += entry.count;
  return counts;
}

std::string difference(const Counts& got, const Counts& want) {
  if (got == want) return "";
  std::set<Counts::key_type> keys;
  for (const Counts* counts : {&got, &want})
    for (const auto& [key, count] : *counts) keys.insert(key);
  std::string text = "axis, kind, bytes: counted, predicted";
  const auto at = [](const Counts& counts, const Counts::key_type& key) {
    return counts.contains(key) ? counts.at(key) : 0;
  };
  for (const auto& key : keys)
    if (at(got, key) != at(want, key))
      text += fmt::format("\n  {}, {}, {}: {}, {}", std::get<0>(key), std::get<1>(key), std::get<2>(key), at(got, key),
                          at(want, key));
  return text;
}

/// As earlier steps would have left it. At the first scale, 1, small gradients are below the range of normal numbers,
/// where the rounding of a rank with half of the micro-batches, whose gradients are twice as large, is another one.
void set_gradient_scale(const at::Tensor& scale, int64_t num_micro_batches) {
  scale.select(0, 2).fill_(256.0 * static_cast<double>(num_micro_batches));
}

/// Throws where the collectives of the first step are not those that were predicted.
MeshTrace train(const MeshCase& mesh_case, comm::MeshGroups& groups) {
  comm::Mesh& mesh = groups.mesh;
  comm::Comm& world = groups.world;
  if (world.size() != mesh_case.num_ranks()) throw std::runtime_error("wrong world size");
  const tasks::GptOptions options = options_of(mesh_case);
  const plan::GptLayout layout = tasks::train_gpt_layout(options, world.size());
  tasks::GptTraining training = tasks::build_gpt_training(options, layout, groups, at::kCPU);
  for (const auto& [name, tensor] : training.task->network().named_buffers())
    if (core::ends_with(name, ".fp8.scale")) set_gradient_scale(*tensor, layout.batch.num_micro_batches);
  MeshTrace trace;
  const auto initial = whole_parameters(training);
  for (int step = 0; step < kSteps; ++step) {
    std::vector<models::Batch> batches;
    for (int64_t micro = 0; micro < mesh_case.micro; ++micro)
      batches.push_back(batch_of(layout.shape, step, micro * mesh_case.dp + mesh.point().dp));
    world.recorder().clear();
    const train::StepOutcome outcome = training.runner->run(batches, static_cast<uint64_t>(step) + 5);
    Counts counts = counts_of(world.recorder());
    if (step == 0) trace.gradients = whole_gradients(training);
    trace.losses.push_back(outcome.scalars.at(0).second.item<double>());
    world.recorder().clear();
    trace.norms.push_back(training.update(kLr, kClip).norm.item<double>());
    for (const auto& [call, count] : counts_of(world.recorder())) counts[call] += count;
    if (step > 0) continue;
    Counts want;
    for (const auto& entry : plan::predict_gpt_traffic(layout, plan::make_pipe_schedule(layout.pipe), mesh.point().pp,
                                                       tasks::train_gpt_traffic(options), mesh.point().dp))
      want[{entry.axis, entry.kind, entry.bytes}] += entry.count;
    if (const std::string text = difference(counts, want); !text.empty()) throw std::runtime_error(text);
  }
  trace.parameters = whole_parameters(training);
  trace.moments = whole_moments(training);
  for (const auto& [name, tensor] : trace.parameters) trace.changes[name] = tensor - initial.at(name);
  return trace;
}

struct Tolerance {
  double loss, tensor, change;
};
/// Of fp32: sums of some hundred terms in another order, through up to 24 layers. Of 16-bit types: some roundings of an
/// activation.
Tolerance tolerance_of(const std::string& precision) {
  if (precision == "fp32") return {1e-5, 1e-4, 0.01};
  return precision == "bf16" ? Tolerance{8e-3, 0.1, 0.3} : Tolerance{1e-3, 0.0125, 0.1};
}

std::string compare_numbers(const std::vector<double>& got, const std::vector<double>& want, const std::string& what,
                            double tolerance, double& largest) {
  std::string text;
  if (got.size() != want.size()) return fmt::format("{} of {} steps, expected {}\n", what, got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) largest = std::max(largest, std::abs(got[i] - want[i]) / std::abs(want[i]));
  for (size_t i = 0; i < want.size(); ++i)
    if (!(std::abs(got[i] - want[i]) <= tolerance * std::abs(want[i])))
      text += fmt::format("{} of step {}: {:.8g}, one rank {:.8g}\n", what, i, got[i], want[i]);
  return text;
}

/// By their norm: in 16 bits the largest value of a table says nothing about an update, and single elements with
/// gradients near 0 go either way.
std::string compare_changes(const std::map<std::string, at::Tensor>& got, const std::map<std::string, at::Tensor>& want,
                            double tolerance, double& largest) {
  std::string text;
  for (const auto& [name, change] : got) {
    const double error = (change - want.at(name)).norm().item<double>() / want.at(name).norm().item<double>();
    largest = std::max(largest, error);
    if (!(error <= tolerance)) text += fmt::format("change of {}: relative difference {:.3g}\n", name, error);
  }
  return text;
}

/// The same samples on one rank. Kept, since many layouts share it.
const MeshTrace& one_rank(const MeshCase& mesh) {
  static std::map<std::string, MeshTrace> known;  // of this one thread
  MeshCase alone{.micro = mesh.micro * mesh.dp, .is_tied = mesh.is_tied};
  alone.precision = mesh.precision;
  alone.fp8 = mesh.fp8;
  alone.model = mesh.model;
  alone.is_per_token = mesh.is_per_token;
  alone.chunks = mesh.num_layers();
  const auto [place, is_new] = known.try_emplace(alone.name());
  if (is_new)
    run_mesh_groups(plan::MeshLayout(1, {1, 1, 1}),
                    [&](comm::MeshGroups& groups) { place->second = train(alone, groups); });
  return place->second;
}

std::vector<int> values_of(const MeshCase& m) {
  return {m.tp,
          m.pp,
          m.dp,
          m.chunks,
          m.micro,
          m.splits_tokens ? 1 : 0,
          m.is_gpipe ? 1 : 0,
          m.is_tied ? 1 : 0,
          m.is_sharded ? 1 : 0};
}

using Pair = std::tuple<size_t, int, size_t, int>;
std::vector<Pair> pairs_of(const MeshCase& mesh) {
  const auto values = values_of(mesh);
  std::vector<Pair> pairs;
  for (size_t i = 0; i < values.size(); ++i)
    for (size_t j = i + 1; j < values.size(); ++j) pairs.emplace_back(i, values[i], j, values[j]);
  return pairs;
}

}  // namespace

std::map<std::string, at::Tensor> whole_parameters(const tasks::GptTraining& training) {
  return whole_tensors(training,
                       [](const comm::NamedTensor& parameter) { return parameter.tensor->detach().to(at::kFloat); });
}

std::map<std::string, at::Tensor> whole_gradients(const tasks::GptTraining& training) {
  return whole_tensors(training, [&](const comm::NamedTensor& parameter) {
    return assembled(parameter, training, [&](size_t i) {
      const optim::Segment& segment = training.optimizer->segments()[i];
      return segment.gradient.defined() ? segment.gradient : segment.parameter.grad();
    });
  });
}

std::string compare_tensors(const std::map<std::string, at::Tensor>& got, const std::map<std::string, at::Tensor>& want,
                            const std::string& what, double tolerance, double* largest) {
  std::string text;
  for (const auto& [name, tensor] : got) {
    const at::Tensor& reference = want.at(name);
    const double scale = reference.abs().max().item<double>();
    if (scale < 1e-6) text += fmt::format("{} of {}: the reference proves nothing\n", what, name);
    const double error =
        tensor.sizes() == reference.sizes() ? (tensor - reference).abs().max().item<double>() / scale : NAN;
    if (largest != nullptr) *largest = std::max(*largest, error);
    if (!(error <= tolerance)) text += fmt::format("{} of {}: relative difference {:.3g}\n", what, name, error);
  }
  return text;
}

std::string MeshCase::name() const {
  std::string text =
      fmt::format("tp{}_pp{}_dp{}_v{}_m{}{}_{}_{}{}", tp, pp, dp, chunks, micro, splits_tokens ? "_sp" : "",
                  is_gpipe ? "gpipe" : "1f1b", is_tied ? "tied" : "untied", is_sharded ? "_zero1" : "");
  if (precision != "fp32") text += "_" + precision;
  if (!fp8.empty()) text += "_fp8_" + fp8;
  for (const std::string& part : {model, recompute, stages})
    if (!part.empty()) text += "_" + part;
  std::replace(text.begin(), text.end(), '|', '_');  // names of tests are words
  return text + (is_tp_pp_dp ? "_tp_pp_dp" : "") + (is_per_token ? "_per_token" : "");
}

int MeshCase::num_layers() const {
  return stages.empty() ? pp * chunks : static_cast<int>(std::count(stages.begin(), stages.end(), 't'));
}

static void set_model_parts(const std::string& model, tasks::GptOptions& o) {
  o.group_query_attention = true;
  o.num_query_groups = 4;
  o.position_embedding_type = "rope";
  o.disable_bias_linear = true;
  const bool is_llama = model == "llama";
  o.normalization = is_llama ? "RMSNorm" : "LayerNorm";
  (is_llama ? o.swiglu : o.squared_relu) = true;
  if (is_llama) return;
  o.apply_layernorm_1p = true;
  o.rotary_percent = 0.5;
}

static void set_recompute(const std::string& how, tasks::GptOptions& o) {
  o.recompute_granularity = how == "selective" ? "selective" : "full";
  if (how == "selective") return;
  o.recompute_method = how;
  o.recompute_num_layers = how == "uniform" ? 2 : 1;
}

tasks::GptOptions options_of(const MeshCase& mesh) {
  tasks::GptOptions o;
  o.num_layers = mesh.num_layers();
  o.hidden_size = 16;
  o.num_attention_heads = 8;
  o.kv_channels = 4;
  o.ffn_hidden_size = 24;
  o.seq_length = 8;
  o.vocab_size = 45;  // tables of 48 to 64 rows
  o.make_vocab_size_divisible_by = 8;
  o.init_method_std = 0.25;
  o.hidden_dropout = o.attention_dropout = 0.1;
  o.untie_embeddings_and_output_weights = !mesh.is_tied;
  o.micro_batch_size = kSamplesPerMicro;
  o.global_batch_size = kSamplesPerMicro * mesh.micro * mesh.dp;
  o.tensor_model_parallel_size = mesh.tp;
  o.pipeline_model_parallel_size = mesh.pp;
  if (!mesh.stages.empty())
    o.pipeline_model_parallel_layout = mesh.stages;
  else if (mesh.chunks > 1 && mesh.pp > 1)
    o.num_virtual_stages_per_pipeline_rank = mesh.chunks;
  o.use_tp_pp_dp_mapping = mesh.is_tp_pp_dp;
  o.calculate_per_token_loss = mesh.is_per_token;
  if (!mesh.model.empty()) set_model_parts(mesh.model, o);
  if (!mesh.recompute.empty()) set_recompute(mesh.recompute, o);
  o.sequence_parallel = mesh.splits_tokens;
  o.use_distributed_optimizer = mesh.is_sharded;
  o.precision = mesh.precision;
  o.accumulate_allreduce_grads_in_fp32 = mesh.precision == "bf16";
  o.initial_loss_scale = 1024;
  o.pipeline_schedule = mesh.is_gpipe ? "gpipe" : "1f1b";
  o.ddp_bucket_size = 500;
  o.weight_decay = 0.1;
  o.adam_beta2 = 0.95;
  o.adam_eps = 1e-3;  // so that what is all rounding moves nothing
  o.device = "cpu";
  if (mesh.fp8.empty()) return o;
  o.fp8_format = "hybrid";
  o.fp8_recipe = mesh.fp8;
  o.fp8_amax_history_len = 2;
  o.fp8_amax_compute_algo = "max";
  return o;
}

std::vector<MeshCase> legal_meshes(int max_ranks) {
  std::vector<MeshCase> all;
  const auto add_if_legal = [&](const MeshCase& mesh) {
    try {
      tasks::train_gpt_layout(options_of(mesh), mesh.num_ranks());
      all.push_back(mesh);
    } catch (const UsageError&) {  // that is what "legal" means
    }
  };
  for (int tp = 1; tp <= max_ranks; ++tp)
    for (int pp = 1; tp * pp <= max_ranks; ++pp)
      for (int dp = 1; tp * pp * dp <= max_ranks; ++dp)
        for (int chunks = 1; chunks <= (pp > 1 ? 3 : 1); ++chunks)
          for (int micro = 1; micro <= 6; ++micro)
            for (const bool splits : {false, true})
              for (const bool gpipe : {false, true})
                for (const bool tied : {false, true})
                  for (const bool sharded : {false, true}) {
                    if ((splits && tp == 1) || (sharded && dp == 1) || (gpipe && pp == 1))
                      continue;  // the same as without
                    add_if_legal({tp, pp, dp, chunks, micro, splits, gpipe, tied, sharded});
                  }
  return all;
}

std::vector<MeshCase> pairwise_cover(const std::vector<MeshCase>& all) {
  std::set<Pair> missing;
  for (const MeshCase& mesh : all)
    for (const Pair& pair : pairs_of(mesh)) missing.insert(pair);
  std::vector<MeshCase> cover;
  while (!missing.empty()) {
    const MeshCase* best = nullptr;
    size_t most = 0;
    for (const MeshCase& mesh : all) {
      size_t count = 0;
      for (const Pair& pair : pairs_of(mesh)) count += missing.count(pair);
      if (count > most) best = &mesh, most = count;
    }
    cover.push_back(*best);
    for (const Pair& pair : pairs_of(*best)) missing.erase(pair);
  }
  return cover;
}

std::string compare_with_one_rank(const MeshCase& mesh, ThreadBackend backend, MeshDeviation* largest) {
  MeshDeviation found;
  const MeshTrace& want = one_rank(mesh);
  if (want.losses.at(0) == want.losses.at(2)) return "nothing was trained";
  const plan::GptLayout layout = tasks::train_gpt_layout(options_of(mesh), mesh.num_ranks());
  const auto [loss, tensor, change] = tolerance_of(mesh.precision);
  std::mutex mutex;
  std::string text;
  std::map<std::string, at::Tensor> seen;
  try {
    run_mesh_groups(
        layout.mesh,
        [&](comm::MeshGroups& groups) {
          const MeshTrace got = train(mesh, groups);
          const std::lock_guard lock(mutex);
          for (const auto& [name, parameter] : got.parameters)
            if (!seen.try_emplace(name, parameter).first->second.equal(parameter))
              text += fmt::format("rank {}: its copy of {} is not that of another rank\n", groups.world.rank(), name);
          const std::string here =
              compare_numbers(got.losses, want.losses, "loss", loss, found.loss) +
              compare_numbers(got.norms, want.norms, "norm of the gradient", tensor, found.tensor) +
              compare_tensors(got.gradients, want.gradients, "gradient", tensor, &found.tensor) +
              compare_tensors(got.moments, want.moments, "moment", tensor, &found.tensor) +
              compare_tensors(got.parameters, want.parameters, "parameter", tensor, &found.tensor) +
              compare_changes(got.changes, want.changes, change, found.change);
          if (!here.empty()) text += fmt::format("rank {}:\n{}", groups.world.rank(), here);
        },
        backend);
  } catch (const std::exception& error) {
    return text + error.what();
  }
  if (largest != nullptr) *largest = found;
  if (seen.size() != want.parameters.size())
    text += fmt::format("{} parameters on all ranks, one rank has {}\n", seen.size(), want.parameters.size());
  return text;
}

}  // namespace lockstep::tests
