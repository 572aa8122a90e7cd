#pragma once
#include <ATen/core/TensorBody.h>

#include <atomic>
#include <memory>

namespace lockstep::nn {

/// Takes gradients of one parameter where they are made. Autograd keeps a gradient in memory of its own and then adds
/// it to param.grad(): a linear layer adds its product to the sum at once instead, and gives autograd nothing. A sink
/// is the parameter's post-accumulate hook, too, for gradients that come the usual way. While a parameter has a sink,
/// backward passes must be such as accumulate into param.grad(), of several recomputed blocks only one may use it, and
/// what linear layers use is used by nothing else.
class GradientSink {
 public:
  /// Of one use of the parameter in a graph, as long as that use's gradient is to come; made in the forward pass.
  using Use = std::shared_ptr<void>;
  struct Sum {
    at::Tensor tensor{};  ///< Of the parameter's shape; undefined: this gradient is autograd's to keep.
    bool is_new = false;  ///< Nothing of this step lies in it: write, do not add.
  };

  virtual ~GradientSink() = default;
  Use expect();
  virtual Sum begin(const at::Tensor& parameter) = 0;
  /// A gradient has been added to begin()'s sum, and `use` is over. The last use that was expected completes the
  /// gradient.
  void end(Use& use);

 protected:
  virtual void added() = 0;        ///< One gradient.
  virtual void is_complete() = 0;  ///< No further use is expected.

 private:
  std::shared_ptr<std::atomic<int64_t>> num_expected_ = std::make_shared<std::atomic<int64_t>>(0);  // uses outlive us
};

/// The sink of a parameter; nullptr: it has none, or is none.
GradientSink* gradient_sink_of(const at::Tensor& parameter);

}  // namespace lockstep::nn
