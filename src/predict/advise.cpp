#include "predict/advise.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "predict/input_rates.h"
#include "predict/machine_notes.h"
#include "stats/statistics.h"
#include "tasks/tasks.h"

namespace lockstep::predict {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr size_t kMostShown = 10;
using Flags = tasks::LayoutChoices::Flags;

/// What the task of the command can be laid out as; nothing where it has no choice.
tasks::LayoutChoices choices_of(const PlannedStep& given, const Machine& machine) {
  for (const tasks::FrontTaskRow& task : tasks::front_tasks())
    if (task.name == given.task && task.layouts != nullptr)
      return task.layouts({.global_batch = given.global_batch,
                           .num_ranks = given.num_ranks,
                           .devices_per_node = machine.devices_per_node});
  return {};
}

/// A layout that fits already with larger micro-batches.
bool is_settled(const tasks::LayoutChoices& choices, const std::vector<Advice>& ranked, const Flags& flags) {
  if (choices.num_micro_flags == 0 || ranked.empty()) return false;
  const Flags& last = ranked.back().flags;
  const auto num_micro = static_cast<std::ptrdiff_t>(choices.num_micro_flags);
  return std::equal(flags.begin(), flags.end() - num_micro, last.begin(), last.end() - num_micro);
}

/// Steps of layouts against that of the command as given.
class LayoutJudge {
 public:
  LayoutJudge(const AdviseRequest& request, const Machine& machine) : request_(request), machine_(machine) {
    const auto given = std::find_if(request.steps.begin(), request.steps.end(),
                                    [&](const PlannedStep& step) { return step.nodes == request.nodes; });
    LOCKSTEP_CHECK(given != request.steps.end(), "{} nodes are not planned", request.nodes);
    const PlannedModel model = model_of(request.steps, machine);
    calibration_ = calibrate(model, request.steps, request.measured);
    const auto index = static_cast<size_t>(given - request.steps.begin());
    as_given_ = {.plan = *given,
                 .step_s = predict_calibrated(model, request.steps, calibration_).forecast.steps.at(index).step_s.p50};
    finish(as_given_);
    const Alone alone = step_alone(*given);
    scale_ = as_given_.step_s / alone.median_s;
    given_drawn_s_ = alone.drawn_s;
  }

  const Advice& as_given() const { return as_given_; }

  /// The layout by `flags` behind `words`; without a step where it does not fit. UsageError where it is not legal.
  Advice judge(const std::vector<std::string>& words, const Flags& flags) const {
    std::vector<std::string> all = words;
    all.insert(all.end(), flags.begin(), flags.end());
    Advice advice{.flags = flags, .plan = plan_one(std::move(all), request_.nodes, machine_.devices_per_node)};
    finish(advice);
    if (!advice.fits) return advice;
    const Alone alone = step_alone(advice.plan);
    advice.step_s = scale_ * alone.median_s;
    finish(advice);
    take_gains(alone.drawn_s, advice);
    return advice;
  }

 private:
  /// The step of a plan whose command is planned at no other size.
  struct Alone {
    double median_s = 0;
    std::vector<double> drawn_s{};
  };

  Alone step_alone(const PlannedStep& plan) const {
    const std::vector<PlannedStep> one = {plan};
    const auto alone_by = [&](const PlannedModel& model, const Calibration& calibration) {
      constexpr size_t kDrawsOfGains = 1000;
      return Alone{predict_calibrated(model, one, calibration).forecast.steps.front().step_s.p50,
                   drawn_steps(model, calibration, kDrawsOfGains)};
    };
    if (!request_.measured.empty()) {
      Calibration of_rates = calibration_;
      of_rates.plateau.reset();  // of the command as given: what limits it may be what the layout changes
      return alone_by(changed_model(request_.steps.front(), calibration_, one, machine_), of_rates);
    }
    PlannedModel model = model_of(one, machine_);
    model.sizes.front().product_log_sd = precision_log_sd(plan, as_given_.plan, machine_);
    Calibration prior{.reference_s = model.compute.median_s, .draws = calibration_.draws};
    for (Draw& draw : prior.draws) draw.compute_s *= model.compute.median_s / calibration_.reference_s;
    return alone_by(model, prior);
  }

  /// How much faster than as given: by the same draws of what both have in common.
  void take_gains(const std::vector<double>& drawn_s, Advice& advice) const {
    std::vector<double> gains_pct;
    const double times =
        static_cast<double>(advice.plan.global_batch) / static_cast<double>(as_given_.plan.global_batch);
    for (size_t i = 0; i < drawn_s.size(); ++i)
      gains_pct.push_back(100 * (times * given_drawn_s_.at(i) / drawn_s[i] - 1));
    std::sort(gains_pct.begin(), gains_pct.end());
    advice.least_gain_pct = stats::percentile_of_sorted(gains_pct, 5);
    advice.most_gain_pct = stats::percentile_of_sorted(gains_pct, 95);
  }

  void finish(Advice& advice) const {
    advice.fits = advice.plan.memory_bytes <= usable_memory_bytes(machine_);
    if (advice.step_s > 0) advice.samples_per_s = static_cast<double>(advice.plan.global_batch) / advice.step_s;
  }

  const AdviseRequest& request_;
  const Machine& machine_;
  Calibration calibration_{};
  Advice as_given_{};
  std::vector<double> given_drawn_s_{};
  double scale_ = 1;  ///< What the plans of other sizes add to the step of one alone.
};

/// The layouts of one global batch.
struct Search {
  std::vector<Advice> ranked{};            ///< Those that fit, fastest first.
  std::optional<Advice> least{};           ///< Of those that do not fit.
  std::set<Flags> refused{}, too_large{};  ///< Not legal; legal, but too large.
  bool has_legal() const { return !ranked.empty() || least; }
  size_t num_tried() const { return ranked.size() + refused.size() + too_large.size(); }
};

/// Tries all `choices` but those to leave out.
Search search_layouts(const LayoutJudge& judge, const std::vector<std::string>& words,
                      const tasks::LayoutChoices& choices, const std::set<Flags>& leave_out = {}) {
  Search search;
  std::vector<std::string> fixed = words;
  fixed.insert(fixed.end(), choices.fixed.begin(), choices.fixed.end());
  for (const Flags& flags : choices.layouts) {
    if (is_settled(choices, search.ranked, flags) || leave_out.count(flags) > 0) continue;
    try {
      Advice advice = judge.judge(fixed, flags);
      if (advice.fits) {
        search.ranked.push_back(std::move(advice));
        continue;
      }
      search.too_large.insert(flags);
      if (!search.least || advice.plan.memory_bytes < search.least->plan.memory_bytes) search.least = std::move(advice);
    } catch (const UsageError&) {
      search.refused.insert(flags);
    }
  }
  std::stable_sort(search.ranked.begin(), search.ranked.end(),
                   [](const Advice& a, const Advice& b) { return a.samples_per_s > b.samples_per_s; });
  return search;
}

/// The best of the other batches. A layout that does not divide a multiple of a batch does not divide the batch either,
/// and one that is too large for a batch is so for its multiples: of what `given` and other batches have shown nothing
/// is tried again. Where no layout at all is legal the reason is another one, which may not hold for other batches.
std::vector<BatchAdvice> seek_batches(const LayoutJudge& judge, const AdviseRequest& request, const Machine& machine,
                                      const Search& given) {
  const PlannedStep& plan = judge.as_given().plan;
  std::vector<BatchAdvice> found;
  const auto seek = [&](int64_t global_batch, const std::set<Flags>& leave_out) {
    PlannedStep other = plan;
    other.global_batch = global_batch;
    const tasks::LayoutChoices choices = choices_of(other, machine);
    Search search = search_layouts(judge, request.words, choices, leave_out);
    if (!search.has_legal()) return std::set<Flags>{};
    BatchAdvice advice{.best = search.ranked.empty() ? *search.least : search.ranked.front()};
    advice.best.flags.insert(advice.best.flags.begin(), choices.fixed.begin(), choices.fixed.end());
    advice.samples_per_device = static_cast<double>(global_batch) / static_cast<double>(plan.num_ranks);
    advice.samples_per_s_per_node = advice.best.samples_per_s / static_cast<double>(request.nodes);
    found.push_back(std::move(advice));
    return search.refused;
  };
  std::set<Flags> leave_out = given.ranked.empty() ? std::set<Flags>{} : given.too_large;
  for (const int64_t times : {4, 2}) leave_out.merge(seek(times * plan.global_batch, leave_out));
  leave_out = given.has_legal() ? given.refused : std::set<Flags>{};
  for (const int64_t parts : {2, 4})
    if (plan.global_batch % parts == 0) leave_out.merge(seek(plan.global_batch / parts, leave_out));
  std::stable_sort(found.begin(), found.end(), [](const BatchAdvice& a, const BatchAdvice& b) {
    return a.samples_per_s_per_node > b.samples_per_s_per_node;
  });
  return found;
}

std::string layout_text(const Advice& advice) {
  return advice.flags.empty() ? "as given" : core::join(advice.flags, " ");
}

/// Where nothing fits: a layout of twice, four or eight times the nodes that does.
void seek_more_nodes(const AdviseRequest& request, const Machine& machine, AdviceList& list) {
  constexpr int64_t kMostTimes = 8;
  for (int64_t times = 2; times <= kMostTimes && !list.on_more_nodes; times *= 2) {
    const int64_t nodes = times * request.nodes;
    if (!has_nodes(machine, static_cast<double>(nodes))) return;
    list.most_nodes_tried = nodes;
    PlannedStep larger = list.as_given.plan;
    larger.num_ranks *= times;
    const tasks::LayoutChoices choices = choices_of(larger, machine);
    std::vector<std::string> fixed = request.words;
    fixed.insert(fixed.end(), choices.fixed.begin(), choices.fixed.end());
    for (const Flags& flags : choices.layouts) {
      std::vector<std::string> words = fixed;
      words.insert(words.end(), flags.begin(), flags.end());
      try {
        Advice advice{.flags = flags, .plan = plan_one(std::move(words), nodes, machine.devices_per_node)};
        if (!fit_memory({advice.plan}, machine).front()) continue;
        advice.fits = true;
        list.on_more_nodes = std::move(advice);
        break;
      } catch (const UsageError&) {  // no legal layout
      }
    }
  }
}

/// What would fit, where nothing does.
std::string remedy_text(const AdviceList& list, const Machine& machine) {
  std::string text = "Nothing fits on so many nodes.";
  if (list.least)
    text += fmt::format(" The least that a rank needs is {:.1f} GiB of {:.1f}, by {}.",
                        list.least->plan.memory_bytes / kGiB, usable_memory_bytes(machine) / kGiB,
                        layout_text(*list.least));
  if (list.on_more_nodes)
    return text + fmt::format(" On {} nodes this would fit: {}.", list.on_more_nodes->plan.nodes,
                              layout_text(*list.on_more_nodes));
  const std::string other = "a smaller model, shorter samples or devices with more memory would.";
  if (list.most_nodes_tried == 0) return text + fmt::format(" {} has no twice as many: {}", machine.name, other);
  return text + fmt::format(" Nor does any of these layouts fit on up to {} nodes: {}", list.most_nodes_tried, other);
}

/// The first of the layouts that is the command as given, told by flags; nullptr: none is.
const Advice* given_among(const AdviceList& list) {
  const auto found = std::find_if(list.ranked.begin(), list.ranked.end(),
                                  [&](const Advice& one) { return one.plan == list.as_given.plan; });
  return found == list.ranked.end() ? nullptr : &*found;
}
}  // namespace

AdviceList advise(const AdviseRequest& request, const Machine& machine) {
  const LayoutJudge judge(request, machine);
  AdviceList list{.as_given = judge.as_given(), .measured = request.measured};
  const tasks::LayoutChoices choices = choices_of(list.as_given.plan, machine);
  Search search = search_layouts(judge, request.words, choices);
  list.num_tried = search.num_tried();
  list.num_refused = search.refused.size(), list.num_too_large = search.too_large.size();
  if (request.with_other_batches) list.other_batches = seek_batches(judge, request, machine, search);
  list.ranked = std::move(search.ranked);
  if (!list.ranked.empty()) return list;
  list.least = std::move(search.least);
  if (!choices.layouts.empty()) seek_more_nodes(request, machine, list);
  return list;
}

draw::Table advice_table(const AdviceList& list, const Machine& machine) {
  draw::Table table{
      .id = "advice",
      .title = fmt::format("Fastest layouts of {} ranks on {}", list.as_given.plan.num_ranks, machine.name)};
  table.columns = {{"step (s)", "step_s"},
                   {"gain (%)", "gain_pct"},
                   {"90 % interval", "gain_interval90", true},
                   {"GiB", "memory_gib"},
                   {"flags", "flags", true}};
  const auto add = [&](const Advice& one) {
    const double gain = 100 * (one.samples_per_s / list.as_given.samples_per_s - 1);
    table.rows.push_back(
        {{.text = fmt::format("{:.4g}", one.step_s), .value = one.step_s},
         {.text = fmt::format("{:+.1f}", gain), .value = gain},
         {.text = one.least_gain_pct ? fmt::format("{:+.1f} to {:+.1f}", *one.least_gain_pct, *one.most_gain_pct) : ""},
         {.text = fmt::format("{:.1f}{}", one.plan.memory_bytes / kGiB, one.fits ? "" : " too much"),
          .value = one.plan.memory_bytes / kGiB},
         {.text = layout_text(one)}});
  };
  add(list.as_given);
  const Advice* given = given_among(list);
  if (given != nullptr) table.rows.back().back().text += ": " + layout_text(*given);
  // Flags that change nothing, as ZeRO-1 of one data rank, make no row of their own.
  for (size_t i = 0; i < list.ranked.size() && table.rows.size() <= kMostShown; ++i) {
    const Advice& one = list.ranked[i];
    const bool is_shown = one.plan == list.as_given.plan || (i > 0 && one.plan == list.ranked[i - 1].plan);
    if (&one != given && !is_shown) add(one);
  }
  table.notes.push_back(fmt::format(
      "{} layouts tried at a global batch of {}: {} are not legal, {} do not fit, {} fit. {}", list.num_tried,
      list.as_given.plan.global_batch, list.num_refused, list.num_too_large, list.ranked.size(),
      list.measured.empty() ? "Steps are medians of the priors, which are far wider than small gains."
                            : "Steps are medians by what was measured of the command as given."));
  if (!list.ranked.empty())
    table.notes.emplace_back(
        "The interval of a gain holds what the model knows not to know; how well kernels suit the shapes of a layout "
        "is not in it.");
  const KnownFact input = input_fact(machine.input, "assumed free; --input-samples-per-s N tells it");
  table.notes.push_back(fmt::format("Input: {} ({}).", input.value, input.source));
  if (list.ranked.empty() && list.num_tried > 0) table.notes.push_back(remedy_text(list, machine));
  return table;
}

draw::Table batch_table(const AdviceList& list, const Machine& machine) {
  draw::Table table{.id = "batches", .title = "With another global batch, which trains something else"};
  table.columns = {{"global batch", "global_batch"},
                   {"a device", "samples_per_device"},
                   {"step (s)", "step_s"},
                   {"samples/s a node", "samples_per_s_per_node"},
                   {"gain (%)", "gain_pct"},
                   {"GiB", "memory_gib"},
                   {"flags of its fastest layout", "flags", true}};
  const double given_rate = list.ranked.empty() ? list.as_given.samples_per_s : list.ranked.front().samples_per_s;
  const auto cell = [](double value, const std::string& text) { return draw::Cell{.text = text, .value = value}; };
  for (const BatchAdvice& other : list.other_batches) {
    const Advice& best = other.best;
    const double gain = 100 * (best.samples_per_s / given_rate - 1), memory_gib = best.plan.memory_bytes / kGiB;
    const auto of_fitting = [&](double value, const std::string& text) {
      return best.fits ? cell(value, text) : draw::Cell{.note = "does not fit"};
    };
    table.rows.push_back({cell(static_cast<double>(best.plan.global_batch), fmt::format("{}", best.plan.global_batch)),
                          cell(other.samples_per_device, fmt::format("{:g}", other.samples_per_device)),
                          of_fitting(best.step_s, fmt::format("{:.4g}", best.step_s)),
                          of_fitting(other.samples_per_s_per_node, fmt::format("{:.4g}", other.samples_per_s_per_node)),
                          of_fitting(gain, fmt::format("{:+.1f}", gain)),
                          cell(memory_gib, fmt::format("{:.1f}{}", memory_gib, best.fits ? "" : " too much")),
                          {.text = layout_text(best)}});
  }
  table.notes.push_back(fmt::format(
      "The gain is in samples per second over the {} at the given batch of {} ({:g} a device), not in what they teach: "
      "another global batch makes other updates, and as many samples are another number of steps. Choose learning "
      "rate, warm-up and number of steps or epochs anew, and compare losses at equal samples.",
      list.ranked.empty() ? "command as given" : "fastest layout", list.as_given.plan.global_batch,
      static_cast<double>(list.as_given.plan.global_batch) / static_cast<double>(list.as_given.plan.num_ranks)));
  const bool has_too_large = std::any_of(list.other_batches.begin(), list.other_batches.end(),
                                         [](const BatchAdvice& other) { return !other.best.fits; });
  if (has_too_large)
    table.notes.push_back(
        fmt::format("No layout of a batch that is too much fits the {:.1f} GiB of a rank; shown is the one that "
                    "needs the least.",
                    usable_memory_bytes(machine) / kGiB));
  return table;
}

core::Json advice_json(const AdviceList& list) {
  const auto one_json = [](const Advice& one) {
    core::Json row = {{"flags", one.flags},
                      {"step_s", one.step_s},
                      {"samples_per_s", one.samples_per_s},
                      {"memory_bytes", one.plan.memory_bytes},
                      {"fits", one.fits}};
    if (one.least_gain_pct) row["gain_pct"] = {{"p5", *one.least_gain_pct}, {"p95", *one.most_gain_pct}};
    return row;
  };
  core::Json json = {{"as_given", one_json(list.as_given)},
                     {"num_tried", list.num_tried},
                     {"num_refused", list.num_refused},
                     {"num_too_large", list.num_too_large}};
  json["calibration"] = core::Json::array();
  for (const MeasuredStep& one : list.measured)
    json["calibration"].push_back({{"size", one.nodes}, {"step_s", one.step_s}});
  if (list.least) json["least"] = one_json(*list.least);
  if (list.on_more_nodes) {
    json["on_more_nodes"] = one_json(*list.on_more_nodes);
    json["on_more_nodes"]["nodes"] = list.on_more_nodes->plan.nodes;
  }
  json["ranked"] = core::Json::array();
  for (const Advice& one : list.ranked) {
    json["ranked"].push_back(one_json(one));
    json["ranked"].back()["is_as_given"] = &one == given_among(list);
  }
  json["other_batches"] = core::Json::array();
  for (const BatchAdvice& other : list.other_batches) {
    core::Json row = one_json(other.best);
    row["global_batch"] = other.best.plan.global_batch;
    row["samples_per_device"] = other.samples_per_device;
    row["samples_per_s_per_node"] = other.samples_per_s_per_node;
    json["other_batches"].push_back(std::move(row));
  }
  return json;
}

}  // namespace lockstep::predict
