#include "tasks/contrastive/front/teacher.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <string>

#include "config/option_checks.h"
#include "config/pretrained_weights.h"
#include "data/pictures/per_colour.h"

namespace lockstep::tasks {
namespace {

using ThreeChannels = std::array<double, 3>;
constexpr ThreeChannels kOpenaiMean = {0.48145466, 0.4578275, 0.40821073};
constexpr ThreeChannels kOpenaiStd = {0.26862954, 0.26130258, 0.27577711};

/// Size and preparation of pictures. Filter and resize mode may differ: crops at random change pixels more.
void check_pictures(const ContrastiveOptions& o, const config::VisionShape& teacher,
                    const config::VisionShape& student) {
  config::refuse_if(teacher.image_size != student.image_size,
                    fmt::format("--distill-model {0} takes pictures of {1} x {1} pixels, --model {2} of {3} x {3}",
                                o.distill_model, teacher.image_size, o.model, student.image_size),
                    fmt::format("give --force-image-size {} (weights of --pretrained are resized), or another teacher",
                                teacher.image_size));
  if (!config::tells_preparation(o.distill_pretrained, o.distill_model)) return;
  const config::PicturePreparation wanted = config::preparation_of_weights(o.distill_pretrained, o.distill_model);
  const auto mean = data::per_colour(wanted.mean, kOpenaiMean), std = data::per_colour(wanted.std, kOpenaiStd);
  config::refuse_if(
      mean != data::per_colour(o.image_mean, kOpenaiMean) || std != data::per_colour(o.image_std, kOpenaiStd),
      fmt::format("--distill-pretrained {} wants pictures of mean {} and standard deviation {}, the student's have "
                  "{} and {}",
                  o.distill_pretrained, fmt::join(mean, " "), fmt::join(std, " "),
                  fmt::join(data::per_colour(o.image_mean, kOpenaiMean), " "),
                  fmt::join(data::per_colour(o.image_std, kOpenaiStd), " ")),
      fmt::format("both see the same pictures: give --image-mean {} --image-std {}, or another teacher",
                  fmt::join(mean, " "), fmt::join(std, " ")));
}

void check_texts(const ContrastiveOptions& o, const config::TextShape& teacher, const config::TextShape& student) {
  config::refuse_if(teacher.context_length != student.context_length,
                    fmt::format("--distill-model {} takes texts of {} tokens, --model {} of {}", o.distill_model,
                                teacher.context_length, o.model, student.context_length),
                    fmt::format("give --force-context-length {}, or another teacher", teacher.context_length));
  const bool cuts_alike = teacher.tokens == student.tokens && teacher.used_cleaning() == student.used_cleaning() &&
                          (teacher.tokens != config::TextTokens::kNllb || teacher.language == student.language);
  config::refuse_if(!cuts_alike,
                    fmt::format("--distill-model {} and --model {} have different tokenizers: both see the same tokens",
                                o.distill_model, o.model),
                    "take a teacher with the student's tokenizer");
  // CLIP's tokenizer is one, rows of the table beyond it are never asked for; others have a file for each vocabulary.
  const int64_t num_known = config::num_text_ids(teacher), num_used = config::num_text_ids(student);
  const bool has_room = teacher.tokens == config::TextTokens::kClip ? num_known >= num_used : num_known == num_used;
  config::refuse_if(!has_room,
                    fmt::format("--distill-model {} knows {} token ids, --model {} has {}", o.distill_model, num_known,
                                o.model, num_used),
                    "take a teacher with the student's vocabulary");
}

}  // namespace

void check_teacher(const ContrastiveOptions& options, const config::ClipShape& student) {
  const config::ContrastiveShape teacher = teacher_shape_of(options);
  check_pictures(options, teacher.clip()->vision, student.vision);
  check_texts(options, teacher.clip()->text, student.text);
}

void find_teacher_weights(const ContrastiveOptions& options) {
  config::pretrained_file("--distill-pretrained", options.distill_pretrained, options.distill_model);
}

}  // namespace lockstep::tasks
