#pragma once
#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "infer/token_choice.h"

namespace lockstep::infer {

/// How a caption is found, token by token. Lengths count its start token.
struct CaptionSearch {
  bool is_beam_search = true;
  int64_t num_beams = 2;    ///< Captions that are followed at a time.
  TokenChoice choice = {};  ///< Without beams.
  uint64_t seed = 0;        ///< Of draws.
  int64_t longest = 30, shortest = 5;
  int32_t start_id = 49406, end_id = 49407, pad_id = 0;
};

/// Logits [N, V] (fp32, on the CPU) of the token behind each row of ids [N, T] (int64), which belongs to picture
/// picture_N (int64).
using NextLogits = std::function<at::Tensor(const at::Tensor& picture_N, const at::Tensor& ids_NT)>;

/// The caption of each picture, from its start token to its end token (which a caption cut at `longest` has as its last
/// token without beams). As OpenCLIP 3.3.0's CoCa.generate: a beam's score is the sum of its tokens' logits over their
/// number; its search of 6 beams in 3 groups is three times the same search of 2.
std::vector<std::vector<int32_t>> search_captions(const NextLogits& next_logits, int64_t num_pictures,
                                                  const CaptionSearch& search);

}  // namespace lockstep::infer
