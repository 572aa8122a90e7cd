#include "nn/parallel_for.h"

#include <ATen/Parallel.h>

#ifndef _OPENMP
#error "compile this file with OpenMP: at::parallel_for would use one thread"
#endif

namespace lockstep::nn {

void parallel_for(int64_t begin, int64_t end, int64_t grain,
                  const std::function<void(int64_t first, int64_t last)>& use) {
  at::parallel_for(begin, end, grain, use);
}

}  // namespace lockstep::nn
