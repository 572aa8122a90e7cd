#pragma once
#include <cstdint>
#include <string_view>

namespace lockstep::logs {

/// Whose batch a column tells.
enum class BatchOf : uint8_t {
  kNone,  ///< The header is no batch, or has a word that means anything else.
  kAll,
  kDevice,
  kNode,
  kMicro,   ///< Of one pass of a replica.
  kUnsaid,  ///< Of a device or of all: "batch size", "mini-batch".
};

/// What a header says of a batch: "Global batch size (M tokens)", "per_device_train_batch_size", "samples/step".
struct BatchName {
  BatchOf of = BatchOf::kNone;
  bool is_in_tokens = false;
  double scale = 1;  ///< A field times this counts samples or tokens.
};
BatchName read_batch_name(std::string_view header);

}  // namespace lockstep::logs
