#include "config/model_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "config/clap_shape.h"
#include "config/clip_shape.h"
#include "config/gpt_shape.h"
#include "core/characters.h"
#include "core/strings.h"

namespace lockstep::config {
namespace {

bool is_alnum(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }
using core::is_digit;

/// Letters and digits alone, in lower case; what parts two digits becomes a '-' ("gpt3-40b" is not "GPT 340B").
std::string compact(std::string_view text) {
  std::string out;
  bool is_parted = false;
  for (const char c : core::to_lower_ascii(text)) {
    if (!is_alnum(c)) {
      is_parted = true;
      continue;
    }
    if (is_parted && !out.empty() && is_digit(out.back()) && is_digit(c)) out += '-';
    out += c;
    is_parted = false;
  }
  return out;
}

constexpr PublishedModel kPublishedModels[] = {{"ResNet-18", 11.690e6, 3.6},     {"ResNet-34", 21.798e6, 7.3},
                                               {"ResNet-50", 25.557e6, 8.2},     {"ResNet-101", 44.549e6, 15.6},
                                               {"ResNet-152", 60.193e6, 23.0},   {"VGG-16", 138.358e6, 31.0},
                                               {"VGG-19", 143.667e6, 39.3},      {"AlexNet", 61.101e6, 1.4},
                                               {"Inception-v3", 23.835e6, 11.4}, {"BERT", 336e6, 0},
                                               {"BERT-large", 336e6, 0},         {"BERT-base", 110e6, 0},
                                               {"RoBERTa-base", 125e6, 0},       {"RoBERTa-large", 355e6, 0}};

/// A model with the form in which texts are searched for it.
struct KnownName {
  std::string name, key;
};

/// Made once: a table is asked for the models of each of its rows.
const std::vector<KnownName>& known_names() {
  static const std::vector<KnownName> known = [] {
    std::vector<std::string> names = clap_model_names();
    for (auto* list : {&clip_model_names, &gpt_model_names})
      for (std::string& name : list()) names.push_back(std::move(name));
    for (const PublishedModel& model : kPublishedModels) names.emplace_back(model.name);
    std::vector<KnownName> list;
    for (std::string& name : names) {
      std::string key = compact(name);
      list.push_back({std::move(name), std::move(key)});
    }
    return list;
  }();
  return known;
}

bool is_known_name(const std::string& name) {
  const std::vector<KnownName>& known = known_names();
  return std::any_of(known.begin(), known.end(), [&](const KnownName& one) { return one.name == name; });
}

/// "CLIP g/14" -> "ViT-g-14", where there is such a model.
std::string find_clip_tower(std::string_view text) {
  if (core::to_lower_ascii(text).find("clip") == std::string::npos) return "";
  for (size_t at = 1; at + 1 < text.size(); ++at) {
    if (text[at] != '/' || !is_alnum(text[at - 1]) || is_digit(text[at - 1]) || !is_digit(text[at + 1])) continue;
    if (at >= 2 && is_alnum(text[at - 2])) continue;
    size_t end = at + 1;
    while (end < text.size() && is_digit(text[end])) ++end;
    std::string name = fmt::format("ViT-{}-{}", text[at - 1], text.substr(at + 1, end - at - 1));
    if (is_known_name(name)) return name;
  }
  return "";
}

/// The one of `names` that a text is but for case and what parts its words; "": none.
std::string same_name(std::string_view text, const std::vector<std::string>& names) {
  const std::string wanted = compact(text);
  const auto found =
      std::find_if(names.begin(), names.end(), [&](const auto& name) { return compact(name) == wanted; });
  return found == names.end() ? "" : *found;
}

}  // namespace

const PublishedModel* find_published_model(std::string_view name) {
  for (const PublishedModel& model : kPublishedModels)
    if (model.name == name) return &model;
  return nullptr;
}

std::string find_model_name(std::string_view text) {
  if (std::string tower = find_clip_tower(text); !tower.empty()) return tower;
  const std::string wanted = compact(text);
  const KnownName* best = nullptr;
  for (const KnownName& known : known_names()) {
    const std::string& key = known.key;
    constexpr size_t kLeastLetters = 4;
    if (key.size() < kLeastLetters || (best != nullptr && key.size() <= best->key.size())) continue;
    const size_t at = wanted.find(key);
    if (at == std::string::npos) continue;
    const size_t end = at + key.size();
    if (end < wanted.size() && is_digit(key.back()) && is_digit(wanted[end])) continue;  // "ResNet-50" in "ResNet-500"
    best = &known;
  }
  return best == nullptr ? "" : best->name;
}

std::optional<FlopCount> forward_by_name(std::string_view text, SampleKind kind, int64_t sequence) {
  if (kind == SampleKind::kSequence) {
    const std::string name = same_name(text, gpt_model_names());
    if (name.empty() || sequence < 1) return std::nullopt;
    GptShape shape = resolve_gpt_shape(name);
    shape.sequence = sequence;
    const FlopCount forward = gpt_forward(gpt_dims(shape), AttentionCount::kCausal);
    return FlopCount{forward.flops, fmt::format("{}: {}", name, forward.formula)};
  }
  if (const std::string name = same_name(text, clip_model_names()); !name.empty())
    return clip_forward(resolve_clip_shape(name));
  if (const std::string name = same_name(text, clap_model_names()); !name.empty())
    return clap_forward(resolve_clap_shape(name));
  return std::nullopt;
}

}  // namespace lockstep::config
