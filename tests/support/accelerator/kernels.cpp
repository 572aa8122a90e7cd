#include "support/accelerator/kernels.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/InferSize.h>
#include <ATen/TensorUtils.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "support/accelerator/runtime.h"

namespace lockstep::tests::accelerator {
namespace {

bool is_ours(const at::Tensor& tensor) { return tensor.defined() && tensor.device().type() == kDeviceType; }
bool is_pinned(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_cpu() && tensor.has_storage() &&
         Runtime::get().pinned_memory().holds(tensor.storage().data());
}

/// An operator on the current stream of a device: who it is to the detector, and where it was called.
struct Launch {
  int device, actor;
  Place place;
  Launch(const std::string& name, int on) : device(on), actor(Runtime::get().launch(on)) {
    place = place_here(name + " on " + Runtime::get().races().name_of(actor));
  }
  void read(const at::Tensor& tensor) const { Runtime::get().use(tensor, actor, Access::kRead, place); }
  void write(const at::Tensor& tensor) const { Runtime::get().use(tensor, actor, Access::kWrite, place); }
  /// The host waits for the stream.
  void wait() const { Runtime::get().synchronize(Runtime::get().current_stream(device)); }
};

at::Tensor empty_on_device(at::IntArrayRef sizes, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                           std::optional<at::Device> device, std::optional<bool>,
                           std::optional<at::MemoryFormat> format) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_generic(sizes, c10::GetAllocator(kDeviceType),
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), type.value_or(at::kFloat),
                                   format);
}

at::Tensor empty_strided_on_device(at::IntArrayRef sizes, at::IntArrayRef strides, std::optional<at::ScalarType> type,
                                   std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_strided_generic(sizes, strides, c10::GetAllocator(kDeviceType),
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           type.value_or(at::kFloat));
}

/// Between host and device, and between two devices. The host goes on at once where it asks for that and its memory is
/// pinned; a copy from or to other host memory makes it wait, as with CUDA.
at::Tensor copy_across(const at::Tensor& from, const at::Tensor& to, bool is_non_blocking) {
  const at::Tensor& on_device = is_ours(to) ? to : from;
  const c10::DeviceGuard guard(on_device.device());
  const Launch launch(
      std::string("copy from ") + (is_ours(from) ? "device" : "host") + " to " + (is_ours(to) ? "device" : "host"),
      on_device.device().index());
  const at::Tensor& on_host = is_ours(from) ? to : from;
  const bool is_within_devices = is_ours(from) && is_ours(to);
  const bool is_later = is_within_devices || (is_non_blocking && is_pinned(on_host));
  if (is_non_blocking && !is_within_devices && !is_pinned(on_host))
    Runtime::get().races().report("copy: asked not to wait, but the host's memory is not pinned\n    " +
                                  launch.place.text());
  if (is_ours(from) || is_later) launch.read(from);
  if (is_ours(to) || is_later) launch.write(to);
  const bool has_host_side = !is_within_devices && !is_pinned(on_host);
  if (has_host_side)
    (is_ours(to) ? on_device_side(to) : to).copy_(is_ours(from) ? on_device_side(from) : from);
  else
    on_device_side(to).copy_(on_device_side(from));
  if (!is_later) launch.wait();
  return to;
}

at::Tensor copy_and_resize(const at::Tensor& from, const at::Tensor& to) {
  to.resize_(from.sizes());
  return copy_across(from, to, /*is_non_blocking=*/false);
}

at::Scalar value_of(const at::Tensor& tensor) {
  const Launch launch("item", tensor.device().index());
  launch.read(tensor);
  launch.wait();
  return on_device_side(tensor).item();
}

// Views.

at::Tensor as_strided(const at::Tensor& tensor, c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides,
                      std::optional<c10::SymInt> offset) {
  auto view = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(tensor.storage()),
                                                       tensor.key_set(), tensor.dtype());
  view.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides,
                                                    offset ? *offset : c10::SymInt(tensor.storage_offset()));
  return view;
}

at::Tensor view(const at::Tensor& tensor, c10::SymIntArrayRef wanted) {
  const auto sizes = at::infer_size_dv(C10_AS_INTARRAYREF_SLOW(wanted), tensor.numel());
  const auto strides = at::detail::computeStride(tensor.sizes(), tensor.strides(), sizes);
  TORCH_CHECK(strides, "view of a tensor whose strides do not allow it");
  return at::as_strided(tensor, sizes, *strides, tensor.storage_offset());
}

at::Tensor reshape_alias(const at::Tensor& tensor, c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides) {
  return at::as_strided(tensor, C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides),
                        tensor.storage_offset());
}

at::Tensor unfold(const at::Tensor& tensor, int64_t dim, int64_t size, int64_t step) {
  auto sizes = tensor.sizes().vec();
  auto strides = tensor.strides().vec();
  const auto place = static_cast<size_t>(dim < 0 ? dim + tensor.dim() : dim);
  sizes.push_back(size);
  strides.push_back(strides[place]);
  sizes[place] = (sizes[place] - size) / step + 1;
  strides[place] *= step;
  return at::as_strided(tensor, sizes, strides, tensor.storage_offset());
}

const at::Tensor& resize(const at::Tensor& tensor, c10::SymIntArrayRef wanted, std::optional<at::MemoryFormat>) {
  const auto sizes = C10_AS_INTARRAYREF_SLOW(wanted);
  const size_t bytes = static_cast<size_t>(c10::multiply_integers(sizes)) * tensor.element_size();
  if (tensor.storage().nbytes() < bytes) resize_storage(tensor.storage(), bytes);
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return tensor;
}

/// The memory of another tensor (`set_data` of a resized one, and the like).
at::Tensor& set_storage(at::Tensor& tensor, at::Storage storage, c10::SymInt offset, c10::SymIntArrayRef sizes,
                        c10::SymIntArrayRef strides) {
  tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(storage));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, std::move(offset));
  return tensor;
}

void record_stream(at::Tensor& tensor, at::Stream stream) { Runtime::get().share(tensor.storage().data(), stream); }

// What LibTorch's CPU half does not have under the name that devices use.

at::Tensor device_like(const at::Tensor& result, const Launch& launch) {
  if (!result.defined()) return result;
  auto moved = at::empty_strided(
      result.sizes(), result.strides(),
      result.options().device(kDeviceType, static_cast<c10::DeviceIndex>(launch.device)).requires_grad(false));
  launch.write(moved);
  on_device_side(moved).copy_(result);
  return moved;
}

at::Tensor convolution(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                       c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
                       bool is_transposed, c10::SymIntArrayRef output_padding, c10::SymInt groups) {
  const Launch launch("convolution", x.device().index());
  for (const at::Tensor& read : {x, weight, bias.value_or(at::Tensor())}) launch.read(read);
  return device_like(at::convolution(on_device_side(x), on_device_side(weight),
                                     bias && bias->defined() ? std::optional(on_device_side(*bias)) : std::nullopt,
                                     C10_AS_INTARRAYREF_SLOW(stride), C10_AS_INTARRAYREF_SLOW(padding),
                                     C10_AS_INTARRAYREF_SLOW(dilation), is_transposed,
                                     C10_AS_INTARRAYREF_SLOW(output_padding), groups.expect_int()),
                     launch);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& gradient, const at::Tensor& x, const at::Tensor& weight, c10::SymIntArrayRef stride,
    c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool is_transposed, c10::SymIntArrayRef output_padding,
    c10::SymInt groups, std::array<bool, 3> mask) {
  const Launch launch("convolution_backward", x.device().index());
  for (const at::Tensor& read : {gradient, x, weight}) launch.read(read);
  const std::vector<int64_t> bias_sizes{gradient.size(1)};
  auto [gx, gw, gb] = at::convolution_backward(
      on_device_side(gradient), on_device_side(x), on_device_side(weight), at::IntArrayRef(bias_sizes),
      C10_AS_INTARRAYREF_SLOW(stride), C10_AS_INTARRAYREF_SLOW(padding), C10_AS_INTARRAYREF_SLOW(dilation),
      is_transposed, C10_AS_INTARRAYREF_SLOW(output_padding), groups.expect_int(), mask);
  return {device_like(gx, launch), device_like(gw, launch), device_like(gb, launch)};
}

/// CUDA's product with a type of its own for the result.
at::Tensor mm_to_type(const at::Tensor& a, const at::Tensor& b, at::ScalarType type) {
  return at::mm(a.to(type), b.to(type));
}

at::Tensor& addmm_to_type(const at::Tensor& sum, const at::Tensor& a, const at::Tensor& b, at::ScalarType type,
                          const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  return out.copy_(at::addmm(sum.to(type), a.to(type), b.to(type), beta, alpha));
}

/// The plain formula: 0 of LibTorch's SDPBackend.
int64_t choose_attention(const at::Tensor&, const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                         double, bool, std::optional<double>, bool) {
  return 0;
}

// All other operators.

/// Operators that give the host a value or a size that depends on values: the host waits.
bool waits_for_values(const c10::FunctionSchema& schema) {
  static const std::set<std::string> kBySize{"aten::nonzero", "aten::masked_select", "aten::_unique2",
                                             "aten::unique_dim", "aten::repeat_interleave"};
  if (kBySize.contains(schema.name())) return true;
  for (const auto& result : schema.returns())
    if (result.type()->kind() == c10::TypeKind::BoolType || result.type()->kind() == c10::TypeKind::FloatType ||
        result.type()->kind() == c10::TypeKind::IntType)
      return true;
  return false;
}

/// One call of an operator: arguments become CPU tensors on the same memory, results go into memory of the device.
class BoxedCall {
 public:
  BoxedCall(const c10::OperatorHandle& op, torch::jit::Stack& stack)
      : schema_(op.schema()), stack_(stack), launch_(schema_.name(), device_of(schema_, stack)) {
    const size_t count = schema_.arguments().size();
    for (size_t i = 0; i < count; ++i) {
      const auto* alias = schema_.arguments()[i].alias_info();
      take(stack_[stack_.size() - count + i], alias != nullptr && alias->isWrite());
    }
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack_);
    if (waits_for_values(schema_)) launch_.wait();
    for (size_t i = stack_.size() - schema_.returns().size(); i < stack_.size(); ++i) give(stack_[i]);
  }

 private:
  static int device_of(const c10::FunctionSchema& schema, const torch::jit::Stack& stack) {
    int device = -1;
    const auto look = [&](const at::Tensor& tensor) {
      if (!is_ours(tensor)) return;
      TORCH_CHECK(device < 0 || device == tensor.device().index(), schema.name(), ": tensors of devices ", device,
                  " and ", tensor.device().index());
      device = tensor.device().index();
    };
    const size_t count = schema.arguments().size();
    for (size_t i = stack.size() - count; i < stack.size(); ++i) {
      if (stack[i].isTensor()) look(stack[i].toTensor());
      if (stack[i].isTensorList())
        for (const at::Tensor& tensor : stack[i].toTensorVector()) look(tensor);
      if (stack[i].isDevice() && stack[i].toDevice().has_index() && device < 0) device = stack[i].toDevice().index();
    }
    return device < 0 ? Runtime::current_device() : device;
  }

  at::Tensor taken(const at::Tensor& tensor, bool is_written) {
    if (!tensor.defined()) return tensor;
    if (!is_ours(tensor)) {
      const bool may_be_on_host = tensor.dim() == 0 || schema_.name().find("index") != std::string::npos;
      TORCH_CHECK(may_be_on_host, schema_.name(), ": a tensor of the host among those of ", "the device");
      return tensor;
    }
    if (is_written)
      launch_.write(tensor);
    else
      launch_.read(tensor);
    at::Tensor on_cpu = on_device_side(tensor);
    if (tensor.is_conj()) on_cpu = on_cpu.conj();
    taken_.emplace_back(tensor, on_cpu);
    return on_cpu;
  }

  void take(c10::IValue& value, bool is_written) {
    if (value.isTensor()) {
      value = taken(value.toTensor(), is_written);
    } else if (value.isTensorList()) {
      std::vector<at::Tensor> tensors;
      for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(taken(tensor, is_written));
      value = std::move(tensors);
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> tensors;
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
        tensors.push_back(tensor ? std::optional(taken(*tensor, is_written)) : std::nullopt);
      value = std::move(tensors);
    } else if (value.isDevice() && value.toDevice().type() == kDeviceType) {
      value = at::Device(at::kCPU);
    }
  }

  /// An output that was empty.
  at::Tensor resized(const at::Tensor& ours, const at::Tensor& on_cpu) const {
    ours.resize_(on_cpu.sizes());
    launch_.write(ours);
    on_device_side(ours).copy_(on_cpu);
    return ours;
  }

  at::Tensor given(const at::Tensor& result) const {
    if (!result.defined()) return result;
    for (const auto& [ours, on_cpu] : taken_)
      if (on_cpu.is_same(result)) return ours.sizes() == on_cpu.sizes() ? ours : resized(ours, on_cpu);
    return device_like(result, launch_);
  }

  void give(c10::IValue& value) const {
    if (value.isTensor()) {
      value = given(value.toTensor());
    } else if (value.isTensorList()) {
      std::vector<at::Tensor> tensors;
      for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(given(tensor));
      value = std::move(tensors);
    }
  }

  const c10::FunctionSchema& schema_;
  torch::jit::Stack& stack_;
  Launch launch_;
  std::vector<std::pair<at::Tensor, at::Tensor>> taken_;
};

void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) { const BoxedCall call(op, *stack); }

}  // namespace

at::Tensor on_device_side(const at::Tensor& tensor) {
  const auto& memory = is_ours(tensor) ? Runtime::get().device_memory() : Runtime::get().pinned_memory();
  void* storage = tensor.storage().mutable_data();
  if (storage == nullptr) return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU));
  const auto count = static_cast<int64_t>(tensor.storage().nbytes() / tensor.element_size());
  return at::from_blob(memory.device_side(storage), {count}, at::TensorOptions(tensor.scalar_type()))
      .as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
}

void resize_storage(const c10::Storage& storage, size_t bytes) {
  auto larger = c10::GetAllocator(kDeviceType)->allocate(bytes);
  const auto& memory = Runtime::get().device_memory();
  if (storage.data() != nullptr)
    std::memcpy(memory.device_side(larger.get()), memory.device_side(storage.data()),
                std::min(bytes, storage.nbytes()));
  storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(larger));
  storage.unsafeGetStorageImpl()->set_nbytes(bytes);
}

void register_kernels() {
  static torch::Library others(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  others.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
  static torch::Library m(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  m.impl("empty.memory_format", &empty_on_device);
  m.impl("empty_strided", &empty_strided_on_device);
  m.impl("_copy_from", &copy_across);
  m.impl("_copy_from_and_resize", &copy_and_resize);
  m.impl("_local_scalar_dense", &value_of);
  m.impl("as_strided", &as_strided);
  m.impl("view", &view);
  m.impl("_reshape_alias", &reshape_alias);
  m.impl("unfold", &unfold);
  m.impl("resize_", &resize);
  m.impl("set_.source_Storage_storage_offset", &set_storage);
  m.impl("record_stream", &record_stream);
  m.impl("convolution_overrideable", &convolution);
  m.impl("convolution_backward_overrideable", &convolution_backward);
  m.impl("mm.dtype", &mm_to_type);
  m.impl("addmm.dtype_out", &addmm_to_type);
  m.impl("_fused_sdp_choice", &choose_attention);
}

}  // namespace lockstep::tests::accelerator
