#pragma once
#include <cstddef>
#include <span>
#include <string_view>

#include "core/error.h"

namespace lockstep::data {

enum class AudioContainer { kWav, kFlac, kOgg };

/// The kind by the first bytes; DataError that says what they look like where it is none of ours.
AudioContainer detect_audio_container(std::span<const std::byte> bytes, std::string_view name);

/// DataError where a WAV has less data than it announces, and unless an OGG is a whole chain of pages with right
/// checksums: libsndfile reads what is left of such files without a word. (A damaged FLAC it does notice.)
void check_audio_container(AudioContainer container, std::span<const std::byte> bytes, std::string_view name);

/// "data: recording in <name> is damaged: <reason>", with the hint that all recordings share.
DataError damaged_audio(std::string_view name, std::string_view reason, size_t num_bytes);
/// "data: recording in <name> holds no sound".
DataError empty_audio(std::string_view name, size_t num_bytes);

}  // namespace lockstep::data
