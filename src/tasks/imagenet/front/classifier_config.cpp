#include "tasks/imagenet/front/classifier_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "config/imagenet_models.h"
#include "config/weights_config.h"
#include "core/error.h"
#include "core/strings.h"
#include "data/pictures/transform.h"
#include "tasks/imagenet/front/imagenet_options.h"

namespace lockstep::tasks {
using core::Json;
namespace {

constexpr const char* kPreparation = "pretrained_cfg";

/// Three numbers, of an option with none, one or three. Defaults are floats: 0.485, not 0.48500001430511475.
Json three_numbers(const Json& options, const char* key, const std::array<float, 3>& unset) {
  const Json given = options.value(key, Json::array());
  Json numbers = Json::array();
  for (size_t i = 0; i < unset.size(); ++i)
    numbers.push_back(!given.is_array() || given.empty() ? Json(core::parse_double(fmt::format("{}", unset[i])).value())
                      : given.size() == 1                ? given[0]
                                                         : given.at(i));
  return numbers;
}

/// The share of the resized picture that the crop keeps, so that size / share, rounded down, is the size resized to.
double crop_share(int64_t pixels, int64_t resize_pixels) {
  const auto size = static_cast<double>(pixels);
  double share = size / static_cast<double>(resize_pixels);
  while (std::floor(size / share) < static_cast<double>(resize_pixels)) share = std::nextafter(share, 0.0);
  return share;
}

Json config_of_run(const RecordedAttempt& attempt) {
  const Json& options = attempt.options;
  const auto size_of = [&](const char* key) { return core::integer_at(options, key); };
  const int64_t pixels =
      size_of("val_crop_size").value_or(size_of("train_crop_size").value_or(ImagenetOptions().image_pixels));
  const auto transform = data::imagenet_transform(/*is_train=*/false, static_cast<int>(pixels),
                                                  static_cast<int>(size_of("val_resize_size").value_or(0)));
  const int64_t resize_pixels = std::max(transform.resize_pixels, transform.image_pixels);
  Json json = {{"architecture", core::text_at(options, "arch")}};
  const std::optional<int64_t> num_classes = core::integer_at(attempt.model, "num_classes");
  if (num_classes) json["num_classes"] = *num_classes;
  if (const auto names = attempt.model.find("class_names"); names != attempt.model.end() && !names->empty())
    json["label_names"] = *names;
  json[kPreparation] = {{"input_size", {3, pixels, pixels}},
                        {"crop_pct", crop_share(pixels, resize_pixels)},
                        {"crop_mode", "center"},
                        {"interpolation", options.value("interpolation", ImagenetOptions().interpolation)},
                        {"mean", three_numbers(options, "image_mean", transform.mean)},
                        {"std", three_numbers(options, "image_std", transform.std)}};
  if (num_classes) json[kPreparation]["num_classes"] = *num_classes;
  return json;
}

bool is_of_known_network(const Json& json) {
  const std::vector<std::string> known = config::classifier_names();
  return json.is_object() && json.value(kPreparation, Json()).is_object() &&
         std::count(known.begin(), known.end(), core::text_at(json, "architecture")) > 0;
}

/// The options of `train imagenet` that prepare pictures so.
Json options_of_config(const Json& json, const std::string& source) {
  const Json& told = json.at(kPreparation);
  const auto refuse = [&](const char* key, const std::string& expected) {
    throw DataError(fmt::format("data: {}: '{}' of '{}' is {}, expected {}", source, key, kPreparation,
                                told.at(key).dump(), expected),
                    "mend it there, or leave the file out and give the sizes as flags");
  };
  Json options = {{"arch", json.at("architecture")}};
  if (const auto classes = core::integer_at(json, "num_classes")) options["num_classes"] = *classes;
  std::optional<int64_t> pixels;
  if (const auto size = told.find("input_size"); size != told.end()) {
    if (size->is_array() && size->size() == 3 && size->at(1) == size->at(2)) pixels = core::integer_of(size->at(2));
    if (!pixels || *pixels < 1) refuse("input_size", "[3, SIZE, SIZE]");
    options["train_crop_size"] = *pixels;
  }
  if (const auto share = told.find("crop_pct"); share != told.end() && pixels) {
    const double kept = share->is_number() ? share->get<double>() : 0;
    if (!(kept > 0 && kept <= 1)) refuse("crop_pct", "a number above 0 and up to 1");
    options["val_resize_size"] = static_cast<int64_t>(std::floor(static_cast<double>(*pixels) / kept));
  }
  if (told.contains("interpolation")) options["interpolation"] = told.at("interpolation");
  for (const auto& [key, option] : {std::pair("mean", "image_mean"), std::pair("std", "image_std")}) {
    const auto numbers = told.find(key);
    if (numbers == told.end()) continue;
    const bool are_three =
        numbers->is_array() && numbers->size() == 3 &&
        std::all_of(numbers->begin(), numbers->end(), [](const Json& number) { return number.is_number(); });
    if (!are_three) refuse(key, "three numbers");
    options[option] = *numbers;
  }
  return options;
}

}  // namespace

Json classifier_config(const std::string& weights) {
  if (const auto attempt = recorded_attempt(weights))
    return attempt->task == "imagenet" ? config_of_run(*attempt) : Json(nullptr);
  const Json brought = config::read_weights_config(weights);
  return is_of_known_network(brought) ? brought : Json(nullptr);
}

std::optional<RecordedAttempt> classifier_attempt(const std::string& weights) {
  if (auto attempt = recorded_attempt(weights)) return attempt->task == "imagenet" ? std::move(attempt) : std::nullopt;
  const Json brought = config::read_weights_config(weights);
  if (!is_of_known_network(brought)) return std::nullopt;
  const std::string source = fmt::format("the configuration of '{}'", weights);
  return RecordedAttempt{
      .task = "imagenet", .options = options_of_config(brought, source), .model = Json::object(), .source = source};
}

}  // namespace lockstep::tasks
