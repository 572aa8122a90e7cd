#include "predict/advise.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/strings.h"

namespace lockstep::predict {
namespace {

constexpr size_t kMostShown = 10;
using Flags = std::vector<std::string>;

/// Every combination of one list of flags from each choice.
std::vector<Flags> combinations(const std::vector<std::vector<Flags>>& choices) {
  std::vector<Flags> all = {{}};
  for (const std::vector<Flags>& choice : choices) {
    std::vector<Flags> longer;
    for (const Flags& begin : all)
      for (const Flags& end : choice) {
        longer.push_back(begin);
        longer.back().insert(longer.back().end(), end.begin(), end.end());
      }
    all = std::move(longer);
  }
  return all;
}

std::vector<Flags> gpt_layouts(const Machine& machine, int64_t num_ranks) {
  std::vector<Flags> tensor, pipeline, chunks = {{"--num-layers-per-virtual-pipeline-stage=none"}}, micro;
  for (int64_t tp = 1; tp <= machine.devices_per_node; tp *= 2)
    tensor.push_back({fmt::format("--tensor-model-parallel-size={}", tp),
                      tp > 1 ? "--sequence-parallel" : "--no-sequence-parallel"});
  for (int64_t pp = 1; pp <= std::min<int64_t>(64, num_ranks); pp *= 2)
    pipeline.push_back({fmt::format("--pipeline-model-parallel-size={}", pp)});
  for (const int layers : {1, 2}) chunks.push_back({fmt::format("--num-layers-per-virtual-pipeline-stage={}", layers)});
  for (const int size : {1, 2, 4}) micro.push_back({fmt::format("--micro-batch-size={}", size)});
  const std::vector<Flags> recompute = {{"--no-recompute-activations", "--recompute-granularity="},
                                        {"--no-recompute-activations", "--recompute-granularity=selective"},
                                        {"--no-recompute-activations", "--recompute-granularity=full",
                                         "--recompute-method=uniform", "--recompute-num-layers=1"}};
  return combinations({tensor, pipeline, chunks, micro, recompute, {{"--use-distributed-optimizer"}}});
}

std::vector<Flags> contrastive_layouts() {
  return combinations(
      {{{"--grad-sync=ddp"}, {"--grad-sync=zero1"}}, {{"--no-grad-checkpointing"}, {"--grad-checkpointing"}}});
}

constexpr size_t kMicroFlags = 2;  // that end each layout of a classifier

/// The same global batch in smaller and smaller micro-batches. Without a peak for a precision it is refused.
std::vector<Flags> classifier_layouts(const PlannedStep& given) {
  std::vector<Flags> micro, buckets;
  for (const int64_t count : {1, 2, 4, 8}) {
    if (given.global_batch % (given.num_ranks * count) != 0) continue;
    micro.push_back({fmt::format("--micro-batch-size={}", given.global_batch / given.num_ranks / count),
                     fmt::format("--accum-freq={}", count)});
  }
  for (const int mib : {5, 25, 100}) buckets.push_back({fmt::format("--bucket-mb={}", mib)});
  return combinations(
      {{{"--no-amp", "--precision=fp32"}, {"--no-amp", "--precision=amp"}, {"--no-amp", "--precision=amp_bf16"}},
       {{"--grad-sync=ddp"}, {"--grad-sync=zero1"}},
       buckets,
       micro});
}

/// A classifier's layout that fits already with larger micro-batches.
bool is_settled(const PlannedStep& given, const std::vector<Advice>& ranked, const Flags& flags) {
  if (given.task != "imagenet" || ranked.empty()) return false;
  const Flags& last = ranked.back().flags;
  return std::equal(flags.begin(), flags.end() - kMicroFlags, last.begin(), last.end() - kMicroFlags);
}

std::vector<Flags> layouts_of(const PlannedStep& given, const Machine& machine) {
  if (given.task == "gpt") return gpt_layouts(machine, given.num_ranks);
  if (given.task == "clip" || given.task == "clap") return contrastive_layouts();
  return classifier_layouts(given);
}

Advice judge(const std::vector<std::string>& words, const Flags& flags, const Machine& machine, int64_t nodes) {
  std::vector<std::string> all = words;
  all.insert(all.end(), flags.begin(), flags.end());
  const std::vector<PlannedStep> plan = {plan_one(std::move(all), nodes, machine.devices_per_node)};
  const PlannedModel model = model_of(plan, machine);
  const Terms terms = CostModel(model.setting, model.compute.median_s, model.sizes).terms({}, 0);
  Advice advice{.flags = flags, .plan = plan[0], .step_s = terms.scaled * model.compute.median_s + terms.constant()};
  advice.samples_per_s = static_cast<double>(advice.plan.global_batch) / advice.step_s;
  advice.fits = advice.plan.memory_bytes <= usable_memory_bytes(machine);
  return advice;
}

std::string layout_text(const Advice& advice) {
  return advice.flags.empty() ? "as given" : core::join(advice.flags, " ");
}
}  // namespace

AdviceList advise(const std::vector<std::string>& words, const Machine& machine, int64_t nodes) {
  AdviceList list{.as_given = judge(words, {}, machine, nodes)};
  std::vector<std::string> fixed = words;
  if (list.as_given.plan.task == "gpt")
    fixed.push_back(fmt::format("--global-batch-size={}", list.as_given.plan.global_batch));
  for (const Flags& flags : layouts_of(list.as_given.plan, machine)) {
    if (is_settled(list.as_given.plan, list.ranked, flags)) continue;
    ++list.num_tried;
    try {
      Advice advice = judge(fixed, flags, machine, nodes);
      if (advice.fits)
        list.ranked.push_back(std::move(advice));
      else
        ++list.num_too_large;
    } catch (const UsageError&) {
      ++list.num_refused;  // no legal layout: it does not divide
    }
  }
  std::stable_sort(list.ranked.begin(), list.ranked.end(),
                   [](const Advice& a, const Advice& b) { return a.samples_per_s > b.samples_per_s; });
  return list;
}

draw::Table advice_table(const AdviceList& list, const Machine& machine) {
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  draw::Table table{
      .id = "advice",
      .title = fmt::format("Fastest layouts of {} ranks on {}", list.as_given.plan.num_ranks, machine.name)};
  table.columns = {{"step (s)", "step_s"}, {"gain (%)", "gain_pct"}, {"GiB", "memory_gib"}, {"flags", "flags", true}};
  const auto add = [&](const Advice& one) {
    const double gain = 100 * (one.samples_per_s / list.as_given.samples_per_s - 1);
    table.rows.push_back({{.text = fmt::format("{:.4g}", one.step_s), .value = one.step_s},
                          {.text = fmt::format("{:+.1f}", gain), .value = gain},
                          {.text = fmt::format("{:.1f}{}", one.plan.memory_bytes / kGiB, one.fits ? "" : " too much"),
                           .value = one.plan.memory_bytes / kGiB},
                          {.text = layout_text(one)}});
  };
  add(list.as_given);
  for (size_t i = 0; i < std::min(kMostShown, list.ranked.size()); ++i) add(list.ranked[i]);
  table.notes.push_back(fmt::format(
      "{} layouts tried at a global batch of {}: {} are not legal, {} do not fit, {} fit. "
      "Steps at the medians of all priors, which are far wider than small gains.",
      list.num_tried, list.as_given.plan.global_batch, list.num_refused, list.num_too_large, list.ranked.size()));
  return table;
}

core::Json advice_json(const AdviceList& list) {
  const auto one_json = [](const Advice& one) {
    return core::Json{{"flags", one.flags},
                      {"step_s", one.step_s},
                      {"samples_per_s", one.samples_per_s},
                      {"memory_bytes", one.plan.memory_bytes},
                      {"fits", one.fits}};
  };
  core::Json json = {{"as_given", one_json(list.as_given)},
                     {"num_tried", list.num_tried},
                     {"num_refused", list.num_refused},
                     {"num_too_large", list.num_too_large}};
  json["ranked"] = core::Json::array();
  for (const Advice& one : list.ranked) json["ranked"].push_back(one_json(one));
  return json;
}

}  // namespace lockstep::predict
