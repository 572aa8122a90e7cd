#pragma once
// What nn's, models' and infer's own kernels on the CPU share: the threads of the tensor library. at::parallel_for is a
// template that runs everything in the calling thread where OpenMP is off, as it is in all files but parallel_for.cpp.

#include <cstdint>
#include <functional>

namespace lockstep::nn {

/// Calls use(first, last) for parts of [begin, end) beside one another, in at most at::get_num_threads() threads and in
/// one where there are no more than `grain` numbers or where it is called by such a part. Returns when all have ended;
/// throws what the first failing one threw.
void parallel_for(int64_t begin, int64_t end, int64_t grain,
                  const std::function<void(int64_t first, int64_t last)>& use);

}  // namespace lockstep::nn
