#include "tasks/gpt/front/gpt_dry_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "config/flops.h"
#include "core/error.h"
#include "core/options.h"
#include "core/strings.h"
#include "core/units.h"
#include "hw/device_specs.h"
#include "hw/machine_memory.h"
#include "plan/gpt_memory_bound.h"
#include "tasks/front/device_memory.h"
#include "tasks/gpt/front/gpt_data_config.h"
#include "tasks/gpt/front/gpt_plan.h"
#include "tasks/gpt/front/gpt_vocabulary.h"

namespace lockstep::tasks {
namespace {

using plan::GptLayout;
using plan::GptMemory;

std::string yes_no(bool value, const char* yes, const char* no) { return value ? yes : no; }

/// "0-7", "0, 8, 16, 24", "0, 8, ..., 120".
std::string rank_list(const std::vector<int>& ranks) {
  if (ranks.size() > 2 && ranks.back() - ranks.front() + 1 == std::ssize(ranks))
    return fmt::format("{}-{}", ranks.front(), ranks.back());
  std::vector<std::string> words;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks.size() > 6 && i == 3) words.emplace_back("...");
    if (ranks.size() <= 6 || i < 3 || i + 1 == ranks.size()) words.push_back(fmt::format("{}", ranks[i]));
  }
  return core::join(words, ", ");
}

/// "layers 0-5", "layers 0, 8, 16, ..., 88": what a stage holds.
std::string stage_parts(const GptLayout& layout, int stage) {
  std::vector<std::string> words;
  std::vector<int> layers;
  bool has_embedding = false, has_head = false;
  for (int chunk = 0; chunk < layout.pipe.num_chunks; ++chunk) {
    const config::GptPart& part = layout.part(stage, chunk);
    for (int64_t i = 0; i < part.num_layers; ++i) layers.push_back(static_cast<int>(part.first_layer + i));
    has_embedding = has_embedding || part.has_embedding;
    has_head = has_head || part.has_head;
  }
  if (has_embedding) words.emplace_back("embedding");
  if (!layers.empty()) words.push_back(fmt::format("layer{} {}", layers.size() > 1 ? "s" : "", rank_list(layers)));
  if (has_head) words.emplace_back("head");
  return words.empty() ? "nothing" : core::join(words, ", ");
}

/// The device that is asked about is this machine's processor: nobody names another one, and there is no GPU here.
bool is_of_this_cpu(const GptOptions& options, const WorldSize& world) {
  if (!options.device_memory.empty() || world.num_local_ranks == 0 || options.device == "cuda") return false;
  return options.device == "cpu" || hw::gpu_names().empty();
}

/// The memory that is asked about, where a device is named or this machine's processor will compute.
std::optional<RankMemory> asked_memory(const GptOptions& options, const WorldSize& world) {
  const bool is_asked = !options.device_memory.empty() || is_of_this_cpu(options, world);
  return is_asked ? asked_or_rank_memory(options.device_memory, options, world) : std::nullopt;
}

/// Which memory sizes of the table of devices hold the fullest stage.
std::string fitting_sizes_text(double most_bytes) {
  std::set<double> sizes;
  for (const hw::DeviceSpec& device : hw::device_specs()) sizes.insert(device.memory_gbytes);
  const auto smallest = std::find_if(sizes.begin(), sizes.end(), [&](double size) {
    return room_on(most_bytes, hw::usable_memory_bytes(size)) == DeviceRoom::kFits;
  });
  if (smallest == sizes.end())
    return fmt::format("fits no device in the table (the largest has {} GB)", *sizes.rbegin());
  return fmt::format("fits devices of {} GB and more", *smallest);
}

void add_gpt_model_facts(const GptOptions& options, const GptLayout& layout, std::vector<DryRunFact>& facts) {
  const config::GptShape& s = layout.shape;
  const config::GptCost cost = config::gpt_cost(s, layout.tp());
  facts.push_back(
      {"model", "model", s.name,
       fmt::format("{}: {} layers, width {}, {} heads{}, {} tokens", s.name, s.layers, s.hidden, s.heads,
                   s.query_groups == s.heads ? "" : fmt::format(" in {} groups", s.query_groups), s.sequence)});
  if (const std::string note = config::gpt_model_note(options.model); !note.empty())
    facts.push_back({"model_note", "note", note, note});
  facts.push_back({"parameters", "parameters", cost.parameters,
                   fmt::format("{} ({}), of them embeddings {}", cost.parameters,
                               core::format_count(static_cast<double>(cost.parameters)),
                               core::format_count(static_cast<double>(cost.embedding_parameters)))});
  facts.push_back({"padded_vocab", "vocabulary", s.padded_vocab(layout.tp()),
                   fmt::format("{} rows for {} tokens", s.padded_vocab(layout.tp()), s.vocab)});
  facts.push_back(
      {"precision", "precision", options.precision,
       fmt::format("{}{}{}, gradients in {}", options.precision, options.fp8_format ? " with fp8 products" : "",
                   options.first_last_layers_bf16 ? " but for the first and the last layer" : "",
                   train_gpt_memory(options).bytes.gradient == 4 ? "fp32" : options.precision)});
}

void add_mesh_facts(const GptLayout& layout, const WorldSize& world, std::vector<DryRunFact>& facts) {
  const bool is_default_order = layout.mesh.order() == plan::MeshOrder::kPpDpTp;
  facts.push_back(world_fact(world));
  facts.push_back(
      {"mesh", "mesh", core::Json{{"tp", layout.tp()}, {"dp", layout.dp()}, {"pp", layout.pp()}},
       fmt::format("tp {} x {} {} x {} {}, first fastest; sequence parallelism {}, optimiser {}", layout.tp(),
                   is_default_order ? "dp" : "pp", is_default_order ? layout.dp() : layout.pp(),
                   is_default_order ? "pp" : "dp", is_default_order ? layout.pp() : layout.dp(),
                   yes_no(layout.is_sequence_parallel, "on", "off"),
                   yes_no(layout.is_optimizer_sharded, "sharded over dp", "whole on every rank"))});
  std::vector<std::string> groups;
  for (const plan::Axis axis : {plan::Axis::kTensor, plan::Axis::kData, plan::Axis::kPipeline})
    groups.push_back(fmt::format("{} {}", plan::axis_name(axis), rank_list(layout.mesh.group_of(0, axis))));
  facts.push_back({"groups_of_rank_0", "groups of rank 0", core::join(groups, "; "), core::join(groups, "; ")});
}

/// Tensor ranks are neighbours: a group lies on one node where its size divides the ranks of a node.
void add_tensor_nodes(const GptLayout& layout, const WorldSize& world, DryRunPage& page) {
  const int64_t per_node = world.ranks_per_node > 0 ? world.ranks_per_node : world.num_local_ranks;
  if (per_node < 1 || per_node >= world.num_ranks || per_node % layout.tp() == 0) return;
  page.nodes_of_tensor_group = std::max<int64_t>(2, (layout.tp() + per_node - 1) / per_node);
  page.warnings.push_back(
      fmt::format("tensor ranks of one group lie on {} nodes of {} ranks: what they send in every layer crosses the "
                  "network; a --tensor-model-parallel-size that divides {} keeps them together",
                  page.nodes_of_tensor_group, per_node, per_node));
}

/// FLOPs of a sequence in each part of the pipeline: its layers, and the head of the last one.
std::vector<double> part_work(const GptLayout& layout) {
  const auto work_of = [&](int64_t layers) {
    config::GptDims dims = config::gpt_dims(layout.shape, layout.tp());
    dims.layers = layers;
    return config::gpt_model(dims, config::AttentionCount::kCausal).flops;
  };
  const double layer = work_of(2) - work_of(1), head = work_of(1) - layer;
  std::vector<double> work;
  for (const config::GptPart& part : layout.parts)
    work.push_back(layer * static_cast<double>(part.num_layers) + (part.has_head ? head : 0));
  return work;
}

/// How long stages wait, the bubble included, because one of them has more to do.
DryRunFact pipeline_idle_fact(const GptLayout& layout, const plan::PipeSchedule& schedule) {
  const std::vector<double> parts = part_work(layout);
  const double idle = plan::idle_over_work(schedule, parts);
  std::vector<double> stages(static_cast<size_t>(layout.pp()), 0.0);
  for (size_t part = 0; part < parts.size(); ++part) stages[part % stages.size()] += parts[part];
  const auto fullest = std::max_element(stages.begin(), stages.end());
  const double mean = std::accumulate(stages.begin(), stages.end(), 0.0) / static_cast<double>(stages.size());
  return {"pipeline_idle_over_work", "pipeline idle", idle,
          fmt::format("{:.2f} % on top of the mean work of a stage; stage {} has {:.2f} x the mean", 100 * idle,
                      fullest - stages.begin(), *fullest / mean)};
}

void add_gpt_step_facts(const GptLayout& layout, std::vector<DryRunFact>& facts) {
  const plan::BatchPlan& batch = layout.batch;
  const double per_sequence =
      config::gpt_model(config::gpt_dims(layout.shape, layout.tp()), config::AttentionCount::kCausal).flops;
  const double bubble = plan::bubble_over_ideal(layout.pipe);
  facts.push_back({"micro_batch_size", "", batch.micro_batch_size, ""});
  facts.push_back({"num_micro", "", batch.num_micro_batches, ""});
  facts.push_back({"global_batch", "global batch", batch.global_batch,
                   fmt::format("{} sequences ({} tokens) = {} x {} micro-batches x {} data ranks", batch.global_batch,
                               batch.global_batch * layout.shape.sequence, batch.micro_batch_size,
                               batch.num_micro_batches, layout.dp())});
  facts.push_back({"flops_per_step", "work of a step", per_sequence * static_cast<double>(batch.global_batch),
                   fmt::format("{}FLOP ({}FLOP per sequence, causal attention, 3 passes)",
                               core::format_count(per_sequence * static_cast<double>(batch.global_batch)),
                               core::format_count(per_sequence))});
  facts.push_back(
      {"schedule", "schedule", plan::schedule_name(layout.pipe.kind),
       fmt::format("{}, {} stages{}", plan::schedule_name(layout.pipe.kind), layout.pp(),
                   layout.pipe.num_chunks > 1 ? fmt::format(" x {} virtual stages", layout.pipe.num_chunks) : "")});
  facts.push_back(
      {"bubble_over_ideal", "bubble", bubble,
       fmt::format("{:.2f} % on top of the work ({:.2f} % of the step)", 100 * bubble, 100 * bubble / (1 + bubble))});
}

struct StagePlan {
  GptMemory memory;
  plan::MemoryBoundBytes moved;
  std::vector<plan::CollectiveCount> traffic;
};

core::Json stage_json(const GptLayout& layout, int stage, const StagePlan& plan) {
  const GptMemory& memory = plan.memory;
  core::Json traffic = core::Json::array();
  for (const plan::CollectiveCount& entry : plan.traffic)
    traffic.push_back({{"axis", entry.axis},
                       {"kind", entry.kind},
                       {"bytes", entry.bytes},
                       {"count", entry.count},
                       {"what", entry.what}});
  return {{"stage", stage},
          {"holds", stage_parts(layout, stage)},
          {"parameters_per_rank", memory.num_parameters},
          {"peak_in_flight", plan::peak_in_flight(layout.pipe, stage)},
          {"bytes",
           {{"parameters", memory.parameters},
            {"gradients", memory.gradients},
            {"optimizer", memory.optimizer},
            {"activations", memory.activations},
            {"recomputed", memory.recomputed},
            {"logits", memory.logits},
            {"total", memory.total()}}},
          {"memory_bound_bytes", {{"total", plan.moved.total()}, {"repeated", plan.moved.repeated}}},
          {"collectives", traffic}};
}

/// In the unit that suits the fullest stage.
std::string memory_table(const GptLayout& layout, const std::vector<StagePlan>& stages) {
  constexpr double kMiB = 1024.0 * 1024, kGiB = 1024 * kMiB;
  double most = 0;
  for (const StagePlan& stage : stages) most = std::max(most, stage.memory.total());
  const auto& [unit, name] = most < kGiB ? std::pair(kMiB, "MiB") : std::pair(kGiB, "GiB");
  const auto size = [unit = unit](double bytes) { return fmt::format("{:.1f}", bytes / unit); };
  std::string text =
      fmt::format("\nMemory of a rank by stage, {} (kernels, messages and libraries come on top)\n", name) +
      "  stage  parameters  weights  grads  optim.  in flight  activ.  logits   total\n";
  for (size_t i = 0; i < stages.size(); ++i) {
    const GptMemory& m = stages[i].memory;
    text += fmt::format("  {:>5}  {:>10}  {:>7}  {:>5}  {:>6}  {:>9}  {:>6}  {:>6}  {:>6}\n", i,
                        core::format_count(static_cast<double>(m.num_parameters)), size(m.parameters),
                        size(m.gradients), size(m.optimizer), plan::peak_in_flight(layout.pipe, static_cast<int>(i)),
                        size(m.activations + m.recomputed), size(m.logits), size(m.total()));
  }
  text += "\nWho holds what\n";
  for (size_t i = 0; i < stages.size(); ++i)
    text += dry_run_entry(fmt::format("  stage {:>3}  ", i), stage_parts(layout, static_cast<int>(i)));
  return text;
}

std::string traffic_table(const GptLayout& layout, int stage, const std::vector<plan::CollectiveCount>& traffic) {
  if (traffic.empty()) return "";
  std::string text = fmt::format(
      "\nMessages of a rank of stage {} in one step\n  axis       kind              count  bytes of one  for\n", stage);
  for (const plan::CollectiveCount& entry : traffic)
    text += dry_run_entry(fmt::format("  {:<9}  {:<14}  {:>7}  {:>12}  ", entry.axis, entry.kind, entry.count,
                                      core::format_bytes(static_cast<double>(entry.bytes))),
                          entry.what);
  for (const auto& [axis, size] :
       {std::pair("tp", layout.tp()), std::pair("dp", layout.dp()), std::pair("pp", layout.pp())})
    if (size > 1)
      text += fmt::format("  {} in all: {} through a ring\n", axis,
                          core::format_bytes(plan::ring_bytes(traffic, axis, size)));
  return text;
}

/// What a run would refuse or read, as far as it is here.
void add_inputs(const GptOptions& options, const GptLayout& layout, DryRunPage& page) {
  std::vector<std::string> needed;
  for (const NeededFlag& flag : missing_flags(options)) needed.emplace_back(flag.message);
  if (!needed.empty()) page.warnings.push_back("a run would be refused: " + core::join(needed, "; "));
  const std::vector<MissingFile> missing = missing_data_files(options);
  for (const MissingFile& file : missing)
    page.missing.push_back(fmt::format("{}: '{}' is not here; {}", file.flag, file.path, file.hint));
  look_for_input("--load", options.load, page.missing);
  look_for_checkpoint(options, page.missing);
  if (!missing.empty() || !has_length(options)) return;
  try {
    for (const SplitFact& fact : gpt_split_facts(gpt_data_config(options, layout))) {
      page.facts.push_back({fact.name + "_data", "data, " + fact.name, fact.json, fact.text});
      if (!fact.warning.empty()) page.warnings.push_back(fact.warning);
    }
  } catch (const DataError& error) {
    page.failure = error;
  }
}

}  // namespace

DryRunPage gpt_dry_run(GptOptions options, const core::OptionSet& set, const WorldSize& world) {
  if (is_of_this_cpu(options, world)) options.device = "cpu";  // as --device auto will find out
  const GptLayout layout = train_gpt_layout(options, world.num_ranks);
  const plan::PipeSchedule schedule = plan::make_pipe_schedule(layout.pipe);
  DryRunPage run{.facts = {command_fact(set)}};
  core::Json& shown_stages = run.extra["stages"] = core::Json::array();
  add_gpt_model_facts(options, layout, run.facts);
  add_mesh_facts(layout, world, run.facts);
  add_gpt_step_facts(layout, run.facts);
  if (layout.pp() > 1) run.facts.push_back(pipeline_idle_fact(layout, schedule));
  std::vector<StagePlan> stages;
  double most_bytes = 0;
  for (int stage = 0; stage < layout.pp(); ++stage) {
    stages.push_back({plan_gpt_memory(layout, schedule, stage, train_gpt_memory(options)),
                      count_memory_bound_bytes(layout, stage, train_gpt_memory(options)),
                      predict_gpt_traffic(layout, schedule, stage, train_gpt_traffic(options))});
    most_bytes = std::max(most_bytes, stages.back().memory.total());
    shown_stages.push_back(stage_json(layout, stage, stages.back()));
  }
  const std::optional<RankMemory> device = asked_memory(options, world);
  const DryRunFact device_fact = device_memory_fact(most_bytes, device, fitting_sizes_text(most_bytes));
  run.memory_bytes = most_bytes;
  if (device) run.device_bytes = device->bytes;
  add_tensor_nodes(layout, world, run);
  if (world.asks_for_inputs) add_inputs(options, layout, run);
  run.facts.push_back(
      {"memory_bytes", "memory", most_bytes, fmt::format("{} on the fullest rank", core::format_bytes(most_bytes))});
  run.facts.push_back(device_fact);
  run.facts.push_back({"fit", "", device_fact.text, ""});
  run.tables = memory_table(layout, stages) + traffic_table(layout, 0, stages.front().traffic);
  if (layout.pp() > 1) run.tables += "\nSchedule, one cell a pass\n" + plan::draw_schedule(schedule);
  if (layout.batch.global_batch != options.global_batch_size.value_or(layout.batch.global_batch))
    run.warnings.push_back(
        fmt::format("--global-batch-size {} became {}", *options.global_batch_size, layout.batch.global_batch));
  return run;
}

}  // namespace lockstep::tasks
