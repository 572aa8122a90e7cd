#pragma once
#include <ATen/core/TensorBody.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/named_tensor.h"
#include "config/param_spec.h"
#include "nn/typed_copies.h"

namespace lockstep::train {

/// While it lives, operators of one device type compute in half precision where that is safe (torch's autocast lists),
/// on this thread. The state before is put back at the end. Weights cast inside are cached until then: update no
/// parameter within.
class AutocastGuard {
 public:
  AutocastGuard() = default;  ///< Does nothing.
  AutocastGuard(c10::DeviceType device, at::ScalarType type, nn::TypedCopies* copies);
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;
  ~AutocastGuard();

 private:
  struct Before {
    c10::DeviceType device;
    bool was_enabled, was_cached;
    at::ScalarType type;
  };
  std::optional<Before> before_;
  std::optional<nn::TypedCopies::Scope> copies_;
};

/// One --precision on one kind of device: which type everything has.
///
/// fp32; amp (fp16 autocast with loss scaling, on the CPU bf16 autocast without); amp_bf16 (alias amp_bfloat16); bf16
/// (OpenCLIP's: parameters bf16 but for those whose ParamSpec keeps fp32); pure_bf16 (all bf16); bf16_master (all
/// parameters bf16, updated through fp32 copies: Megatron's --bf16, NeMo's O2); fp16_master (the same in fp16 with loss
/// scaling).
class Precision {
 public:
  /// An unknown name is a UsageError that lists the known ones; pure_fp16 and fp16 are refused by name.
  Precision(std::string_view name, c10::DeviceType device);

  const std::string& name() const { return name_; }
  at::ScalarType parameter_type(const config::ParamSpec& parameter) const;
  at::ScalarType input_type() const { return input_type_; }  ///< Of images and other floating-point inputs.
  bool needs_loss_scaler() const { return autocast_type_ == at::kHalf || input_type_ == at::kHalf; }
  std::optional<at::ScalarType> autocast_type() const { return autocast_type_; }
  /// To hold around forward and loss, not around backward or the update.
  AutocastGuard autocast() const {
    return autocast_type_ ? AutocastGuard(device_, *autocast_type_, copies_.get()) : AutocastGuard();
  }
  /// From now on weights are cast all at once when autocast() begins, where that spares launches: on devices other than
  /// the CPU. Not where parameters may be on their way then (GradSync::wait_where_used).
  void cast_weights_at_once();

  /// Gives each parameter its type, in place and before any bucket or optimiser exists. `specs` names every parameter.
  void convert_parameters(const std::vector<comm::NamedTensor>& parameters,
                          const std::vector<config::ParamSpec>& specs) const;

 private:
  std::string name_;
  c10::DeviceType device_;
  std::optional<at::ScalarType> autocast_type_;
  at::ScalarType input_type_ = at::kFloat;
  std::unique_ptr<nn::TypedCopies> copies_;
};

}  // namespace lockstep::train
