#include "predict/work_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "config/contrastive_shape.h"
#include "config/gpt_params.h"
#include "config/model_names.h"
#include "core/characters.h"
#include "core/strings.h"
#include "core/units.h"
#include "predict/told_text.h"

namespace lockstep::predict {
namespace {

constexpr double kBucketBytes = 25 * 1048576.0, kMaxBuckets = 50;
constexpr double kUpdateBytes = 30;  // read and written per parameter by an update with moments and masters
constexpr double kUnknownFixedShare = 0.01, kUnknownFixed = 0.03;  // of a step; s
constexpr double kHostStep = 0.01;                                 // s, launches and reading back
constexpr double kCollectiveLatency = 2 * 15e-6;                   // s per doubling of the nodes: down and up a tree
constexpr double kUnknownTrafficShare = 0.1, kUnknownLatencyShare = 0.001;  // of a step
// TFLOP/s and GB/s of the device whose share of a step that is.
constexpr double kUnknownTrafficPeak = 312, kUnknownTrafficNetwork = 12.5;
constexpr double kRingHop = 5e-6;  // s, of a rank in a ring: most lie inside a node
constexpr double kMiddlingGbytesPerDevice = 12.5, kMiddlingLinkGbytes = 100;
constexpr double kUnknownNetworkLogSd = 0.8;  // from a quarter to four times the middling rate
constexpr double kDeliveredShare = 0.4;       // of the peak, in the products of the contrastive logits
constexpr double kUnknownPeakTflops = 200, kUnknownMemoryTbytes = 1.5;

bool is_alnum(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }
using core::is_digit;

/// "175B", "1.3 B", "7b", "857M", "125m" as a number of its own that counts no tokens; fewer "m" are minutes or metres.
std::optional<double> find_parameter_count(std::string_view text) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (!is_digit(text[at]) || (at > 0 && (is_alnum(text[at - 1]) || text[at - 1] == '.'))) continue;
    size_t end = at;
    while (end < text.size() && (is_digit(text[end]) || text[end] == '.')) ++end;
    const auto value = core::parse_double(text.substr(at, end - at));
    const size_t unit = end < text.size() && text[end] == ' ' ? end + 1 : end;
    const bool ends_word = unit + 1 >= text.size() || !is_alnum(text[unit + 1]);
    const std::string_view next_word = text.substr(std::min(unit + 2, text.size()), 3);
    const bool counts_tokens = core::to_lower_ascii(next_word) == "tok";
    constexpr double kLeastSmallMillions = 50;
    const bool is_small =
        unit < text.size() && unit == end && (text[unit] == 'b' || (text[unit] == 'm' && value >= kLeastSmallMillions));
    if (value && *value > 0 && !counts_tokens && unit < text.size() && ends_word &&
        (text[unit] == 'B' || text[unit] == 'M' || is_small))
      return *value * (text[unit] == 'M' || text[unit] == 'm' ? 1e6 : 1e9);
    at = end;
  }
  return std::nullopt;
}

bool holds_word(const std::string& lower, std::string_view word) {
  for (size_t at = 0; (at = lower.find(word, at)) != std::string::npos; ++at)
    if ((at == 0 || !is_alnum(lower[at - 1])) &&
        (at + word.size() >= lower.size() || !is_alnum(lower[at + word.size()])))
      return true;
  return false;
}

bool holds_any(const std::string& lower, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) { return holds_word(lower, word); });
}

/// ZeRO-1 and ZeRO-2 as DeepSpeed, Megatron and FSDP call them: every device holds all parameters.
bool names_state_sharding(const std::string& lower) {
  return holds_any(lower, {"zero-1", "zero1", "zero 1", "zero stage 1", "zero stage-1", "zero-stage 1", "zero-2",
                           "zero2", "zero 2", "zero stage 2", "zero stage-2", "zero-stage 2", "shard_grad_op",
                           "distributed optimizer", "distributed-optimizer", "distributed_optimizer"});
}

/// "FSDP + DP", "HSDP".
bool names_sharding_in_groups(const std::string& lower) {
  return holds_any(lower, {"hsdp", "hybrid_shard", "hybrid shard", "hybrid sharding", "fsdp + dp", "fsdp+dp"});
}

/// Lower case with a '-' for whatever is neither letter nor digit.
std::string dashed(std::string_view text) {
  std::string out;
  for (const char c : core::to_lower_ascii(text)) out += is_alnum(c) || c == '+' ? c : '-';
  return out;
}

/// Experts of a layer: as told, at least one for each expert rank; 0: not known.
double known_experts(const WorkFacts& work) {
  const auto told = static_cast<double>(work.num_experts.value_or(0));
  return work.parameters ? std::max(told, work.ep > 1 ? static_cast<double>(work.ep) : 0.0) : 0;
}

/// Of all experts together. Where the active parameters are not told, three quarters of a layer with one expert are
/// that expert's: two matrices of four times the width, beside the four of attention and the embedding.
double parameters_of_experts(const WorkFacts& work) {
  constexpr double kExpertOverShared = 3;
  const double experts = known_experts(work), idle = 1 - work.experts_of_a_token() / experts;
  if (experts < 2) return 0;
  if (work.active_parameters && idle > 0)
    return std::clamp((*work.parameters - *work.active_parameters) / idle, 0.0, *work.parameters);
  return *work.parameters * kExpertOverShared * experts / (1 + kExpertOverShared * experts);
}

/// Devices of one data-parallel group that a node holds.
double ranks_per_node(const WorkFacts& work, double devices_per_node) {
  return std::max(1.0, devices_per_node / work.replica_devices());
}

/// Gathering features of all devices, its backward pass where there is one, and the logits against them.
void add_contrastive_loss(const WorkFacts& work, const Machine& machine, double devices_per_node, Setting& setting) {
  constexpr double kFeatureBytes = 4, kTowers = 2, kDirections = 2, kLogitPasses = 8, kProducts = 12;
  const double added = *work.local_batch * devices_per_node, width = static_cast<double>(*work.feature_width);
  const auto passes = static_cast<double>(work.feature_passes);
  setting.gather_s = kTowers * passes * kFeatureBytes * added * width / (machine.node_gbytes_per_s.value * 1e9);
  setting.gather_hop_s = kTowers * passes * kRingHop;
  const double logits = *work.local_batch * added;
  const double peak = machine.peak_tflops(hw::ComputeType::kBf16).value_or(kUnknownPeakTflops) * 1e12;
  const double memory =
      (machine.memory_tbytes_per_s.value > 0 ? machine.memory_tbytes_per_s.value : kUnknownMemoryTbytes) * 1e12;
  setting.logits_s = kProducts * logits * width / (peak * kDeliveredShare) +
                     kLogitPasses * kDirections * kFeatureBytes * logits / memory;
}

/// Of sharded parameters: three passes along rings over all data ranks, under all of the compute. Where each group of
/// ranks holds a copy of the model the rings are its own, inside a node that holds the group, and gradients are
/// all-reduced between groups.
void shard_parameters(const WorkFacts& work, double node_ranks, double pass_s, Setting& setting) {
  constexpr double kAllReducePasses = 2, kShardedPasses = 3;
  const double group_ranks = work.group_ranks ? static_cast<double>(*work.group_ranks) : node_ranks;
  setting.window_share = 1;
  if (work.is_sharded_in_groups) {
    setting.ring_ranks = group_ranks;
    setting.between_rings_s = kAllReducePasses * pass_s * std::min(1.0, node_ranks / group_ranks);
  }
  if (work.is_sharded_in_groups && group_ranks <= node_ranks) {
    setting.inter_s = 0;
    return;
  }
  setting.ring_latency_s = kShardedPasses * usual_layers(work.active()) * kRingHop;
  setting.latency_s = 0;
}

/// The whole number above zero behind a word in a text of lower case: "tp=8", "tp 8".
std::optional<int64_t> find_setting(const std::string& lower, std::string_view word) {
  for (size_t at = 0; (at = lower.find(word, at)) != std::string::npos; ++at) {
    if (at > 0 && is_alnum(lower[at - 1])) continue;
    size_t begin = at + word.size();
    if (begin < lower.size() && (lower[begin] == '=' || lower[begin] == ' ' || lower[begin] == ':')) ++begin;
    size_t end = begin;
    while (end < lower.size() && is_digit(lower[end])) ++end;
    if (end == begin) continue;
    if (const auto value = core::parse_int(std::string_view(lower).substr(begin, end - begin)); value && *value > 0)
      return value;
  }
  return std::nullopt;
}

bool is_gpt_name(const std::string& found) {
  const std::vector<std::string> gpts = config::gpt_model_names();
  return std::find(gpts.begin(), gpts.end(), found) != gpts.end();
}

/// Of a language model or a published one of our lists.
std::optional<double> parameters_of(const std::string& found) {
  if (const config::PublishedModel* model = config::find_published_model(found)) return model->parameters;
  if (!is_gpt_name(found)) return std::nullopt;
  return static_cast<double>(config::gpt_cost(config::resolve_gpt_shape(found)).parameters);
}
/// Traffic between nodes of a model that is not known: the faster a device computes and the slower its network is, the
/// more of the step.
double unknown_traffic_share(const std::optional<Machine>& machine, double devices_per_node) {
  constexpr double kLeast = 0.01, kMost = 1;
  if (!machine || machine->node_gbytes_per_s.value <= 0) return kUnknownTrafficShare;
  const double peak = machine->peak_tflops(hw::ComputeType::kFp16).value_or(kUnknownTrafficPeak) / kUnknownTrafficPeak;
  const double network = machine->node_gbytes_per_s.value / devices_per_node / kUnknownTrafficNetwork;
  return std::clamp(kUnknownTrafficShare * peak / network, kLeast, kMost);
}
}  // namespace

double usual_layers(double parameters) { return std::max(12.0, 24 * std::pow(parameters / 1.3e9, 0.28)); }

double WorkFacts::experts_of_a_token() const {
  constexpr double kUsual = 2;
  return top_k ? static_cast<double>(*top_k) : kUsual;
}

double WorkFacts::active() const {
  const double experts = known_experts(*this);
  if (active_parameters) return *active_parameters;
  if (experts < 2) return parameters.value_or(0);
  return *parameters - parameters_of_experts(*this) * (1 - std::min(1.0, experts_of_a_token() / experts));
}

double WorkFacts::expert_parameters() const { return ep > 1 ? parameters_of_experts(*this) : 0; }

double WorkFacts::held_parameters() const {
  const double experts = expert_parameters();
  return parameters.value_or(0) - experts + experts / static_cast<double>(ep);
}

bool take_model(const std::string& name, const std::string& source, WorkFacts& facts) {
  const auto take = [&](double parameters, bool is_certain, const std::string& how) {
    facts.model = name;
    facts.parameters = parameters;
    facts.are_parameters_certain = is_certain;
    facts.facts.push_back({"parameters", core::format_count(parameters), fmt::format("{}, {}", how, source)});
    return true;
  };
  std::string found = config::find_model_name(name);
  // "GPT-2 8.3B", "BERT 3.9B": a family's name beside the size of another member.
  const auto count = find_parameter_count(name);
  auto named = parameters_of(found);
  if (count && named && *count >= 1e9 && *count > 2 * *named) found.clear(), named.reset();
  const config::PublishedModel* published = config::find_published_model(found);
  if (published != nullptr && published->forward_gflops > 0) facts.forward_gflops = published->forward_gflops;
  if (is_gpt_name(found)) {
    const config::GptShape shape = config::resolve_gpt_shape(found);
    facts.layers = shape.layers, facts.hidden = shape.hidden;
    facts.key_width = shape.query_groups * shape.head_width;
  }
  if (named)
    return take(*named, true, fmt::format("{} {}", published != nullptr ? "published for" : "counted from", found));
  if (!found.empty()) {
    const auto shape = config::resolve_contrastive_shape(found, config::is_clap_model(found), {});
    facts.feature_width = shape.clip() != nullptr ? shape.clip()->embed_dim : shape.clap()->embed_dim;
    const config::ContrastiveCost cost = config::contrastive_cost(shape);
    facts.forward_gflops = (cost.image_or_audio_forward_flops + cost.text_forward_flops) / 1e9;
    return take(static_cast<double>(cost.parameters), true, fmt::format("counted from {}", found));
  }
  if (const ToldExperts experts = told_experts(name); experts.parameters) {
    if (!facts.num_experts) facts.num_experts = experts.num_experts;
    return take(*experts.parameters, false, fmt::format("read off '{}'", name.substr(0, 40)));
  }
  return count ? take(*count, false, fmt::format("read off '{}'", name.substr(0, 40))) : false;
}

/// "64 experts", "top-2", "A22B": what a text tells of experts, once it tells that there are some.
void take_experts(const std::string& text, const std::string& source, WorkFacts& facts) {
  const ToldExperts told = told_experts(text);
  facts.has_experts = facts.has_experts || facts.ep > 1 || facts.num_experts.value_or(0) > 1 || told.num_experts ||
                      told.active_parameters ||
                      holds_any(core::to_lower_ascii(text), {"moe", "mixture of experts", "mixture-of-experts"});
  if (!facts.has_experts) return;
  const auto take = [&](const auto& value, const char* name, const std::string& shown, auto& field) {
    if (!value || field) return;
    field = *value;
    facts.facts.push_back({name, shown, source});
  };
  take(told.num_experts, "experts", fmt::format("{}", told.num_experts.value_or(0)), facts.num_experts);
  take(told.top_k, "experts of a token", fmt::format("{}", told.top_k.value_or(0)), facts.top_k);
  take(told.active_parameters, "active parameters", core::format_count(told.active_parameters.value_or(0)),
       facts.active_parameters);
}

void read_work_facts(const std::string& text, const std::string& source, WorkFacts& facts) {
  const std::string lower = core::to_lower_ascii(text);
  const auto take = [&](std::initializer_list<std::string_view> words, const char* name, auto& field) {
    for (const std::string_view word : words)
      if (const auto value = find_setting(lower, word)) {
        field = *value;
        facts.facts.push_back({name, fmt::format("{}", *value), source});
        return;
      }
  };
  if (!facts.parameters) take_model(text, source, facts);
  const auto take_degree = [&](const char* word, const char* name, int64_t& field) {
    const auto value = field == 1 ? told_degree(text, word) : std::nullopt;
    if (!value) return;
    field = *value;
    facts.facts.push_back({name, fmt::format("{}", *value), source});
  };
  if (facts.tp == 1) take({"tp"}, "tensor ranks", facts.tp);
  if (facts.pp == 1) take({"pp"}, "pipeline stages", facts.pp);
  if (facts.chunks == 1) take({"vp", "vpp"}, "virtual stages", facts.chunks);
  take_degree("tensor", "tensor ranks", facts.tp);
  take_degree("pipeline", "pipeline stages", facts.pp);
  take_degree("virtual", "virtual stages", facts.chunks);
  if (const auto micro = told_batch(text).micro_batch; micro && !facts.micro_batch) {
    facts.micro_batch = std::llround(*micro);
    facts.facts.push_back({"micro-batch", fmt::format("{}", *facts.micro_batch), source});
  }
  if (facts.cp == 1)
    take({"cp", "context_parallel_size", "context parallel size", "context parallel"}, "context ranks", facts.cp);
  if (facts.ep == 1)
    take({"ep", "expert_parallel_size", "expert parallel size", "expert parallel"}, "expert ranks", facts.ep);
  take_experts(text, source, facts);
  if (facts.sharding == Sharding::kReplicated && names_full_sharding(text)) {
    facts.sharding = Sharding::kFull;
    facts.facts.push_back({"sharding", "full: three passes of the parameters", source});
  }
  if (!facts.group_ranks)
    take({"fsdp=", "dp_shard", "data_parallel_shard_degree", "shard degree"}, "ranks that share parameters",
         facts.group_ranks);
  facts.is_sharded_in_groups =
      facts.is_sharded_in_groups || facts.group_ranks.has_value() || names_sharding_in_groups(lower);
  if (facts.sharding == Sharding::kReplicated && !facts.holds_parameters && names_state_sharding(lower)) {
    facts.holds_parameters = true;
    facts.facts.push_back({"sharding", "of the optimizer's states: two passes of the parameters", source});
  }
}

namespace {
std::string experts_note(const WorkFacts& facts) {
  if (facts.ep == 1)
    return "The model has experts, and no expert ranks are told: every device is taken to hold all of them" +
           std::string(known_experts(facts) < 2 && !facts.active_parameters
                           ? ", and all parameters to work on each token (columns num_experts and top_k tell more)."
                           : ".");
  return fmt::format(
      "{} expert ranks share {} experts{}: tokens travel to {:g} of them and back in every layer, and nothing hides "
      "it. Uneven loads, tokens that are dropped or sent once to several experts of a node, and layers without experts "
      "have no term.",
      facts.ep, facts.num_experts ? fmt::format("{}", *facts.num_experts) : "at least as many",
      facts.num_experts ? "" : " (not told)", facts.experts_of_a_token());
}
}  // namespace

std::vector<std::string> layout_notes(const WorkFacts& facts) {
  std::vector<std::string> notes;
  if (facts.cp > 1)
    notes.push_back(fmt::format(
        "{} context ranks share the tokens of a sample: they pass keys and values around a ring, of which attention "
        "hides what runs beside it.{} Gathering them instead, and ranks with more work under the causal mask, have no "
        "term.",
        facts.cp, facts.key_width ? "" : " A quarter as many key heads as heads is taken."));
  if (facts.has_experts) notes.push_back(experts_note(facts));
  if (facts.is_sharded_in_groups && !facts.group_ranks && facts.sharding == Sharding::kFull)
    notes.emplace_back(
        "Parameters are sharded in groups whose size is not told: each is taken to be a node's devices (\"FSDP=16\" "
        "tells another size).");
  return notes;
}

bool names_full_sharding(std::string_view text) {
  const std::string lower = core::to_lower_ascii(text);
  return holds_any(lower,
                   {"fsdp", "hsdp", "zero-3", "zero3", "zero stage 3", "zero stage-3", "zero-stage 3", "full_shard",
                    "hybrid_shard", "hybrid shard", "hybrid sharding", "dp_shard", "fully sharded", "fully-sharded"});
}

const hw::SystemSpec* find_system_in(std::string_view text) {
  struct Key {
    const hw::SystemSpec* system;
    std::string words;
  };
  static const std::vector<Key> keys = [] {
    std::vector<Key> list;
    for (const hw::SystemSpec& system : hw::system_specs()) {
      std::vector<std::string> names = core::split(system.aliases, " ");
      names.emplace_back(system.name);
      for (const std::string& name : names)
        if (!name.empty()) list.push_back({&system, "-" + dashed(name) + "-"});
    }
    return list;
  }();
  const std::string words = "-" + dashed(text) + "-";
  const Key* best = nullptr;
  for (const Key& key : keys)
    if ((best == nullptr || key.words.size() > best->words.size()) && words.find(key.words) != std::string::npos)
      best = &key;
  return best == nullptr ? nullptr : best->system;
}

Machine unknown_machine(double devices_per_node) {
  const std::string source = "not known: a middling cluster";
  Machine machine{.name = "unknown", .devices_per_node = static_cast<int64_t>(devices_per_node)};
  machine.node_gbytes_per_s = {kMiddlingGbytesPerDevice * devices_per_node, source};
  machine.link_gbytes_per_s = {kMiddlingLinkGbytes, source};
  machine.network_efficiency = {0.8, source};
  machine.network_efficiency_sd = {kUnknownNetworkLogSd * machine.network_efficiency.value, source};
  return machine;
}

Setting make_setting(const WorkFacts& work, const std::optional<Machine>& given, double devices_per_node,
                     double reference_step_s, bool is_step_certain, std::vector<KnownFact>& facts) {
  // Programs that shard a model over tensor and pipeline ranks often reduce gradients behind the last backward pass.
  constexpr double kHiddenLogit = 2.0, kPipelinedHiddenLogit = 1.4, kHiddenLogitSd = 1.8;  // medians 0.88 and 0.80
  constexpr double kCertainSd = 0.3, kReadOffSd = 0.6, kUnknownSd = 1.0;
  const Machine machine = given ? *given : unknown_machine(devices_per_node);
  Setting setting{.devices_per_node = devices_per_node, .replica_devices = work.replica_devices()};
  setting.network_efficiency = machine.network_efficiency.value;
  setting.network_efficiency_sd = machine.network_efficiency_sd.value;
  setting.group_nodes = machine.group_nodes ? static_cast<double>(*machine.group_nodes) : 0;
  facts.insert(facts.end(), work.facts.begin(), work.facts.end());
  setting.hidden_logit = work.replica_devices() > 1 ? kPipelinedHiddenLogit : kHiddenLogit;
  setting.hidden_logit_sd = kHiddenLogitSd;
  if (!work.parameters || reference_step_s <= 0) {
    const double step = reference_step_s > 0 ? reference_step_s : 1;
    const double traffic_share = unknown_traffic_share(given, devices_per_node);
    setting.inter_s = traffic_share * step;
    setting.intra_s = kUnknownTrafficShare * kUnknownTrafficShare * step;
    setting.latency_s = kUnknownLatencyShare * step;
    setting.fixed_s = std::min(kUnknownFixedShare * step, reference_step_s > 0 ? kUnknownFixed : step);
    setting.traffic_log_sd = kUnknownSd;
    facts.push_back(
        {"gradient traffic", fmt::format("{:.0f} % of a step", 100 * traffic_share),
         work.parameters ? "the batch of a device is not known: a guess" : "the model is not known: a guess"});
    return setting;
  }
  const double ranks = ranks_per_node(work, devices_per_node);
  const double bytes_each = (work.replica_devices() > 1 || work.sharding == Sharding::kFull ? 2 : 4);
  const double bytes = work.held_parameters() / work.replica_devices() * bytes_each;
  const double all_experts = work.expert_parameters() / work.replica_devices() * bytes_each,
               own_experts = all_experts / static_cast<double>(work.ep);
  const double passes = work.sharding == Sharding::kFull ? 3 : 2;
  const double node_bytes_per_s = machine.node_gbytes_per_s.value * 1e9 * ranks / devices_per_node;
  setting.inter_s = passes * (bytes - own_experts) / node_bytes_per_s;
  setting.expert_s = passes * all_experts / node_bytes_per_s;
  const bool has_copies_in_node = static_cast<double>(work.ep) < ranks;
  setting.intra_s =
      ranks > 1 ? passes * (has_copies_in_node ? bytes : bytes - own_experts) / (machine.link_gbytes_per_s.value * 1e9)
                : 0;
  setting.latency_s = std::clamp(std::ceil(bytes / kBucketBytes), 1.0, kMaxBuckets) * kCollectiveLatency;
  const bool is_sharded = work.sharding == Sharding::kFull;
  const double holders = std::max(work.replica_devices(), is_sharded ? devices_per_node : 1);
  const double memory_tbytes_per_s =
      machine.memory_tbytes_per_s.value > 0 ? machine.memory_tbytes_per_s.value : kUnknownMemoryTbytes;
  setting.update_s = kUpdateBytes * work.held_parameters() / holders / (memory_tbytes_per_s * 1e12);
  setting.fixed_s = kHostStep + setting.update_s;
  if (is_sharded) shard_parameters(work, ranks, setting.inter_s / passes, setting);
  setting.traffic_log_sd = work.are_parameters_certain ? kCertainSd : kReadOffSd;
  if (!is_step_certain) setting.traffic_log_sd = std::hypot(setting.traffic_log_sd, kUnknownSd);
  if (work.feature_width && work.local_batch) add_contrastive_loss(work, machine, devices_per_node, setting);
  facts.push_back({"gradients", core::format_bytes(bytes) + " a device",
                   work.ep > 1 ? "parameters over tensor and pipeline ranks, experts over expert ranks, too"
                               : "parameters over tensor and pipeline ranks"});
  if (work.has_experts && !work.active_parameters && work.active() < *work.parameters)
    facts.push_back(
        {"active parameters", core::format_count(work.active()), "parameters, experts, and those of a token"});
  facts.push_back(
      {"network", fmt::format("{:g} GB/s a node", machine.node_gbytes_per_s.value), machine.node_gbytes_per_s.source});
  facts.push_back({"network efficiency",
                   fmt::format("{:g} +- {:g}", setting.network_efficiency, setting.network_efficiency_sd),
                   machine.network_efficiency.source});
  return setting;
}

}  // namespace lockstep::predict
