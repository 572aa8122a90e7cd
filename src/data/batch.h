#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::data {

/// One micro-batch of one rank on the host. Letters: B samples, Y = X image height and width in pixels, C = 3 colours,
/// S values of a mono clip, T context length.
struct HostBatch {
  int64_t num_samples = 0;
  int64_t image_pixels = 0;         ///< Y (= X); 0: no images.
  std::vector<uint8_t> image_BYXC;  ///< After crop and resize, before scaling to [0,1] and normalising.
  int64_t clip_samples = 0;         ///< S; 0: no audio.
  std::vector<float> audio_BS;      ///< Clips at the model's rate, cut or filled to S; full scale is [-1, 1].
  /// Length of each recording at that rate: > S where a part was taken, < S where filled.
  std::vector<int64_t> audio_samples_B;
  int64_t context_length = 0;     ///< T; 0: no text.
  std::vector<int32_t> text_BT;   ///< Token ids with the tokenizer's padding (CLIP: 0, RoBERTa: 1).
  std::vector<int64_t> label_B;   ///< Class index where the source has classes, else empty.
  std::vector<int64_t> place_B;   ///< Of each sample among all that the loader has read since it was made or sought.
  std::vector<std::string> keys;  ///< "shard:key" or file path of each sample, for messages and file orders.
};

}  // namespace lockstep::data
