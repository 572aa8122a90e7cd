#pragma once
#include <ATen/core/TensorBody.h>

#include <optional>
#include <string>
#include <string_view>

#include "core/safetensors.h"

namespace lockstep::models {

/// The safetensors name of a type; a type the format does not have is a DataError.
std::string safetensors_type_name(at::ScalarType type);
/// Nothing for a name that has no type here.
std::optional<at::ScalarType> scalar_type_of(std::string_view safetensors_name);

/// The entry's bytes as a tensor, without copying: valid as long as the file object. `where` is for messages.
at::Tensor borrow_tensor(const core::SafetensorsEntry& entry, const std::string& where);
/// An entry that borrows the tensor's bytes. The tensor lies on the CPU, is contiguous, and outlives the entry.
core::SafetensorsEntry borrow_entry(const std::string& name, const at::Tensor& tensor);

}  // namespace lockstep::models
