#pragma once
#include <ATen/Context.h>
#include <ATen/record_function.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

namespace lockstep::tests {

/// Matrix products that a piece of code ran.
struct ProductCounts {
  int64_t num_all = 0;
  int64_t num_in_fp32 = 0;  ///< Of them, those that a device may not round to TF32.
};

inline thread_local ProductCounts product_counts;

/// Of `compute`, in this thread.
inline ProductCounts counted_products(const std::function<void()>& compute) {
  product_counts = {};
  const auto count = [](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
    const std::string_view name = function.name();
    if (name == "aten::mm" || name == "aten::bmm" || name == "aten::addmm") {
      ++product_counts.num_all;
      if (at::NoTF32Guard::should_disable_tf32()) ++product_counts.num_in_fp32;
    }
    return nullptr;
  };
  const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(count));
  compute();
  at::removeCallback(handle);
  return product_counts;
}

}  // namespace lockstep::tests
