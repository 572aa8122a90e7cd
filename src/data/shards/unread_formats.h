#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::data {

/// Files of pictures or sounds in formats that other programs read, by their extension (".gif"). Other files, such as
/// captions, lie beside samples by right.
using UnreadFormats = std::map<std::string, int64_t>;

/// Counts the file where it is such a picture, or such a sound.
void count_unread_picture(const std::filesystem::path& file, UnreadFormats& formats);
void count_unread_sound(const std::filesystem::path& file, UnreadFormats& formats);

/// The same of an extension in lower case and without a dot.
bool is_unread_sound(std::string_view extension);

/// "left out, since pictures are read from .jpg, .png: 1 .bmp, 2 .gif". `what`: "pictures"; `read`: extensions without
/// a dot.
std::string unread_text(const UnreadFormats& formats, const char* what, std::span<const std::string_view> read);

}  // namespace lockstep::data
