#pragma once
#include <string>

#include "config/param_spec.h"

namespace lockstep::config {

/// --precision bf16_master and fp16_master: 16-bit weights are the rounded values of fp32 copies.
inline bool has_masters(const std::string& precision) {
  return precision == "bf16_master" || precision == "fp16_master";
}
/// Are weights stored in 16 bits, but for those that --precision bf16 keeps?
inline bool has_16bit_weights(const std::string& precision) {
  return precision == "bf16" || precision == "pure_bf16" || has_masters(precision);
}
/// Is this parameter stored in 16 bits?
inline bool is_16bit(const ParamSpec& param, const std::string& precision) {
  return has_16bit_weights(precision) && !(param.keeps_fp32 && precision == "bf16");
}

}  // namespace lockstep::config
