#include "tasks/contrastive/front/aug_cfg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <string_view>

#include "config/option_checks.h"
#include "core/strings.h"

namespace lockstep::tasks {
namespace {
/// "(1,2)", "[1,2]" or "1,2"; nullopt where a part is no finite number.
std::optional<std::vector<double>> parse_numbers(std::string_view text) {
  const bool is_tuple =
      text.size() >= 2 && ((text.front() == '(' && text.back() == ')') || (text.front() == '[' && text.back() == ']'));
  std::vector<double> numbers;
  for (const std::string& part : core::split(is_tuple ? text.substr(1, text.size() - 2) : text, ",")) {
    const auto number = core::parse_double(core::trim(part));
    if (!number || !std::isfinite(*number)) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

void refuse_value(bool is_wrong, const std::string& key, std::string_view value, const std::string& expected,
                  const std::string& example) {
  config::refuse_if(is_wrong, fmt::format("--aug-cfg {} got '{}', expected {}", key, value, expected),
                    fmt::format("for example --aug-cfg '{}'", example));
}

void set_range(AugConfig& config, const std::string& key, std::string_view value) {
  const auto numbers = parse_numbers(value);
  const bool is_scale = key == "scale";
  const bool is_range = numbers && numbers->size() == 2 && (*numbers)[0] > 0 && (*numbers)[0] <= (*numbers)[1];
  refuse_value(!is_range || (is_scale && (*numbers)[1] > 1), key, value,
               fmt::format("(MIN,MAX) with 0 < MIN <= MAX{}", is_scale ? " <= 1" : ""),
               is_scale ? "scale=(0.4,1.0)" : "ratio=(0.75,1.33)");
  (is_scale ? config.scale_min : config.ratio_min) = (*numbers)[0];
  (is_scale ? config.scale_max : config.ratio_max) = (*numbers)[1];
}

void set_color_jitter(AugConfig& config, const std::string& key, std::string_view value) {
  const auto numbers = parse_numbers(value);
  const bool is_jitter = numbers && numbers->size() == 4 && *std::min_element(numbers->begin(), numbers->end()) >= 0;
  refuse_value(!is_jitter || (*numbers)[3] > 0.5, key, value,
               "(BRIGHTNESS,CONTRAST,SATURATION,HUE), none below 0, the hue at most 0.5",
               "color_jitter=(0.32,0.32,0.32,0.08)");
  std::copy(numbers->begin(), numbers->end(), config.color_jitter.begin());
}

template <double AugConfig::*Field>
void set_probability(AugConfig& config, const std::string& key, std::string_view value) {
  const auto numbers = parse_numbers(value);
  refuse_value(!numbers || numbers->size() != 1 || (*numbers)[0] < 0 || (*numbers)[0] > 1, key, value,
               "a probability from 0 to 1", key + "=0.2");
  config.*Field = (*numbers)[0];
}

struct AugKey {
  std::string_view name;
  void (*set)(AugConfig& config, const std::string& key, std::string_view value);
};
constexpr AugKey kKeys[] = {{"scale", set_range},
                            {"ratio", set_range},
                            {"color_jitter", set_color_jitter},
                            {"color_jitter_prob", set_probability<&AugConfig::color_jitter_prob>},
                            {"gray_scale_prob", set_probability<&AugConfig::gray_scale_prob>}};

std::string known_keys() {
  std::vector<std::string> names;
  for (const AugKey& key : kKeys) names.emplace_back(key.name);
  return core::join(names, ", ");
}
}  // namespace

AugConfig parse_aug_cfg(const std::vector<std::string>& pairs) {
  AugConfig config;
  std::vector<std::string> given;
  for (const std::string& pair : pairs) {
    const size_t equals = pair.find('=');
    const std::string key = pair.substr(0, equals);
    config::refuse_if(equals == std::string::npos, fmt::format("--aug-cfg got '{}', expected KEY=VALUE", pair),
                      "for example --aug-cfg 'scale=(0.4,1.0)'");
    const std::vector<std::string> of_timm = {"re_prob", "re_count", "use_timm", "interpolation"};
    config::refuse_if(std::count(of_timm.begin(), of_timm.end(), key) > 0,
                      fmt::format("--aug-cfg {} is not supported in this version", key),
                      fmt::format("{} are; drop the others", known_keys()));
    const AugKey* known =
        std::find_if(std::begin(kKeys), std::end(kKeys), [&](const AugKey& k) { return k.name == key; });
    config::refuse_if(known == std::end(kKeys),
                      fmt::format("--aug-cfg key '{}' is unknown, expected one of {}", key, known_keys()),
                      "for example --aug-cfg 'scale=(0.4,1.0)'");
    given.push_back(key);
    known->set(config, key, core::trim(std::string_view(pair).substr(equals + 1)));
  }
  const auto is_given = [&](const char* key) { return std::count(given.begin(), given.end(), key) > 0; };
  config::refuse_if(is_given("color_jitter") != is_given("color_jitter_prob"),
                    "--aug-cfg color_jitter and color_jitter_prob belong together",
                    "for example --aug-cfg 'color_jitter=(0.32,0.32,0.32,0.08)' color_jitter_prob=0.8");
  return config;
}

}  // namespace lockstep::tasks
