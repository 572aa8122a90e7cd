#include "fuzz/targets.h"

namespace lockstep::fuzz {

const std::vector<Target>& searched_targets() {
  static const std::vector<Target> list = targets_of_programs();
  return list;
}

}  // namespace lockstep::fuzz
