#include "data/sounds/sound_caption.h"

#include "core/error.h"
#include "core/json.h"
#include "core/rng.h"
#include "core/strings.h"
#include "data/bad_sample_hint.h"
#include "data/text/json_caption.h"
#include "data/text/text_utf8.h"

namespace lockstep::data {
namespace {

const std::string& text_of(const core::Json& value, std::string_view where) {
  if (!value.is_string()) throw_no_json_caption(fmt::format("{} is {}, expected a string", where, value.type_name()));
  return value.get_ref<const std::string&>();
}

bool shows_nothing(std::string_view utf8) {
  for (size_t at = 0; at < utf8.size();) {
    const Utf8Step step = decode_utf8_step(utf8, at);
    if (!is_white_space(step.code_point) && step.code_point >= 0x20 && step.code_point != 0x7F) return false;
    at += step.num_bytes;
  }
  return true;
}

/// The captions of a list, of which each must serve: else it would be left to chance whether a run meets the bad one.
void check_list(const core::Json& list, const char* name) {
  if (list.empty()) throw_no_json_caption(fmt::format("\"{}\" is an empty list", name));
  for (size_t number = 0; number < list.size(); ++number) {
    const std::string where = fmt::format("number {} of \"{}\"", number, name);
    const std::string& text = text_of(list[number], where);
    if (shows_nothing(text))
      throw DataError(fmt::format("data: the caption in its .json is empty: {} has {} bytes, none of them shows", where,
                                  text.size()),
                      or_leave_out("take it out of the list"));
  }
}

/// The caption in a JSON member: LAION's "text", else "caption". Of a list `caption_key` picks one.
std::string caption_of_json(const std::string& bytes, uint64_t caption_key, bool is_train) {
  const core::Json json = read_sample_json(bytes);
  const char* name = json.contains("text") ? "text" : "caption";
  if (!json.contains(name)) {
    std::vector<std::string> names;
    for (const auto& item : json.items()) names.push_back(item.key());
    throw_no_json_caption(fmt::format("it has only [{}]", core::join(names, ", ").substr(0, 200)));
  }
  const core::Json& value = json.at(name);
  if (!value.is_array()) return text_of(value, fmt::format("\"{}\"", name));
  check_list(value, name);
  const size_t pick = is_train ? core::CounterRng(caption_key).below(value.size()) : 0;
  return value[pick].get<std::string>();
}

}  // namespace

void check_caption_bytes(const std::string& text, const std::string& extension) {
  const size_t at = find_invalid_utf8(text);
  if (at == std::string_view::npos) return;
  throw DataError(fmt::format("data: the caption in its .{} is no UTF-8 text: byte {:#04x} at offset {} of {}",
                              extension, static_cast<unsigned char>(text[at]), at, text.size()),
                  or_leave_out("write captions as UTF-8"));
}

std::string sound_caption(const RawSample& sample, const std::vector<std::string>& text_keys, uint64_t caption_key,
                          bool is_train) {
  const Member& member = sample.require(text_keys, "caption", "--text-key");
  std::string text = member.extension == "json" ? caption_of_json(member.bytes, caption_key, is_train) : member.bytes;
  check_caption_bytes(text, member.extension);
  if (shows_nothing(text))
    throw DataError(fmt::format("data: the caption in its .{} is empty: {} bytes, none of them shows", member.extension,
                                text.size()),
                    or_leave_out("give the sound a caption"));
  return text;
}

}  // namespace lockstep::data
