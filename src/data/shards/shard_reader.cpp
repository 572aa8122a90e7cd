#include "data/shards/shard_reader.h"

#include <algorithm>

#include "core/error.h"
#include "core/strings.h"
#include "data/shards/open_stream.h"
#include "data/shards/unread_formats.h"

namespace lockstep::data {
namespace {

constexpr size_t kMaxMembers = 1000;

bool contains(const std::vector<std::string>& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

/// "__x__" and "__x__/..." carry data about the archive, not samples.
bool is_archive_note(std::string_view name) {
  const std::string_view first = name.substr(0, name.find('/'));
  return first.size() >= 4 && core::starts_with(first, "__") && core::ends_with(first, "__") &&
         first.substr(2, first.size() - 4).find('_') == std::string_view::npos;
}

std::string type_reason(char type) {
  switch (type) {
    case '1': return "hard link (holds no data of its own)";
    case '2': return "symbolic link";
    case '5': return "folder";
    default: return "special file";
  }
}

}  // namespace

std::optional<std::pair<std::string, std::string>> split_member_name(std::string_view name) {
  const size_t slash = name.rfind('/');
  const size_t base = slash == std::string_view::npos ? 0 : slash + 1;
  const size_t dot = name.find('.', base);
  if (dot == std::string_view::npos || dot == base) return std::nullopt;
  return std::pair(std::string(name.substr(0, dot)), core::to_lower_ascii(name.substr(dot + 1)));
}

TarSampleReader::TarSampleReader(const std::string& shard, uint64_t start_offset,
                                 const std::vector<std::string>* wanted, const std::atomic<bool>* stop)
    : TarSampleReader(open_byte_stream(shard, start_offset, stop), shard, start_offset, wanted) {}

TarSampleReader::TarSampleReader(std::unique_ptr<ByteStream> stream, const std::string& shard, uint64_t start_offset,
                                 const std::vector<std::string>* wanted)
    : tar_(std::move(stream), shard, start_offset), wanted_(wanted), next_offset_(start_offset) {}

std::optional<TarSampleReader::Part> TarSampleReader::next_part() {
  while (auto entry = tar_.next()) {
    if (entry->type != '0') {
      if (entry->type != '5') ++skipped_[type_reason(entry->type)];
    } else if (is_archive_note(entry->name)) {
      ++skipped_["note of the archive (__name__)"];
    } else if (auto name = split_member_name(entry->name)) {
      return Part{std::move(name->first), std::move(name->second), std::move(*entry)};
    } else {
      ++skipped_["file without extension, or hidden"];
    }
  }
  return std::nullopt;
}

void TarSampleReader::take(TarSample& sample, const Part& part, bool with_data) {
  sample.places.push_back({part.extension, part.entry.data_offset, part.entry.size});
  if (with_data && (wanted_ == nullptr || contains(*wanted_, part.extension)))
    sample.members.push_back({part.extension, tar_.read_data()});
}

std::optional<TarSample> TarSampleReader::next(bool with_data) {
  if (!is_started_) ahead_ = next_part();
  is_started_ = true;
  if (!ahead_) return std::nullopt;
  TarSample sample;
  sample.key = ahead_->key;
  sample.offset = ahead_->entry.header_offset;
  take(sample, *ahead_, with_data);
  for (;;) {
    ahead_ = next_part();
    if (!ahead_) break;
    const bool repeats = std::any_of(sample.places.begin(), sample.places.end(),
                                     [&](const MemberPlace& place) { return place.extension == ahead_->extension; });
    if (ahead_->key != sample.key || repeats) break;
    if (sample.places.size() == kMaxMembers)
      throw DataError(fmt::format("data: a sample has more than {} members, key='{}', offset={}", kMaxMembers,
                                  sample.key, sample.offset),
                      "the part of the name before its first dot is the key; give each sample its own");
    take(sample, *ahead_, with_data);
  }
  next_offset_ = ahead_ ? ahead_->entry.header_offset : tar_.end_offset();
  return sample;
}

/// What a sample without a wanted recording has instead, and what to do about it; "" for nothing.
static std::string unused_sound(const std::vector<std::string>& extensions) {
  for (const std::string& extension : extensions) {
    if (is_audio_extension(extension)) return fmt::format("; {0} is read with --audio-ext {0}", extension);
    if (is_unread_sound(extension)) return fmt::format("; {} is not read: convert it to FLAC", extension);
  }
  return "";
}

std::vector<std::string> SampleFilter::wanted() const {
  std::vector<std::string> list = image_keys;
  list.insert(list.end(), audio_keys.begin(), audio_keys.end());
  list.insert(list.end(), text_keys.begin(), text_keys.end());
  list.emplace_back("cls");
  return list;
}

std::string SampleFilter::reason_against(const std::vector<std::string>& extensions) const {
  const auto has_any = [&](const std::vector<std::string>& keys) {
    return keys.empty() ||
           std::any_of(keys.begin(), keys.end(), [&](const std::string& key) { return contains(extensions, key); });
  };
  if (!has_any(image_keys)) return fmt::format("sample without image ({})", core::join(image_keys, ", "));
  if (!has_any(audio_keys))
    return fmt::format("sample without audio ({}){}", core::join(audio_keys, ", "), unused_sound(extensions));
  if (!has_any(text_keys)) return fmt::format("sample without text ({})", core::join(text_keys, ", "));
  if (need_label && !contains(extensions, "cls")) return "sample without label (cls)";
  return "";
}

std::string SampleFilter::hint(const std::string& shards) const {
  std::vector<std::string> flags;
  if (!image_keys.empty()) flags.emplace_back("--image-key");
  if (!audio_keys.empty()) flags.emplace_back("--audio-ext");
  if (!text_keys.empty()) flags.emplace_back("--text-key");
  return fmt::format("`lockstep data inspect '{}'` shows what the samples have{}{}", shards,
                     flags.empty() ? "" : "; name their members with ", core::join(flags, " and "));
}

}  // namespace lockstep::data
