// Groups of parameters as timm makes them for OpenCLIP's models: layers of image towers, and what decays.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "config/frozen_parameters.h"
#include "config/layer_groups.h"
#include "config/timm_decay.h"
#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "core/strings.h"

namespace lockstep::config {
namespace {

/// As ref/make_parameter_group_goldens.py writes it.
core::Json golden_groups() {
  return core::read_json_file(std::filesystem::path(LOCKSTEP_GOLDEN_DIR) / "parameter_groups.json");
}

using Runs = std::vector<std::pair<int64_t, int64_t>>;  // value, for how many names

Runs runs_of(const core::Json& golden) {
  Runs runs;
  for (const auto& run : golden) runs.emplace_back(run.at(0).get<int64_t>(), run.at(1).get<int64_t>());
  return runs;
}

/// Over the trained parameters whose names begin so, in the order of their bytes.
template <typename Value> Runs runs_of(std::vector<ParamSpec> specs, const std::string& prefix, const Value& value_of) {
  std::erase_if(specs, [&](const ParamSpec& spec) { return spec.is_buffer || !core::starts_with(spec.name, prefix); });
  std::sort(specs.begin(), specs.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  Runs runs;
  for (const ParamSpec& spec : specs) {
    const int64_t value = value_of(spec);
    if (runs.empty() || runs.back().first != value) runs.emplace_back(value, 0);
    ++runs.back().second;
  }
  return runs;
}

/// The only group of a name; -1: none or several.
int64_t group_of(const std::string& name, const std::vector<NameGroup>& groups) {
  int64_t found = -1;
  for (int64_t i = 0; i < std::ssize(groups); ++i)
    if (is_in_group(name, groups[static_cast<size_t>(i)])) found = found == -1 ? i : -2;
  return std::max<int64_t>(found, -1);
}

TEST(ParameterGroups, OfTimmsTowersAreThoseOfItsMatchers) {
  int num_towers = 0;
  const auto all = golden_groups();
  for (const auto& [name, golden] : all.items()) {
    if (!golden.contains("groups")) continue;
    ++num_towers;
    const ClipShape shape = resolve_clip_shape(name);
    const auto groups = image_layer_groups(shape);
    const Runs want = runs_of(golden.at("groups"));
    EXPECT_EQ(runs_of(clip_param_specs(shape), "visual.trunk.",
                      [&](const ParamSpec& spec) { return group_of(spec.name, groups); }),
              want)
        << name;
    EXPECT_EQ(std::ssize(groups), std::max_element(want.begin(), want.end())->first + 1) << name;
  }
  EXPECT_GE(num_towers, 18);
}

TEST(ParameterGroups, WhatDecaysIsWhatTimmLetsDecay) {
  const auto all = golden_groups();
  EXPECT_GE(all.size(), 23u);
  for (const auto& [name, golden] : all.items()) {
    const ContrastiveShape shape{resolve_clip_shape(name)};
    auto specs = shape.param_specs();
    set_timm_decay(shape, specs);
    EXPECT_EQ(runs_of(specs, "", [](const ParamSpec& spec) { return spec.weight_decay ? 1 : 0; }),
              runs_of(golden.at("decay")))
        << name;
  }
}

/// OpenCLIP 3.3.0's lock_image_tower(unlocked_groups=2).
TEST(ParameterGroups, TwoUnlockedGroupsOfATimmTower) {
  struct Case {
    const char* model;
    int64_t num_frozen, num_trained;
  };
  for (const Case& want : {Case{"ViT-B-16-SigLIP", 135, 27}, {"convnext_base", 331, 12}, {"EVA02-B-16", 235, 25}}) {
    const ClipShape shape = resolve_clip_shape(want.model);
    const auto frozen = frozen_parameters(shape, {.image = true, .image_unlocked_groups = 2});
    int64_t num_frozen = 0, num_trained = 0;
    for (const ParamSpec& spec : clip_param_specs(shape))
      if (!spec.is_buffer && core::starts_with(spec.name, "visual."))
        ++(frozen.contains(spec.name) ? num_frozen : num_trained);
    EXPECT_EQ(num_frozen, want.num_frozen) << want.model;
    EXPECT_EQ(num_trained, want.num_trained) << want.model;
  }
}

TEST(ParameterGroups, PartsWhoseStatisticsStayAreRefused) {
  const TowerLocks locks{.image = true, .image_unlocked_groups = 1, .freezes_batch_norm = true};
  EXPECT_THROW(frozen_parameters(resolve_clip_shape("MobileCLIP-S1"), locks), UsageError);
  EXPECT_THROW(frozen_parameters(resolve_clip_shape("MobileCLIP-B"), locks), UsageError);
  EXPECT_NO_THROW(frozen_parameters(resolve_clip_shape("convnext_base"), locks)) << "it has no batch norm";
}

}  // namespace
}  // namespace lockstep::config
