// Parsers of the files beside the data: lists of samples and shards, vocabularies, arrays.
#include <algorithm>
#include <string>
#include <string_view>

#include "core/error.h"
#include "core/hash.h"
#include "data/shards/csv_table.h"
#include "data/shards/epoch_size.h"
#include "data/shards/shard_list.h"
#include "data/text/bpe_model.h"
#include "data/text/tokenizer_vocabulary.h"
#include "data/tokens/array_cache.h"
#include "fuzz/memory_folder.h"
#include "fuzz/targets.h"

namespace lockstep::fuzz {
namespace {

void read_samples_csv(Bytes bytes) {
  for (const char separator : {',', '\t'}) {
    try {
      data::parse_csv(text_of(bytes), separator, {}, "samples.csv");
      data::parse_csv(text_of(bytes), separator, {"filepath", "title"}, "samples.csv");
    } catch (const DataError&) {
    }
  }
}

/// The first two bytes say how many of the others are vocab.json; the rest are merges.txt.
void read_bpe_files(Bytes bytes) {
  if (bytes.size() < 2) return;
  const size_t wanted = std::to_integer<size_t>(bytes[0]) * 256 + std::to_integer<size_t>(bytes[1]);
  bytes = bytes.subspan(2);
  const size_t vocab_size = std::min(wanted, bytes.size());
  static const MemoryFolder folder;
  data::read_bpe_files(folder.write("vocab.json", bytes.first(vocab_size)),
                       folder.write("merges.txt", bytes.subspan(vocab_size)), {});
}

/// Of OpenCLIP's tokenizer, packed or not.
void read_clip_vocab(Bytes bytes) {
  static const MemoryFolder folder;
  data::BpeVocabulary(folder.write("vocab.txt.gz", bytes));
}

/// The shards of --train-data, and behind the first line's end their factors.
void read_shard_list(Bytes bytes) {
  const std::string_view text = text_of(bytes);
  const size_t end = std::min(text.find('\n'), text.size());
  const data::ExpandLimits limits{.max_count = 1'000, .max_bytes = 128 << 10};  // the usual ones take a second
  size_t count = 0, shard_bytes = 0;
  for (const data::ShardSource& source :
       data::parse_shard_sources(text.substr(0, end), text.substr(std::min(end + 1, text.size())), limits)) {
    LOCKSTEP_CHECK(source.factor > 0, "factor {}", source.factor);
    count += source.shards.size();
    for (const std::string& shard : source.shards) shard_bytes += shard.size();
  }
  LOCKSTEP_CHECK(count <= limits.max_count && shard_bytes <= std::max(limits.max_bytes, bytes.size()),
                 "{} shards of {} bytes", count, shard_bytes);
}

/// sizes.json where it begins as an object does, else __len__.
void read_epoch_size(Bytes bytes) {
  static const MemoryFolder of_sizes, of_length;
  const bool is_sizes = !bytes.empty() && text_of(bytes)[0] == '{';
  const MemoryFolder& folder = is_sizes ? of_sizes : of_length;
  folder.write(is_sizes ? "sizes.json" : "__len__", bytes);
  data::SourceConfig config;
  config.spec = (folder.path() / "{0..2}.tar").string();
  config.global_batch = 4;
  config.index = data::IndexUse::kOff;
  const auto size = data::shards_epoch_size(config);
  LOCKSTEP_CHECK(size.num_samples >= size.num_known && size.num_samples - size.num_known < 4, "{} of {}",
                 size.num_samples, size.num_known);
}

/// The first line is the header; it gets the checksum and the room that the format asks for.
void read_array_file(Bytes bytes) {
  constexpr size_t kPage = 4096;
  static const MemoryFolder folder;
  const std::string_view text = text_of(bytes);
  const std::string_view line = text.substr(0, text.find('\n'));
  std::string file = fmt::format("{}\n{}\n", line, core::xxh3_hex(line));
  file.resize(std::max(file.size(), kPage), ' ');
  file += text.substr(std::min(line.size() + 1, text.size()));
  file.resize((file.size() + kPage - 1) / kPage * kPage);
  data::read_array_file(folder.write("k.arrays", std::as_bytes(std::span(file))), "k", "x");
}

}  // namespace

void add_targets_of_files(std::vector<Target>& list) {
  list.insert(list.end(), {{"samples_csv", {}, read_samples_csv},
                           {"bpe_files", {}, read_bpe_files},
                           {"clip_vocab", {}, read_clip_vocab},
                           {"shard_list", {}, read_shard_list},
                           {"epoch_size", {}, read_epoch_size},
                           {"array_file", {}, read_array_file}});
}

}  // namespace lockstep::fuzz
