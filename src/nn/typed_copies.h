#pragma once
#include <ATen/core/TensorBody.h>

#include <map>
#include <vector>

namespace lockstep::nn {

/// Copies of fp32 parameters in the type that autocast computes in, for layers that ask for them (typed_parameter). All
/// that were asked for before are made by one kernel, where each layer by itself would launch one for each of its own.
class TypedCopies {
 public:
  explicit TypedCopies(at::ScalarType type) : type_(type) {}
  TypedCopies(const TypedCopies&) = delete;
  TypedCopies& operator=(const TypedCopies&) = delete;

  /// While it lives, layers of this thread use the copies, which are the parameters' values at its beginning: nobody
  /// may update parameters meanwhile, nor may any be still on its way.
  class Scope {
   public:
    explicit Scope(TypedCopies& copies);
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();

   private:
    TypedCopies* before_;
  };

 private:
  friend at::Tensor typed_parameter(const at::Tensor& parameter, at::ScalarType type);
  const at::Tensor& copy_of(const at::Tensor& parameter);
  void refresh();

  at::ScalarType type_;
  std::map<const void*, at::Tensor> copies_;  // by the parameter
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> values_;  // of the copies, without a place in any graph
};

/// The parameter in `type`, without a gradient where that is another one than its own.
at::Tensor typed_parameter(const at::Tensor& parameter, at::ScalarType type);

}  // namespace lockstep::nn
