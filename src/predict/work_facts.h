#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "predict/cost_model.h"
#include "predict/machine.h"

namespace lockstep::predict {

/// How gradients and parameters are shared among data ranks.
enum class Sharding {
  kReplicated,  ///< All-reduce of gradients (ddp), or reduce-scatter and all-gather of parameters (ZeRO-1): two passes.
  kFull,        ///< Parameters are gathered in forward and backward (FSDP, ZeRO-3): three passes.
};

/// One thing that was taken as known, for the list that every prediction shows.
struct KnownFact {
  std::string name{}, value{}, source{};
};

/// Of this program: each rank computes the gradients of its own features from those of all and their log-sum-exps (two
/// gathers), and sends no features back (models/contrastive_loss.cpp).
inline constexpr int64_t kOwnFeaturePasses = 1;

/// What is known of the work of a step without measuring it. Absent values widen the prediction.
struct WorkFacts {
  std::string model{};
  std::optional<double> parameters{};
  bool are_parameters_certain = false;     ///< Counted from a shape or given, not read off a name.
  std::optional<double> forward_gflops{};  ///< Of a sample, where it does not follow from parameters and tokens.
  std::optional<int64_t> feature_width{};  ///< Of a contrastive loss: features are gathered from all devices.
  /// Passes of features between devices: there, and their gradients back (OpenCLIP's --gather-with-grad).
  int64_t feature_passes = 2;
  int64_t tp = 1, pp = 1, chunks = 1;             ///< Tensor and pipeline ranks, virtual stages per pipeline rank.
  bool are_chunks_known = true;                   ///< Else a told pipeline may have more virtual stages than are taken.
  bool is_layout_assumed = false;                 ///< Nothing tells tensor and pipeline ranks.
  int64_t cp = 1, ep = 1;                         ///< Ranks that share the tokens of a sample, and experts.
  bool has_experts = false;                       ///< Then not all parameters work on each token.
  std::optional<int64_t> num_experts{}, top_k{};  ///< Of a layer; that a token goes to.
  std::optional<double> active_parameters{};      ///< That work on each token, where told.
  std::optional<int64_t> layers{}, hidden{}, key_width{};  ///< Of a transformer; all key heads together.
  bool holds_parameters = false;         ///< Told: no more than the optimizer's states and gradients are sharded.
  bool is_sharded_in_groups = false;     ///< Full sharding, with a copy of the model in each group (HSDP).
  std::optional<int64_t> group_ranks{};  ///< Data ranks of such a group; not told: those of a node.
  std::optional<int64_t> micro_batch{};
  Sharding sharding = Sharding::kReplicated;
  std::optional<double> local_batch{};  ///< Samples of a device and step.
  std::vector<KnownFact> facts{};       ///< Everything above that is not a default, and where it is from.

  double replica_devices() const { return static_cast<double>(tp * pp); }
  double sample_devices() const { return replica_devices() * static_cast<double>(cp); }  ///< That share a sample.
  double expert_parameters() const;   ///< Of all experts, where expert ranks share them; else 0.
  double experts_of_a_token() const;  ///< As told, else 2, the usual number of large experts.
  double active() const;              ///< Parameters that work on each token.
  double held_parameters() const;     ///< With the device's own experts alone, over all tensor ranks and stages.
};

/// Reads what a text tells of model and layout: "HTSAT-tiny + RoBERTa-base", "CLIP g/14", "175B", "TP=8 PP=8 VP=12
/// MBS=1", "FSDP". What is there already stays; `source` names the text in the facts.
void read_work_facts(const std::string& text, const std::string& source, WorkFacts& facts);

/// Does a text say that parameters are sharded over the data ranks: "FSDP", "ZeRO-3"?
bool names_full_sharding(std::string_view text);
/// What a layout leaves out of the model, or takes without having been told, in sentences.
std::vector<std::string> layout_notes(const WorkFacts& facts);

/// Takes parameters (and the width of contrastive features) of a model found by config::find_model_name, or of a number
/// with B or M ("1.3B"). False where neither is there.
bool take_model(const std::string& name, const std::string& source, WorkFacts& facts);

/// Blocks of a transformer of so many parameters, as the known GPT shapes have them (1.3B: 24, 70B: 73, 175B: 95).
double usual_layers(double parameters);

/// The system of the table that a text names, or nullptr.
const hw::SystemSpec* find_system_in(std::string_view text);

/// A machine of which nothing is known but how many devices a node has: a middling cluster, very wide.
Machine unknown_machine(double devices_per_node);

/// The prior of a step on a machine. `reference_step_s` in seconds, an assumption unless `is_step_certain`; 0: not
/// known, and all traffic is stated as a share of it. Adds what it took as known to `facts`.
Setting make_setting(const WorkFacts& work, const std::optional<Machine>& machine, double devices_per_node,
                     double reference_step_s, bool is_step_certain, std::vector<KnownFact>& facts);

}  // namespace lockstep::predict
