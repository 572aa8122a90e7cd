#pragma once

namespace lockstep::comm {

enum class ReduceOp { kSum, kAverage, kMax, kMin };

}  // namespace lockstep::comm
