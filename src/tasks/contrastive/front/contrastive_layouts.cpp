#include "tasks/contrastive/front/contrastive_layouts.h"

namespace lockstep::tasks {

LayoutChoices contrastive_layouts(const LayoutQuestion&) {
  return {.layouts = combinations(
              {{{"--grad-sync=ddp"}, {"--grad-sync=zero1"}}, {{"--no-grad-checkpointing"}, {"--grad-checkpointing"}}})};
}

}  // namespace lockstep::tasks
