#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/json.h"

namespace lockstep::data {

/// The object in a sample's .json member; NaN and Infinity, which Python writes, are read as 0. DataError where it is
/// too large (16 MiB), no JSON or no object.
core::Json read_sample_json(const std::string& bytes);
[[noreturn]] void throw_no_json_caption(const std::string& what);

/// Which values of a sample's .json member are its caption.
struct JsonCaptionKeys {
  std::vector<std::string> keys = {};  ///< The first one with a text that is not empty.
  /// Of the keys, for training: an order is drawn by them, those of weight 0 come last. Empty: the order of `keys`.
  std::vector<double> weights = {};
};

/// The caption without white space around it. `draw_key` draws the order. DataError where no key has one.
std::string json_caption(const std::string& bytes, const JsonCaptionKeys& keys, uint64_t draw_key);

}  // namespace lockstep::data
