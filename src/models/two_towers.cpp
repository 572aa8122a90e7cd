#include "models/two_towers.h"

#include <ATen/core/Tensor.h>

#include "core/error.h"

namespace lockstep::models {
namespace {

[[noreturn]] void refuse(const char* kind) {
  throw DataError(fmt::format("models: the data holds {}, but the network has no tower for it", kind),
                  "`train clip` reads images with captions, `train clap` sounds with captions");
}

}  // namespace

at::Tensor TwoTowers::encode_image(const at::Tensor&) { refuse("images"); }
at::Tensor TwoTowers::encode_audio(const at::Tensor&) { refuse("audio"); }

CaptionedPairs TwoTowers::encode_pairs(const at::Tensor&, const at::Tensor&, CountedTokens) {
  LOCKSTEP_CHECK(false, "captions of a network without a decoder");
}

}  // namespace lockstep::models
