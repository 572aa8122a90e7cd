#include "models/weights_tensors.h"

#include <ATen/ATen.h>

#include <array>

#include "core/error.h"

namespace lockstep::models {
namespace {

struct TypeName {
  std::string_view name;
  at::ScalarType type;
};
constexpr std::array kTypeNames{TypeName{"F64", at::kDouble},
                                TypeName{"F32", at::kFloat},
                                TypeName{"F16", at::kHalf},
                                TypeName{"BF16", at::kBFloat16},
                                TypeName{"I64", at::kLong},
                                TypeName{"I32", at::kInt},
                                TypeName{"I16", at::kShort},
                                TypeName{"I8", at::kChar},
                                TypeName{"U8", at::kByte},
                                TypeName{"BOOL", at::kBool},
                                TypeName{"F8_E4M3", at::kFloat8_e4m3fn},
                                TypeName{"F8_E5M2", at::kFloat8_e5m2}};

}  // namespace

std::string safetensors_type_name(at::ScalarType type) {
  for (const TypeName& entry : kTypeNames)
    if (entry.type == type) return std::string(entry.name);
  throw DataError(fmt::format("models: safetensors files have no type for {}", c10::toString(type)),
                  "convert the tensor to a common type first");
}

std::optional<at::ScalarType> scalar_type_of(std::string_view safetensors_name) {
  for (const TypeName& entry : kTypeNames)
    if (entry.name == safetensors_name) return entry.type;
  return std::nullopt;
}

at::Tensor borrow_tensor(const core::SafetensorsEntry& entry, const std::string& where) {
  const auto type = scalar_type_of(entry.dtype);
  if (!type)
    throw DataError(
        fmt::format("models: '{}': tensor '{}' has type {}, which is not supported", where, entry.name, entry.dtype));
  if (entry.bytes.empty()) return at::empty(entry.shape, *type);
  // The mapping is read-only; nobody writes through the tensor. Unaligned data are copied: kernels may assume
  // alignment.
  auto* bytes = const_cast<std::byte*>(entry.bytes.data());
  const bool is_aligned = reinterpret_cast<uintptr_t>(bytes) % c10::elementSize(*type) == 0;
  if (is_aligned) return at::from_blob(bytes, entry.shape, at::TensorOptions(*type));
  auto copy = at::empty(entry.shape, *type);
  std::memcpy(copy.data_ptr(), bytes, entry.bytes.size());
  return copy;
}

core::SafetensorsEntry borrow_entry(const std::string& name, const at::Tensor& tensor) {
  LOCKSTEP_CHECK(tensor.is_cpu() && tensor.is_contiguous(), "tensor '{}'", name);
  return {.name = name,
          .dtype = safetensors_type_name(tensor.scalar_type()),
          .shape = tensor.sizes().vec(),
          .bytes = {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}};
}

}  // namespace lockstep::models
