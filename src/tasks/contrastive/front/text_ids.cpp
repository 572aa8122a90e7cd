#include "tasks/contrastive/front/text_ids.h"

#include <fmt/format.h>

#include "config/option_checks.h"

namespace lockstep::tasks {

void check_text_ids(const config::ClipShape& shape) {
  const int64_t num_tokens = config::TextShape().vocab_size, num_ids = config::num_text_ids(shape.text);
  config::refuse_if(shape.text.tokens == config::TextTokens::kClip && num_ids < num_tokens,
                    fmt::format("the text tower of model '{}' has vocab_size={}, CLIP's tokenizer has {} tokens",
                                shape.name, num_ids, num_tokens),
                    fmt::format("give text_cfg a vocab_size of at least {}", num_tokens));
}

}  // namespace lockstep::tasks
