#include "train/precision.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>

#include <unordered_map>

#include "config/precision_names.h"
#include "core/error.h"
#include "core/strings.h"

namespace lockstep::train {

AutocastGuard::AutocastGuard(c10::DeviceType device, at::ScalarType type, nn::TypedCopies* copies)
    : before_(Before{.device = device,
                     .was_enabled = at::autocast::is_autocast_enabled(device),
                     .was_cached = at::autocast::is_autocast_cache_enabled(),
                     .type = at::autocast::get_autocast_dtype(device)}) {
  at::autocast::set_autocast_enabled(device, true);
  at::autocast::set_autocast_dtype(device, type);
  at::autocast::set_autocast_cache_enabled(true);
  at::autocast::increment_nesting();
  if (copies != nullptr) copies_.emplace(*copies);
}

AutocastGuard::~AutocastGuard() {
  if (!before_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(before_->device, before_->was_enabled);
  at::autocast::set_autocast_dtype(before_->device, before_->type);
  at::autocast::set_autocast_cache_enabled(before_->was_cached);
}

Precision::Precision(std::string_view name, c10::DeviceType device) : name_(name), device_(device) {
  if (name == "amp_bfloat16") name_ = "amp_bf16";
  if (name_ == "amp") {
    autocast_type_ = device == c10::DeviceType::CPU ? at::kBFloat16 : at::kHalf;
  } else if (name_ == "amp_bf16") {
    autocast_type_ = at::kBFloat16;
  } else if (name_ == "bf16" || name_ == "pure_bf16") {
    input_type_ = at::kBFloat16;
  } else if (config::has_masters(name_)) {
    input_type_ = name_ == "fp16_master" ? at::kHalf : at::kBFloat16;
  } else if (name_ != "fp32") {
    const std::vector<std::string> known{"fp32", "amp", "amp_bf16", "bf16", "pure_bf16", "bf16_master", "fp16_master"};
    const auto nearest = core::nearest_name(name, known);
    const bool is_fp16 = name_ == "fp16" || name_ == "pure_fp16";
    throw UsageError(fmt::format("train: --precision '{}' is not supported, expected {}", name, core::join_or(known)),
                     is_fp16 ? "fp16 parameters underflow in training; use amp (fp16 compute, fp32 parameters) or "
                               "fp16_master (with fp32 copies)"
                             : (nearest ? fmt::format("did you mean --precision {}?", *nearest) : ""));
  }
}

at::ScalarType Precision::parameter_type(const config::ParamSpec& parameter) const {
  return config::is_16bit(parameter, name_) ? input_type_ : at::kFloat;
}

void Precision::cast_weights_at_once() {
  if (autocast_type_ && device_ != c10::DeviceType::CPU) copies_ = std::make_unique<nn::TypedCopies>(*autocast_type_);
}

void Precision::convert_parameters(const std::vector<comm::NamedTensor>& parameters,
                                   const std::vector<config::ParamSpec>& specs) const {
  std::unordered_map<std::string, const config::ParamSpec*> by_name;
  for (const auto& spec : specs) by_name.emplace(spec.name, &spec);
  const c10::NoGradGuard no_grad;
  for (const auto& [name, tensor] : parameters) {
    const auto found = by_name.find(name);
    LOCKSTEP_CHECK(found != by_name.end(), "parameter '{}' has no ParamSpec", name);
    const auto type = parameter_type(*found->second);
    if (tensor->scalar_type() == type) continue;
    const bool requires_grad = tensor->requires_grad();
    *tensor = tensor->detach().to(type).set_requires_grad(requires_grad);
  }
}

}  // namespace lockstep::train
