// Collectives with gradient, as autograd functions.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "comm/comm.h"
#include "core/error.h"

namespace lockstep::comm {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kCommKey = "comm";

/// Autograd's saved values hold no foreign pointers, so the group travels as an integer; the caller keeps it alive
/// through backward.
int64_t as_integer(Comm& comm) { return static_cast<int64_t>(reinterpret_cast<intptr_t>(&comm)); }

Comm& comm_of(AutogradContext* context) {
  return *reinterpret_cast<Comm*>(static_cast<intptr_t>(context->saved_data[kCommKey].toInt()));
}

struct AllGather : torch::autograd::Function<AllGather> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, int64_t comm_address) {
    context->saved_data[kCommKey] = comm_address;
    Comm& comm = comm_of(context);
    auto sizes = input.sizes().vec();
    sizes[0] *= comm.size();
    const at::Tensor output = at::empty(sizes, input.options().memory_format(at::MemoryFormat::Contiguous));
    comm.all_gather_into(output, input.contiguous()).wait();
    return output;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    Comm& comm = comm_of(context);
    const at::Tensor gradient = gradients[0].contiguous();
    auto sizes = gradient.sizes().vec();
    sizes[0] /= comm.size();
    const at::Tensor own = at::empty(sizes, gradient.options());
    comm.reduce_scatter_into(own, gradient).wait();
    return {own, at::Tensor()};
  }
};

}  // namespace

at::Tensor all_gather_with_grad(const at::Tensor& input, Comm& comm) {
  LOCKSTEP_CHECK(input.dim() >= 1, "comm: all_gather_with_grad of a scalar: there is no dim 0 to join along");
  if (comm.size() == 1) return input;
  return AllGather::apply(input, as_integer(comm));
}

}  // namespace lockstep::comm
