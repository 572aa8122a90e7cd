#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>

namespace lockstep::data {

/// Calls use(i, worker) for each i in [0, count), in `num_threads` threads; the
/// error of the smallest i that threw is thrown again.
void for_each_parallel(size_t count, int64_t num_threads, const std::function<void(size_t, size_t)>& use);

}  // namespace lockstep::data
