#include "nn/onednn.h"

#include <ATen/Context.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace lockstep::nn {
namespace {

using Pack = at::Tensor(const at::Tensor&, std::optional<int64_t>);
using Pointwise = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, std::string_view,
                             c10::List<std::optional<at::Scalar>>, std::optional<std::string_view>);
using PointwiseAdd = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                const std::optional<at::Tensor>&, std::string_view);

template <class Signature> c10::TypedOperatorHandle<Signature> find_op(const char* name, const char* overload) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload).typed<Signature>();
}

std::optional<at::Tensor> optional(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

/// The layout serves any number of rows; it is chosen for this many.
constexpr int64_t kTypicalRows = 64;

}  // namespace

at::Tensor onednn_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                         std::string_view attribute, std::string_view algorithm) {
  static const auto op = find_op<Pointwise>("mkldnn::_linear_pointwise", "");
  return op.call(x, weight, optional(bias), attribute, c10::List<std::optional<at::Scalar>>(), algorithm);
}

at::Tensor onednn_linear_add(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight,
                             const at::Tensor& bias) {
  static const auto op = find_op<PointwiseAdd>("mkldnn::_linear_pointwise", "binary");
  return op.call(x, residual, weight, optional(bias), "add");
}

at::Tensor onednn_packed(const at::Tensor& weight) {
  if (!at::hasMKLDNN() || !at::globalContext().userEnabledMkldnn()) return {};
  static const auto pack = find_op<Pack>("mkldnn::_reorder_linear_weight", "");
  try {
    return pack.call(weight, kTypicalRows);
  } catch (const c10::Error&) {  // this processor has no such product: fp16 without its instructions
    return {};
  }
}

}  // namespace lockstep::nn
