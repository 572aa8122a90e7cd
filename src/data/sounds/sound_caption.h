#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/shards/sample.h"

namespace lockstep::data {

/// The members of a shard's sample that are taken for the caption of its recording unless --text-key names others, the
/// preferred one first.
inline constexpr std::string_view kSoundTextKeys = "json;txt";

/// The caption that training with sounds reads: of a .json member LAION's "text", else "caption", of a list one drawn
/// by `caption_key` (the first unless `is_train`); of any other member its bytes. DataError where there is none, where
/// it is no UTF-8, and where it, or any of a list, shows nothing (empty, white space, control characters).
std::string sound_caption(const RawSample& sample, const std::vector<std::string>& text_keys, uint64_t caption_key,
                          bool is_train);

/// DataError unless `text` is UTF-8. `extension`: of the member it came from.
void check_caption_bytes(const std::string& text, const std::string& extension);

}  // namespace lockstep::data
