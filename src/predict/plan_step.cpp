#include "predict/plan_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "commands/commands.h"
#include "config/gpt_shape.h"
#include "core/error.h"
#include "core/strings.h"
#include "core/units.h"
#include "hw/device_specs.h"
#include "predict/contention.h"
#include "predict/input_rates.h"
#include "predict/nccl_time.h"
#include "stats/statistics.h"

namespace lockstep::predict {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr double kNoiseOfCores = 0.03;                                  // of steps: other programs use them, too
constexpr double kMessageLatency = 20e-6;                               // s a call
constexpr double kTensorEfficiency = 0.8;                               // of the links inside a node
constexpr double kMemoryEfficiency = 0.85, kAssumedMemoryTbytes = 1.5;  // of triad's rate, in other operators; TB/s

/// What a kind of model reaches of the dense peak in compute alone, before anything is measured.
struct EfficiencyPrior {
  std::string_view word;  ///< In task or model.
  double median, log_sd;
  std::string_view source;
};
constexpr EfficiencyPrior kEfficiencies[] = {
    {"gpt", 0.55, 0.25, "prior for large language models"},
    {"clap", 0.08, 0.50, "prior for audio towers of many small kernels, of HTSAT-tiny measured on an H100"},
    {"htsat", 0.08, 0.50, "prior for audio towers of many small kernels, of HTSAT-tiny measured on an H100"},
    {"rn", 0.15, 0.50, "prior for convolutional networks, bound by memory"},
    {"vit_", 0.40, 0.35, "prior for vision transformers"},
    {"imagenet", 0.15, 0.50, "prior for convolutional networks, bound by memory"},
    {"clip", 0.40, 0.35, "prior for vision transformers"},
};
constexpr double kFp8Share = 0.75;  // of such shares: attention and the head stay in 16 bits
constexpr double kAmdShare = 0.6;   // of such shares, where data-sheet peaks are reached less

core::Json facts_json(const tasks::DryRunPage& page) {
  core::Json json = core::Json::object();
  for (const tasks::DryRunFact& fact : page.facts)
    if (!fact.key.empty()) json[fact.key] = fact.value;
  json.update(page.extra);
  return json;
}

double ring_passes(const std::string& kind) { return kind == "all_reduce" ? 2 : 1; }

/// Traffic of the stage that sends most gradients, and of the one with most tensor traffic.
void take_stages(const core::Json& stages, PlannedStep& step) {
  double most_gradients = -1;
  for (const core::Json& stage : stages) {
    std::vector<double> buckets;
    double tensor = 0;
    int64_t tensor_calls = 0;
    for (const core::Json& entry : stage.at("collectives")) {
      const std::string axis = entry.at("axis"), kind = entry.at("kind");
      const double bytes = ring_passes(kind) * entry.at("bytes").get<double>();
      const auto count = entry.at("count").get<int64_t>();
      if (axis == "dp" && kind == "reduce_scatter") step.is_gradient_sharded = true;
      if (axis == "dp") buckets.insert(buckets.end(), static_cast<size_t>(count), bytes);
      if (axis == "tp") tensor += bytes * static_cast<double>(count), tensor_calls += count;
      if (axis == "pp") step.pipe_message_bytes = std::max(step.pipe_message_bytes, bytes);
    }
    if (tensor > step.tensor_bytes) step.tensor_bytes = tensor, step.num_tensor_calls = tensor_calls;
    step.parameters_per_rank = std::max(step.parameters_per_rank, stage.at("parameters_per_rank").get<double>());
    const core::Json& moved = stage.at("memory_bound_bytes");
    step.moved_bytes += moved.at("total").get<double>() / static_cast<double>(stages.size());
    step.repeated_bytes += moved.at("repeated").get<double>() / static_cast<double>(stages.size());
    if (const double sum = std::accumulate(buckets.begin(), buckets.end(), 0.0); sum > most_gradients)
      most_gradients = sum, step.gradient_bucket_bytes = std::move(buckets);
  }
}

const EfficiencyPrior& efficiency_prior(const PlannedStep& step) {
  const std::string model = core::to_lower_ascii(step.model);
  for (const EfficiencyPrior& prior : kEfficiencies)
    if (step.task == prior.word || core::starts_with(model, prior.word)) return prior;
  return kEfficiencies[std::size(kEfficiencies) - 1];
}

/// What the products run in: those of fp32 numbers as TF32 where that is allowed and the device has it.
std::string products_in(const PlannedStep& step, const Machine& machine) {
  const bool has_tf32 = step.allows_tf32 && machine.peak_tflops(hw::ComputeType::kTf32).has_value();
  return step.precision == "fp32" && has_tf32 ? "tf32" : step.precision;
}

double peak_of(const PlannedStep& step, const Machine& machine) {
  const auto type = hw::compute_type_of_precision(products_in(step, machine));
  if (const auto peak = type ? machine.peak_tflops(*type) : std::nullopt) return *peak;
  throw UsageError(fmt::format("predict: {} has no known peak for --precision {}", machine.name, step.precision),
                   "choose another precision, or give a system file with the peak");
}

bool is_amd(const Machine& machine) { return core::starts_with(machine.device, "MI"); }

/// Share of the dense peak that a step's compute is expected to reach.
double reached_share(const PlannedStep& step, const Machine& machine) {
  return efficiency_prior(step).median * (is_amd(machine) ? kAmdShare : 1) * (step.precision == "fp8" ? kFp8Share : 1);
}

/// Time of tensor collectives and of the messages that fill and drain a pipeline: in nobody's shadow.
void add_layers(const PlannedStep& step, const Machine& machine, Size& size) {
  const double per_node = static_cast<double>(machine.devices_per_node);
  const double wire_bytes_per_s = machine.node_gbytes_per_s.value / per_node * 1e9;
  if (step.tp > 1) {
    const auto k = static_cast<double>(step.tp);
    const double bytes = step.tensor_bytes * (k - 1) / k;
    size.layers_s += static_cast<double>(step.num_tensor_calls) * machine.link_latency_us.value * 1e-6;
    if (k <= per_node)
      size.layers_s += bytes / (machine.link_gbytes_per_s.value * kTensorEfficiency * 1e9);
    else
      size.layers_wire_s +=
          bytes / (wire_bytes_per_s * per_node);  // a group that fills its nodes has all of their NICs
  }
  if (step.pp > 1) {
    const auto hops = 2 * static_cast<double>(step.pp - 1);
    size.layers_s += hops * kMessageLatency;
    size.layers_wire_s += hops * step.pipe_message_bytes / wire_bytes_per_s;
  }
}

/// Ranks that share one device: 1, but on a machine that computes with fewer at a time.
double ranks_at_once(const PlannedStep& step, const Machine& machine) {
  if (!machine.devices_at_a_time) return 1;
  return std::max(1.0, static_cast<double>(step.num_ranks) / static_cast<double>(*machine.devices_at_a_time));
}

/// On average over the step: ranks of a pipeline that wait for one another disturb nobody.
double crowding_of(const PlannedStep& step, const Machine& machine) {
  return crowding_of(static_cast<double>(step.num_ranks) / (1 + step.bubble), machine);
}

/// Seconds that operators beside matrix products need for so many bytes.
double passes_s(double bytes, const Machine& machine) {
  const double rate = machine.memory_tbytes_per_s.value > 0 ? machine.memory_tbytes_per_s.value : kAssumedMemoryTbytes;
  return bytes / (rate * 1e12 * kMemoryEfficiency);
}

/// Seconds of products in the precision of `step` over those in that of `base`.
double precision_ratio(const PlannedStep& step, const PlannedStep& base, const Machine& machine) {
  if (products_in(step, machine) == products_in(base, machine)) return 1;
  return peak_of(base, machine) * reached_share(base, machine) /
         (peak_of(step, machine) * reached_share(step, machine));
}

/// Work of `step` against `base`, whose compute takes `base_s`: products follow the FLOPs, passes over memory the
/// bytes. Where the bytes alone would take longer than that, they take the most that leaves something to the products.
void take_work(const PlannedStep& step, const PlannedStep& base, double base_s, const Machine& machine, Size& size) {
  constexpr double kMostPasses = 0.8;
  size.work = step.flops_per_rank / base.flops_per_rank;
  const auto samples_of_rank = [](const PlannedStep& one) {
    return static_cast<double>(one.global_batch) / static_cast<double>(one.num_ranks);
  };
  size.samples = samples_of_rank(step) / samples_of_rank(base);
  const Contention of_products = product_contention_of(machine), of_memory = memory_contention_of(machine);
  size.crowding = crowding_of(step, machine);
  const double crowding_of_base = crowding_of(base, machine);
  const auto slowdown = [&](const Contention& contention) {
    return contention.slowdown(size.crowding) / contention.slowdown(crowding_of_base);
  };
  const double products =
      step.recompute_factor / base.recompute_factor * slowdown(of_products) * precision_ratio(step, base, machine);
  const double bytes =
      base.moved_bytes > 0 ? step.moved_bytes / base.moved_bytes / size.work * slowdown(of_memory) : products;
  const double share =
      std::min(kMostPasses, of_memory.slowdown(crowding_of_base) * passes_s(base.moved_bytes, machine) / base_s);
  const double both = products + share * (bytes - products);
  size.compute_per_work = both * ranks_at_once(step, machine) / ranks_at_once(base, machine);
  size.memory_share = share * bytes / both;
  size.product_share = 1 - size.memory_share;
  size.product_log_sd = precision_log_sd(step, base, machine);
}

/// The collectives of a step's gradient buckets as NCCL may run them: of sharded gradients a reduce-scatter and an
/// all-gather, which only rings serve. Nothing where its model does not hold: other devices, replicas of several
/// devices, one node.
std::vector<GradientCalls> gradient_calls(const PlannedStep& step, const Machine& machine) {
  const auto nodes = nccl_nodes_of(machine);
  if (!nodes || step.tp * step.pp > 1 || step.nodes < 2) return {};
  const auto ranks = static_cast<double>(step.num_ranks);
  std::map<double, double> counts;  // by the bytes of both passes
  for (const double both_passes : step.gradient_bucket_bytes)
    if (both_passes > 0) ++counts[both_passes];
  std::vector<GradientCalls> all;
  const auto add = [&](Collective collective, double bytes, double sent_bytes, double count) {
    GradientCalls calls{.count = count, .link_s = sent_bytes / (machine.link_gbytes_per_s.value * 1e9)};
    for (const NcclChoice& choice : nccl_choices(*nodes, collective, static_cast<double>(step.nodes), bytes))
      calls.ways.push_back({choice.latency_s, choice.seconds - choice.latency_s});
    all.push_back(std::move(calls));
  };
  for (const auto& [both_passes, count] : counts) {
    const double bytes = both_passes / 2, sent_bytes = both_passes * (ranks - 1) / ranks;
    if (!step.is_gradient_sharded) {
      add(Collective::kAllReduce, bytes, sent_bytes, count);
      continue;
    }
    for (const Collective collective : {Collective::kReduceScatter, Collective::kAllGather})
      add(collective, bytes, sent_bytes / 2, count);
  }
  return all;
}

double sum_of(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

/// Buckets of one pass each, not more than the simulation needs: neighbours are put together.
std::vector<double> bucket_shares(const std::vector<double>& bytes) {
  constexpr size_t kMostBuckets = 32;
  const double total = sum_of(bytes);
  std::vector<double> shares;
  const size_t group = (bytes.size() + kMostBuckets - 1) / kMostBuckets;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i % group == 0) shares.push_back(0);
    shares.back() += bytes[i] / total;
  }
  return shares;
}

/// Executed over model FLOPs: a second forward pass of everything, or of attention alone.
double recompute_factor_of(const core::OptionSet& set) {
  constexpr double kSelective = 1.02;
  const auto value_of = [&](const char* name) {
    const core::Option* option = set.find(name);
    return option != nullptr ? option->value_json() : core::Json();
  };
  if (value_of("recompute-granularity") == "full" || value_of("grad-checkpointing") == true) return 4.0 / 3;
  return value_of("recompute-granularity") == "selective" || value_of("recompute-activations") == true ? kSelective : 1;
}

/// Do most products of fp32 numbers run as TF32 on devices that have it? Those of a ResNet are convolutions.
bool allows_tf32(const core::OptionSet& set, const PlannedStep& step) {
  const bool is_convolutional = step.task == "imagenet" && core::starts_with(step.model, "resnet");
  const core::Option* option = set.find(is_convolutional ? "cudnn-tf32" : "tf32");
  return option != nullptr && option->value_json() == true;
}

/// Tokens of a sequence: as given, else of the named model.
std::optional<int64_t> tokens_of(const core::OptionSet& set, const PlannedStep& step) {
  const core::Option* length = set.find("seq-length");
  if (length == nullptr) return std::nullopt;
  if (const core::Json value = length->value_json(); value.is_number_integer()) return value.get<int64_t>();
  const std::vector<std::string> names = config::gpt_model_names();
  if (std::find(names.begin(), names.end(), step.model) == names.end()) return std::nullopt;
  return config::resolve_gpt_shape(step.model).sequence;
}

/// What no term explains is a share of the last measured step; before one is measured of each step itself, so that no
/// size depends on which others are asked for.
Setting calibrated_setting(const PlannedModel& model, const Calibration& calibration) {
  Setting setting = model.setting;
  setting.growth_work = calibration.growth_work;
  return setting;
}

double median_compute_s(const std::vector<Draw>& draws) {
  std::vector<double> values;
  for (const Draw& draw : draws) values.push_back(draw.compute_s);
  return stats::median(values);
}
}  // namespace

// A precision of R times the peak makes products between 1 and R times as fast, with 90 % probability: kernels, shapes
// and clocks decide where. Even those of equal peaks differ by a few percent.
double precision_log_sd(const PlannedStep& step, const PlannedStep& base, const Machine& machine) {
  constexpr double kOfEqualPeaks = 0.03, kWidthOf90 = 2 * 1.645;  // standard deviations
  if (products_in(step, machine) == products_in(base, machine)) return 0;
  return std::hypot(kOfEqualPeaks, std::log(peak_of(step, machine) / peak_of(base, machine)) / kWidthOf90);
}

PlannedStep planned_step(const std::string& task, const tasks::DryRunPage& page, int64_t nodes, int64_t num_ranks) {
  const core::Json facts = facts_json(page);
  PlannedStep step{.nodes = nodes,
                   .num_ranks = num_ranks,
                   .task = task,
                   .model = core::text_at(facts, "model"),
                   .precision = core::text_at(facts, "precision")};
  step.global_batch = facts.at("global_batch");
  step.num_micro = facts.value("num_micro", int64_t{1});
  const auto ranks = static_cast<double>(num_ranks);
  if (facts.contains("flops_per_step")) {
    step.flops_per_rank = facts.at("flops_per_step").get<double>() / ranks;
  } else {
    LOCKSTEP_CHECK(facts.contains("forward_flops_per_sample"), "task '{}' tells no FLOPs", task);
    step.flops_per_rank =
        3 * facts.at("forward_flops_per_sample").get<double>() * static_cast<double>(step.global_batch) / ranks;
  }
  if (const auto steps = facts.find("total_steps"); steps != facts.end() && steps->is_number_integer())
    step.num_steps = steps->get<int64_t>();
  step.memory_bytes = page.memory_bytes;
  step.bubble = facts.value("pipeline_idle_over_work", 0.0);
  if (facts.contains("mesh")) {
    step.tp = facts.at("mesh").at("tp"), step.pp = facts.at("mesh").at("pp"), step.dp = facts.at("mesh").at("dp");
  } else {
    step.dp = num_ranks;
  }
  if (facts.contains("stages")) {
    take_stages(facts.at("stages"), step);
  } else {
    step.parameters_per_rank = facts.value("parameters", 0.0);
    const double bytes = facts.value("gradient_bytes", 0.0);
    const auto count = facts.value("gradient_buckets", int64_t{0});
    step.gradient_bucket_bytes.assign(static_cast<size_t>(count),
                                      count > 0 ? 2 * bytes / static_cast<double>(count) : 0);
  }
  return step;
}

std::vector<std::string> words_for(const PlannedCommand& command, int64_t num_ranks) {
  std::vector<std::string> words = command.words;
  if (command.samples_per_device)
    words.push_back(
        fmt::format("--global-batch-size={:.0f}", *command.samples_per_device * static_cast<double>(num_ranks)));
  return words;
}

PlannedStep plan_one(std::vector<std::string> words, int64_t nodes, int64_t ranks_per_node) {
  const int64_t num_ranks = nodes * ranks_per_node;
  words.emplace_back("--dry-run");
  words.push_back(fmt::format("--world-size={}", num_ranks));
  commands::ParsedCommand parsed = commands::parse_command(words);
  if (!parsed.task)
    throw UsageError(fmt::format("predict: `{}` trains nothing", parsed.info->name), "give a command `train TASK`");
  commands::read_files(parsed);
  const tasks::DryRunPage page = parsed.task->dry_run(
      *parsed.set,
      {.num_ranks = num_ranks, .source = "predict", .ranks_per_node = ranks_per_node, .asks_for_inputs = false});
  PlannedStep step = planned_step(words.at(1), page, nodes, num_ranks);
  step.tokens_per_sample = tokens_of(*parsed.set, step);
  step.recompute_factor = recompute_factor_of(*parsed.set);
  // Micro-batches of a contrastive loss pass forward twice: once for the features of the whole batch.
  if ((step.task == "clip" || step.task == "clap") && step.num_micro > 1) step.recompute_factor += 1.0 / 3;
  if (const core::Option* sync = parsed.set->find("grad-sync"); sync != nullptr && sync->value_json() == "zero1")
    step.is_gradient_sharded = true;
  if (const core::Option* fp8 = parsed.set->find("fp8-format"); fp8 != nullptr && fp8->value_json().is_string())
    step.precision = "fp8";
  step.allows_tf32 = allows_tf32(*parsed.set, step);
  if (const core::Option* steps = parsed.set->find("train-iters"); steps != nullptr && !step.num_steps)
    if (const core::Json value = steps->value_json(); value.is_number_integer()) step.num_steps = value.get<int64_t>();
  return step;
}

std::vector<PlannedStep> plan_steps(const PlannedCommand& command, const Machine& machine,
                                    const std::vector<int64_t>& nodes, std::vector<std::string>& refused) {
  std::vector<PlannedStep> steps;
  for (const int64_t count : nodes) {
    const int64_t num_ranks = count * machine.devices_per_node;
    try {
      steps.push_back(plan_one(words_for(command, num_ranks), count, machine.devices_per_node));
    } catch (const UsageError& error) {
      refused.push_back(fmt::format("{} nodes: {}", count, error.what()));
      if (steps.empty() && count == nodes.back())
        throw UsageError(fmt::format("predict: no size fits the command; at {} nodes of {} devices: {}", count,
                                     machine.devices_per_node, error.what()),
                         error.hint());
    }
  }
  return steps;
}

double usable_memory_bytes(const Machine& machine) { return hw::usable_memory_bytes(machine.memory_gbytes.value); }

std::vector<bool> fit_memory(const std::vector<PlannedStep>& steps, const Machine& machine) {
  std::vector<bool> fits;
  for (const PlannedStep& step : steps) fits.push_back(step.memory_bytes <= usable_memory_bytes(machine));
  return fits;
}

std::string fits_text(const PlannedStep& step, const Machine& machine) {
  const double usable = usable_memory_bytes(machine);
  return step.memory_bytes <= usable ? "yes" : fmt::format("no, {:.1f} too much", (step.memory_bytes - usable) / kGiB);
}

PlannedModel model_of(const std::vector<PlannedStep>& steps, const Machine& machine) {
  const PlannedStep& first = steps.front();
  const EfficiencyPrior& efficiency = efficiency_prior(first);
  const double reached = reached_share(first, machine), peak = peak_of(first, machine);
  const Contention of_products = product_contention_of(machine), of_memory = memory_contention_of(machine);
  const double crowding = crowding_of(first, machine);
  PlannedModel model;
  // The share of the peak holds for ranks that share all of their work; what each of them repeats comes on top.
  model.compute = {
      of_products.slowdown(crowding) * first.recompute_factor * first.flops_per_rank / (peak * 1e12 * reached) +
          of_memory.slowdown(crowding) * passes_s(first.repeated_bytes, machine),
      efficiency.log_sd};
  WorkFacts work{.model = first.model,
                 .parameters = first.parameters_per_rank * static_cast<double>(first.tp * first.pp),
                 .are_parameters_certain = true,
                 .tp = first.tp,
                 .pp = first.pp};
  if (first.task == "clip" || first.task == "clap") {
    take_model(first.model, "the command", work);
    work.facts.clear();
    work.feature_passes = kOwnFeaturePasses;
    work.local_batch = static_cast<double>(first.global_batch) / static_cast<double>(first.num_ranks);
  }
  const auto per_node = static_cast<double>(machine.devices_per_node);
  model.facts = {
      {"system", machine.name, machine.node_gbytes_per_s.source},
      {"compute", fmt::format("{}FLOP a device and step", core::format_count(first.flops_per_rank)),
       "plan of the command, three passes"},
      {"passes over memory", core::format_bytes(first.moved_bytes) + " a device and step",
       first.moved_bytes > 0 ? "plan of the command, all operators but products"
                             : "not counted for this task: in what is reached of the peak"},
      {"peak", fmt::format("{:g} TFLOP/s {}", peak, products_in(first, machine)), machine.device},
      {"reached in compute", fmt::format("{:.0f} % (x / {:.2f})", 100 * reached, std::exp(efficiency.log_sd)),
       std::string(efficiency.source) + (is_amd(machine) ? ", lowered for AMD" : "") +
           (first.precision == "fp8" ? ", lowered for fp8" : "")}};
  model.facts.push_back(input_fact(machine.input, "assumed free; --input-samples-per-s N tells it"));
  model.input = machine.input;
  model.setting = make_setting(work, machine, per_node, model.compute.median_s, true, model.facts);
  model.setting.product_contention = of_products, model.setting.memory_contention = of_memory;
  for (KnownFact& fact : contention_facts(machine)) {
    model.contention_source = fact.source;
    model.facts.push_back(std::move(fact));
  }
  if (machine.devices_at_a_time) model.setting.noise = kNoiseOfCores;
  const double group = std::max(1.0, per_node / work.replica_devices()) / per_node;
  // One data rank has no buckets: the first size that has some tells them.
  const auto found = std::find_if(steps.begin(), steps.end(),
                                  [](const PlannedStep& step) { return sum_of(step.gradient_bucket_bytes) > 0; });
  const std::vector<double>& buckets = (found == steps.end() ? first : *found).gradient_bucket_bytes;
  const double bytes = sum_of(buckets);
  model.setting.inter_s = bytes / (machine.node_gbytes_per_s.value * 1e9 * group);
  model.setting.intra_s = work.replica_devices() < per_node ? bytes / (machine.link_gbytes_per_s.value * 1e9) : 0;
  model.setting.bucket_shares = bytes > 0 ? bucket_shares(buckets) : std::vector<double>{};
  model.setting.window_micro = static_cast<double>(first.num_micro);
  for (const PlannedStep& step : steps) {
    model.sizes.push_back(
        {.nodes = static_cast<double>(step.nodes),
         .devices = static_cast<double>(step.num_ranks),
         .bubble = step.bubble,
         .window_micro = static_cast<double>(step.num_micro),
         .input_s = machine.input.seconds(static_cast<double>(step.global_batch),
                                          static_cast<double>(step.nodes) / static_cast<double>(step.pp))});
    take_work(step, first, model.compute.median_s, machine, model.sizes.back());
    model.sizes.back().gradient_calls = gradient_calls(step, machine);
    if (step.is_gradient_sharded) model.sizes.back().update_ranks = static_cast<double>(step.dp);
    add_layers(step, machine, model.sizes.back());
  }
  return model;
}

Calibration calibrate(const PlannedModel& model, const std::vector<PlannedStep>& steps,
                      const std::vector<MeasuredStep>& measured, const Sampling& sampling) {
  Calibration calibration{.reference_s = model.compute.median_s};
  std::vector<Measured> points;
  for (const MeasuredStep& one : measured) {
    const auto found =
        std::find_if(steps.begin(), steps.end(), [&](const PlannedStep& step) { return step.nodes == one.nodes; });
    if (found == steps.end())
      throw UsageError(
          fmt::format("predict: a step was measured on {} nodes, which are not among the sizes", one.nodes),
          fmt::format("add {} to --nodes", one.nodes));
    points.push_back({model.sizes.at(static_cast<size_t>(found - steps.begin())), one.step_s});
    calibration.points.push_back({.measured = points.back(), .size = static_cast<double>(one.nodes)});
  }
  const std::vector<Measured> free = compute_bound(points);
  for (const Measured& one : free) {
    calibration.largest_nodes = std::max(calibration.largest_nodes, one.size.nodes);
    calibration.growth_work = one.size.compute();
    calibration.reference_s = one.step_s / *calibration.growth_work;
  }
  if (free.empty())
    for (const Measured& one : points)
      calibration.reference_s = std::min(calibration.reference_s, one.step_s / one.size.compute());
  const Setting setting = calibrated_setting(model, calibration);
  constexpr double kOtherUnit = 30;  // times: no prior is that far off
  if (!points.empty()) {
    const Measured& smallest = points.front();
    const double expected_s = model.compute.median_s * smallest.size.compute() * (1 + smallest.size.bubble);
    if (smallest.step_s > kOtherUnit * expected_s || kOtherUnit * smallest.step_s < expected_s)
      calibration.notes.push_back(fmt::format(
          "A step of {:.3g} s was measured where plan and system expect {:.3g} s: --measured takes seconds.",
          smallest.step_s, expected_s));
  }
  calibration.draws = points.empty() ? sample_prior(model.compute, sampling)
                      : free.empty()
                          ? sample_prior_below(setting, calibration.reference_s, model.compute, points, sampling)
                          : sample_posterior(setting, calibration.reference_s, free, sampling);
  if (points.empty()) return calibration;
  calibration.plateau = plateau_of(free);
  for (std::string& text : contention_texts(model.setting, model.contention_source, calibration.draws))
    calibration.notes.push_back(std::move(text));
  std::vector<Size> known;
  for (const Measured& one : points) known.push_back(one.size);
  const Forecast fitted =
      forecast(setting, calibration.reference_s, calibration.draws, known, calibration.largest_nodes);
  const MeasuredCurve curve{.size_name = "nodes", .has_seconds = true};
  for (std::string& text : unfit_texts(curve, calibration.points, fitted)) calibration.notes.push_back(std::move(text));
  return calibration;
}

CurvePrediction predict_calibrated(const PlannedModel& model, const std::vector<PlannedStep>& steps,
                                   const Calibration& calibration) {
  const PlannedStep& first = steps.front();
  CurvePrediction prediction{.calibration = calibration.points, .facts = model.facts};
  prediction.curve = {.name = first.model,
                      .size_name = "nodes",
                      .rate_unit = first.tokens_per_sample ? "sequences/s" : "samples/s",
                      .devices_per_node = model.setting.devices_per_node,
                      .rate_per_device = static_cast<double>(first.global_batch) / static_cast<double>(first.num_ranks),
                      .has_seconds = true,
                      .clock_s = 1};
  if (!calibration.points.empty()) prediction.curve.notes = doubts_of(prediction.curve, calibration.points);
  prediction.curve.notes.insert(prediction.curve.notes.end(), calibration.notes.begin(), calibration.notes.end());
  prediction.forecast = forecast(calibrated_setting(model, calibration), calibration.reference_s, calibration.draws,
                                 model.sizes, calibration.largest_nodes, calibration.plateau);
  std::vector<double> sizes;
  for (size_t i = 0; i < steps.size(); ++i) {
    sizes.push_back(static_cast<double>(steps[i].nodes));
    prediction.targets.push_back({sizes.back(), model.sizes[i]});
  }
  prediction.curve.input = model.input;
  prediction.curve.work.pp = first.pp;
  for (std::string text : {input_doubt_text(prediction.curve, prediction.calibration),
                           input_limit_text(prediction.curve, sizes, prediction.forecast.steps)})
    if (!text.empty()) prediction.curve.notes.push_back(std::move(text));
  if (std::string text = far_sizes_text(prediction); !text.empty()) prediction.curve.notes.push_back(std::move(text));
  return prediction;
}

CurvePrediction predict_steps(const PlannedModel& model, const std::vector<PlannedStep>& steps,
                              const std::vector<MeasuredStep>& measured, const Sampling& sampling) {
  return predict_calibrated(model, steps, calibrate(model, steps, measured, sampling));
}

CurvePrediction predict_changed(const std::vector<PlannedStep>& base, const std::vector<MeasuredStep>& measured,
                                const std::vector<PlannedStep>& changed, const Machine& machine) {
  LOCKSTEP_CHECK(!measured.empty(), "nothing measured");
  return predict_changed(base.front(), calibrate(model_of(base, machine), base, measured), changed, machine);
}

PlannedModel changed_model(const PlannedStep& base, const Calibration& calibration,
                           const std::vector<PlannedStep>& changed, const Machine& machine) {
  PlannedModel model = model_of(changed, machine);
  const double base_s = median_compute_s(calibration.draws);
  for (size_t i = 0; i < changed.size(); ++i) take_work(changed[i], base, base_s, machine, model.sizes[i]);
  return model;
}

std::vector<double> drawn_steps(const PlannedModel& model, const Calibration& calibration, size_t num_draws) {
  const std::span<const Draw> draws = calibration.draws;
  return drawn_steps(calibrated_setting(model, calibration), calibration.reference_s,
                     draws.first(std::min(num_draws, draws.size())), model.sizes.front());
}

CurvePrediction predict_changed(const PlannedStep& base, const Calibration& calibration,
                                const std::vector<PlannedStep>& changed, const Machine& machine) {
  PlannedModel model = changed_model(base, calibration, changed, machine);
  Calibration of_rates = calibration;
  of_rates.plateau.reset();  // of the command as it was: what limits it may be what is changed
  if (const double log_sd = precision_log_sd(changed.front(), base, machine); log_sd > 0)
    model.facts.push_back({"change of precision",
                           fmt::format("products take {:.2f} of their time (x / {:.2f})",
                                       precision_ratio(changed.front(), base, machine), std::exp(log_sd)),
                           fmt::format("peaks of {} and {} and what is reached of them; not measured",
                                       products_in(changed.front(), machine), products_in(base, machine))});
  CurvePrediction prediction = predict_calibrated(model, changed, of_rates);
  prediction.curve.rate_per_device /= model.sizes.front().work;
  return prediction;
}

draw::Table memory_table(const std::vector<PlannedStep>& steps, const Machine& machine) {
  const double usable = usable_memory_bytes(machine);
  draw::Table table{.id = "memory", .title = "Memory of the fullest rank, as --dry-run plans it"};
  table.columns = {
      {"nodes", "nodes"},    {"ranks", "ranks"},    {"global batch", "global_batch"}, {"tp x pp x dp", "mesh", true},
      {"GiB", "memory_gib"}, {"fits", "fits", true}};
  for (const PlannedStep& step : steps)
    table.rows.push_back(
        {{.text = fmt::format("{}", step.nodes), .value = static_cast<double>(step.nodes)},
         {.text = fmt::format("{}", step.num_ranks), .value = static_cast<double>(step.num_ranks)},
         {.text = fmt::format("{}", step.global_batch), .value = static_cast<double>(step.global_batch)},
         {.text = fmt::format("{} x {} x {}", step.tp, step.pp, step.dp)},
         {.text = fmt::format("{:.1f}", step.memory_bytes / kGiB), .value = step.memory_bytes / kGiB},
         {.text = fits_text(step, machine)}});
  table.notes.push_back(fmt::format("A rank of {} has {:.1f} GiB; kernels, messages and libraries come on top.",
                                    machine.device.empty() ? machine.name : machine.device, usable / kGiB));
  return table;
}

core::Json memory_json(const std::vector<PlannedStep>& steps, const Machine& machine) {
  core::Json json = core::Json::array();
  for (const PlannedStep& step : steps)
    json.push_back({{"nodes", step.nodes},
                    {"ranks", step.num_ranks},
                    {"global_batch", step.global_batch},
                    {"mesh", {{"tp", step.tp}, {"pp", step.pp}, {"dp", step.dp}}},
                    {"pipeline_idle_over_work", step.bubble},
                    {"memory_bytes", step.memory_bytes},
                    {"fits", step.memory_bytes <= usable_memory_bytes(machine)}});
  return json;
}

}  // namespace lockstep::predict
