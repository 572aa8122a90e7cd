#include "fuzz/targets.h"

namespace lockstep::fuzz {

void add_targets_of_torch(std::vector<Target>&) {}

}  // namespace lockstep::fuzz
