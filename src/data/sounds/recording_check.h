#pragma once
#include <string_view>

#include "data/pictures/picture_check.h"

namespace lockstep::data {

/// DataError with `name` where the encoded recording cannot be used: check_picture of a sound.
void check_recording(std::string_view encoded, std::string_view name, PictureDepth depth);

}  // namespace lockstep::data
