#include "tasks/front/layout_choices.h"

#include <utility>

namespace lockstep::tasks {

std::vector<LayoutChoices::Flags> combinations(const std::vector<std::vector<LayoutChoices::Flags>>& choices) {
  std::vector<LayoutChoices::Flags> all = {{}};
  for (const std::vector<LayoutChoices::Flags>& choice : choices) {
    std::vector<LayoutChoices::Flags> longer;
    for (const LayoutChoices::Flags& begin : all)
      for (const LayoutChoices::Flags& end : choice) {
        longer.push_back(begin);
        longer.back().insert(longer.back().end(), end.begin(), end.end());
      }
    all = std::move(longer);
  }
  return all;
}

}  // namespace lockstep::tasks
