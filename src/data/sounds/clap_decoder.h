#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/shards/sample.h"
#include "data/sounds/waveform.h"
#include "data/text/text_encoder.h"

namespace lockstep::data {

/// Writes the same ids for every text, then `padding_id`: for synthetic data where there is no vocabulary.
TextEncoder make_constant_encoder(std::vector<int32_t> ids, int32_t padding_id);

struct ClapDecoderConfig {
  WaveformConfig waveform;
  std::vector<std::string> audio_keys = default_audio_keys();  ///< Tried in this order; of members of shards.
  std::vector<std::string> text_keys = {"json", "txt"};  ///< A .json holds the caption, or a list of them, as "text".
  bool is_train = false;                                 ///< Of several captions one is drawn; else the first is taken.
  uint64_t seed = 0;  ///< With the sample's position in the stream it keys the crop and the choice of the caption.
};

/// Recording -> clip, caption -> token ids, as LAION-CLAP's pipeline does. A slot without audio or text space leaves
/// that part out. A sample without the member, a recording or text that cannot be used (an empty caption among them)
/// throws DataError with shard, offset and key.
SampleDecoder make_clap_decoder(const ClapDecoderConfig& config, TextEncoder encoder);

}  // namespace lockstep::data
