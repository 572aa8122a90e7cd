// Parsers of data: samples, shards, pictures, sounds, texts, tokens.
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "core/error.h"
#include "core/hash.h"
#include "data/pictures/image.h"
#include "data/shards/byte_stream.h"
#include "data/shards/lmdb_value.h"
#include "data/shards/plain_pickle.h"
#include "data/shards/sample.h"
#include "data/shards/shard_index.h"
#include "data/shards/shard_reader.h"
#include "data/shards/source_lmdb.h"
#include "data/sounds/audio.h"
#include "data/sounds/sound_caption.h"
#include "data/text/bpe_model.h"
#include "data/text/json_caption.h"
#include "data/text/json_lines.h"
#include "data/text/text_clean.h"
#include "data/text/text_tokenizer.h"
#include "data/text/word_pieces.h"
#include "data/tokens/indexed_dataset.h"
#include "fuzz/memory_folder.h"
#include "fuzz/targets.h"

namespace lockstep::fuzz {
namespace {

/// Bytes as a stream, in pieces of a size that does not divide tar's blocks.
class MemoryStream : public data::ByteStream {
 public:
  explicit MemoryStream(Bytes bytes) : bytes_(bytes) {}
  size_t read(std::span<std::byte> buffer) override {
    const size_t count = std::min({buffer.size(), bytes_.size() - at_, size_t{4099}});
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(at_), count, buffer.begin());
    at_ += count;
    return count;
  }
  bool skip(uint64_t count) override {
    if (count > bytes_.size() - at_) return false;
    at_ += count;
    return true;
  }
  std::optional<uint64_t> size() const override { return bytes_.size(); }
  void finish() override {}

 private:
  Bytes bytes_;
  size_t at_ = 0;
};

void read_tar(Bytes bytes) {
  data::TarSampleReader reader(std::make_unique<MemoryStream>(bytes), "fuzz.tar", 0, nullptr);
  while (reader.next(/*with_data=*/true)) {
  }
}

void read_lmdb(Bytes bytes) {
  static const MemoryFolder folder;
  const data::LmdbReader reader(folder.write("data.mdb", bytes));
  const data::LmdbPictures pictures = data::list_lmdb_pictures(reader);
  for (int64_t picture = 0; picture < std::min<int64_t>(pictures.num_pictures, 100); ++picture)
    if (const auto value = reader.get(pictures.key(picture))) data::parse_lmdb_value(*value, "fuzz");
}

void read_lmdb_value(Bytes bytes) { data::parse_lmdb_value(text_of(bytes), "fuzz"); }

void read_plain_pickle(Bytes bytes) { data::parse_plain_pickle(text_of(bytes), "fuzz"); }

void read_image(Bytes bytes) { data::decode_image(bytes, "fuzz", {.max_pixels = 1 << 20}); }

void read_audio(Bytes bytes) {
  data::AudioReader reader(bytes, "fuzz", {.max_seconds = 60, .max_channels = 8});
  std::vector<float> values;
  reader.read_mono(0, std::min<int64_t>(reader.info().num_frames, 48'000), values);
}

/// Once as it is, and once with the checksum that its table has: else no damaged table would be looked at.
void read_shard_index(Bytes bytes) {
  const std::string_view text = text_of(bytes);
  const size_t line_end = std::min(text.find('\n'), text.size());
  const std::string_view table = text.substr(std::min(line_end + 1, text.size()));
  const auto [name, header] = data::parse_index_header(text.substr(0, line_end), "fuzz.index");
  const data::ShardIndex index = data::parse_shard_index(
      data::format_index_header(name, header, core::xxh3_hex(table)) + "\n" + std::string(table), "fuzz.index");
  const data::SampleFilter filter{.image_keys = {"jpg", "png"}, .text_keys = {"txt"}};
  index.usable_offsets(filter);
  data::parse_shard_index(data::format_shard_index(name, index), "fuzz.index");
  data::parse_shard_index(text, "fuzz.index");
}

/// The first two bytes say how many of the others are the index; the rest are tokens.
void read_tokens(Bytes bytes) {
  if (bytes.size() < 2) return;
  const size_t wanted = std::to_integer<size_t>(bytes[0]) * 256 + std::to_integer<size_t>(bytes[1]);
  bytes = bytes.subspan(2);
  const size_t index_size = std::min(wanted, bytes.size());
  static const MemoryFolder folder;
  folder.write("data.idx", bytes.first(index_size));
  folder.write("data.bin", bytes.subspan(index_size));
  const data::IndexedDataset dataset(folder.path() / "data");
  for (int64_t sequence = 0; sequence < std::min<int64_t>(dataset.num_sequences(), 100); ++sequence) {
    std::vector<int32_t> ids(static_cast<size_t>(dataset.length(sequence)));
    dataset.read(sequence, 0, ids, 50'257);
  }
}

void read_caption(Bytes bytes) {
  data::RawSample sample;
  sample.members = {{.extension = "json", .bytes = std::string(text_of(bytes))}};
  data::clean_text(data::sound_caption(sample, {"json"}, 1, true));
  data::json_caption(sample.members[0].bytes, {.keys = {"text", "caption"}, .weights = {1, 2}}, 1);
}

void read_caption_text(Bytes bytes) { data::clean_text(text_of(bytes)); }

void read_json_lines(Bytes bytes) {
  static const MemoryFolder folder;
  const fs::path file = folder.write("corpus.jsonl", bytes);
  data::JsonLines lines(file);
  data::JsonFieldReader reader;
  for (auto some = lines.next(4096); !some.empty(); some = lines.next(4096))
    for (const auto& line : some) reader.read(line, file, "text");
}

void read_tokenizer(Bytes bytes) {
  static const MemoryFolder folder;
  const auto tokenizer = data::open_text_tokenizer({.model = folder.write("tokenizer.json", bytes).string()});
  const auto ids = tokenizer->encode("A cat, 3 dogs & <|endoftext|> \xc3\xa9t\xc3\xa9.");
  tokenizer->decode(ids);
}

void read_sentencepiece(Bytes bytes) {
  static const MemoryFolder folder;
  const auto tokenizer = data::open_text_tokenizer({.model = folder.write("tokenizer.model", bytes).string()});
  tokenizer->decode(tokenizer->encode("A cat and 3 dogs."));
}

void read_word_pieces(Bytes bytes) {
  static const MemoryFolder folder;
  static const data::WordPieces known = [] {
    constexpr std::string_view kPieces = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##a\ncat\n##t\n,\n\xe4\xb8\xad\n";
    return data::WordPieces(folder.write("known.txt", std::as_bytes(std::span(kPieces))));
  }();
  try {
    for (const int32_t id : known.ids(text_of(bytes)))
      LOCKSTEP_CHECK(id >= 0 && id < known.vocab_size(), "id {} of a vocabulary of {}", id, known.vocab_size());
  } catch (const DataError&) {  // no UTF-8: it may be a vocabulary that is refused, too
  }
  data::WordPieces(folder.write("vocab.txt", bytes)).ids("A cat, 3 dogs & [SEP] caf\xc3\xa9.");
}

}  // namespace

std::vector<Target> targets_of_data() {
  std::vector<Target> list = {{"tar", {".tar"}, read_tar, kLongInput},
                              {"lmdb", {"/golden/lmdb/"}, read_lmdb, kLongInput},
                              {"lmdb_value", {"/image/jpeg_1x1"}, read_lmdb_value},
                              {"plain_pickle", {}, read_plain_pickle},
                              {"image", {"/image/"}, read_image, kLongInput},
                              {"audio", {".wav", ".flac", ".ogg"}, read_audio, kLongInput},
                              {"shard_index", {}, read_shard_index},
                              {"tokens", {}, read_tokens, kLongInput},
                              {"caption", {}, read_caption},
                              {"caption_text", {}, read_caption_text},
                              {"json_lines", {}, read_json_lines},
                              {"tokenizer", {}, read_tokenizer},
                              {"sentencepiece", {"/sentencepiece/small.model"}, read_sentencepiece, kLongInput},
                              {"word_pieces", {}, read_word_pieces, 1 << 10}};
  add_targets_of_files(list);
  return list;
}

}  // namespace lockstep::fuzz
