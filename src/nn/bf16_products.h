#pragma once
#include <memory>

namespace torch {
class Library;
}

namespace lockstep::nn {

/// While one lives, LibTorch's products of bf16 tensors on the CPU (matrix products, convolutions, fused attention, and
/// their gradients) are those of fp32 tensors of the same numbers, rounded to bf16 once: what processors with bf16
/// units compute, up to the order of sums.
class Bf16Products {
 public:
  Bf16Products();
  ~Bf16Products();
  Bf16Products(const Bf16Products&) = delete;
  Bf16Products& operator=(const Bf16Products&) = delete;

 private:
  std::unique_ptr<torch::Library> library_;
};

/// Whether oneDNN computes bf16 products here. Without AVX-512 it does not, and LibTorch's own loops take 7 to 50 times
/// as long as fp32 (bench/results/bf16_without_units_cpu.json).
bool has_fast_bf16_products();

/// From here on this process has Bf16Products where has_fast_bf16_products() is false.
void multiply_bf16_fast();

}  // namespace lockstep::nn
