#include "fuzz/targets.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "checkpoint/manifest.h"
#include "commands/commands.h"
#include "core/csv_table.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/json.h"
#include "core/safetensors.h"
#include "core/strings.h"
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
#include "logs/formats.h"
#include "logs/logs.h"
#include "models/pickle.h"
#include "predict/describe_machine.h"
#include "predict/machine_file.h"
#include "predict/table_curves.h"
#include "published/recompute.h"
#include "record/reader.h"
#include "record/run_data.h"
#include "remote/s3_xml.h"
#include "sweep/expression.h"
#include "sweep/points.h"
#include "sweep/sweep_file.h"
#include "sweep/sweep_state.h"

namespace lockstep::fuzz {
namespace {

namespace fs = std::filesystem;
using Bytes = std::span<const std::byte>;

std::string_view text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// A folder in memory for parsers that take paths; gone with the object. Each target keeps one and overwrites its
/// files: making and removing a folder costs more than most parsers do.
class MemoryFolder {
 public:
  MemoryFolder() {
    std::string name =
        (fs::exists("/dev/shm") ? "/dev/shm" : fs::temp_directory_path().string()) + "/lockstep-fuzz-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw EnvironmentError(fmt::format("fuzz: cannot make {}", name));
    path_ = name;
  }
  ~MemoryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;

  fs::path write(const std::string& name, Bytes bytes) const {
    const fs::path file = path_ / name;
    fs::create_directories(file.parent_path());
    const int descriptor = open(file.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    const bool is_written =
        descriptor >= 0 && ::write(descriptor, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
    if (descriptor >= 0) close(descriptor);
    if (!is_written) throw EnvironmentError(fmt::format("fuzz: cannot write {}", file.string()));
    return file;
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

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

void read_safetensors(Bytes bytes) {
  static const MemoryFolder folder;
  const core::SafetensorsFile file(folder.write("model.safetensors", bytes));
  for (const auto& entry : file.entries()) file.at(entry.name);
}

void read_pickle(Bytes bytes) { models::PickleDocument(bytes, "fuzz.pkl"); }

void read_json(Bytes bytes) { core::parse_json(text_of(bytes), "fuzz.json"); }

/// All files of a record: a line of each is one JSON object, as run.json and status.json are.
void read_run(Bytes bytes) {
  record::parse_steps(text_of(bytes), "steps.jsonl");
  static const MemoryFolder folder;
  for (const char* name : {"run.json", "status.json", "steps.jsonl", "comm.jsonl", "ranks.jsonl", "results.jsonl",
                           "system.jsonl", "startup.jsonl"})
    folder.write(name, bytes);
  record::load_run(folder.path());
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

void read_manifest(Bytes bytes) {
  const auto manifest = checkpoint::parse_manifest(text_of(bytes), "manifest.json");
  static const MemoryFolder folder;
  checkpoint::verify_files(folder.path(), manifest, checkpoint::VerifyDepth::kHashes);
}

void read_csv(Bytes bytes) {
  static const MemoryFolder folder;
  published::check_published(folder.write("table.csv", bytes));
}

void read_machine(Bytes bytes) { predict::parse_machine(text_of(bytes), "machine.toml"); }

void read_scaling(Bytes bytes) {
  static const MemoryFolder folder;
  predict::read_table_curves(folder.write("table.csv", bytes));
}

void read_bench_document(Bytes bytes) {
  static const MemoryFolder folder;
  predict::describe_machine({folder.write("bench.json", bytes).string()});
}

void read_sweep(Bytes bytes) {
  const auto file = sweep::parse_sweep_file(text_of(bytes), "sweep.toml");
  sweep::make_plan(file, [](const std::string&) { return std::nullopt; });
}

void read_sweep_state(Bytes bytes) {
  static const MemoryFolder folder;
  folder.write("sweep.json", bytes);
  const sweep::SweepState state = sweep::read_state(folder.path());
  sweep::write_state(folder.path(), state);  // what was read can be written and read again
  const sweep::SweepState again = sweep::read_state(folder.path());
  LOCKSTEP_CHECK(again.points.size() == state.points.size(), "{} points of {}", again.points.size(),
                 state.points.size());
}

void read_formula(Bytes bytes) {
  const auto formula = sweep::Expression::parse(std::string(text_of(bytes)), "fuzz");
  formula.evaluate(
      [](const std::string& name) { return std::optional<sweep::Scalar>(static_cast<double>(name.size())); });
}

/// A command line, one argument a line.
void read_arguments(Bytes bytes) {
  const std::vector<std::string> args = core::split(text_of(bytes), "\n");
  for (const auto& arg : args)  // these open files of the machine
    if (arg.find('/') != std::string::npos || core::ends_with(arg, ".toml")) return;
  commands::parse_command(args);
}

void read_recipe(Bytes bytes) {
  const std::vector<std::string> args = {"train", "clip", "--model", "ViT-B-32", "--dataset-type", "synthetic"};
  auto command = commands::parse_flags(args);
  command.set->apply_recipe(text_of(bytes), "recipe.toml");
}

void add_files_below(const fs::path& folder, const std::function<bool(const std::string&)>& is_wanted,
                     std::vector<fs::path>& files) {
  std::error_code ignored;  // a folder that a target does not have
  for (const auto& entry : fs::recursive_directory_iterator(folder, ignored))
    if (entry.is_regular_file() && is_wanted(entry.path().string())) files.push_back(entry.path());
}

/// Answers of S3: whatever a server sends.
void read_s3_answer(Bytes bytes) {
  const std::string_view text = text_of(bytes);
  remote::parse_fault(text);
  for (const auto& parse : {std::function<void()>([&] { remote::parse_object_page(text); }),
                            std::function<void()>([&] { remote::parse_part_page(text); }),
                            std::function<void()>([&] { remote::parse_upload_page(text); })}) {
    try {
      parse();
    } catch (const DataError&) {
    }
  }
}

std::vector<Target> make_targets() {
  constexpr size_t kLong = 64 << 10;  // of formats that say little in a few bytes
  std::vector<Target> list = {
      {"tar", {".tar"}, read_tar, kLong},
      {"image", {"/image/"}, read_image, kLong},
      {"lmdb", {"/golden/lmdb/"}, read_lmdb, kLong},
      {"lmdb_value", {"/image/jpeg_1x1"}, read_lmdb_value},
      {"plain_pickle", {}, read_plain_pickle},
      {"shard_index", {}, read_shard_index},
      {"audio", {".wav", ".flac", ".ogg"}, read_audio, kLong},
      {"tokens", {}, read_tokens, kLong},
      {"safetensors", {"/clap/roberta.safetensors", "/optim/", "/loss/"}, read_safetensors, kLong},
      {"pickle", {"/pt/"}, read_pickle, kLong},
      {"json", {".json"}, read_json},
      {"run", {"/record/"}, read_run},
      {"caption", {}, read_caption},
      {"caption_text", {}, read_caption_text},
      {"json_lines", {}, read_json_lines},
      {"tokenizer", {"/bpe/gpt2.json", "/bpe/prefix.json"}, read_tokenizer, kLong},
      {"sentencepiece", {"/sentencepiece/small.model"}, read_sentencepiece, kLong},
      {"word_pieces", {"/word_pieces/vocab.txt"}, read_word_pieces},
      {"manifest", {}, read_manifest},
      {"csv", {"/published/", "steps.csv"}, read_csv},
      {"machine", {}, read_machine},
      {"scaling", {"/published/"}, read_scaling},
      {"bench_document", {}, read_bench_document},
      {"sweep", {"/recipes/sweeps/"}, read_sweep},
      {"sweep_state", {}, read_sweep_state},
      {"formula", {}, read_formula},
      {"arguments", {}, read_arguments},
      {"recipe", {"/recipes/clip_"}, read_recipe},
      {"s3_answer", {}, read_s3_answer},
  };
  for (const logs::LogFormatInfo& info : logs::kLogFormats) {
    if (info.reader == nullptr) continue;
    const bool is_csv = info.format == logs::LogFormat::kCsv;
    list.push_back({fmt::format("log_{}", info.name), {"/logs/"}, [format = info.format, is_csv](Bytes bytes) {
                      static const MemoryFolder folder;
                      logs::read_log(folder.write(is_csv ? "steps.csv" : "out.log", bytes), format);
                    }});
  }
  return list;
}

}  // namespace

const std::vector<Target>& targets() {
  static const std::vector<Target> list = make_targets();
  return list;
}

std::vector<fs::path> input_files(const Target& target, const fs::path& root) {
  std::vector<fs::path> files;
  const auto any = [](const std::string&) { return true; };
  const auto is_seed = [&](const std::string& path) {
    return std::any_of(target.seeds.begin(), target.seeds.end(),
                       [&](const std::string& text) { return path.find(text) != std::string::npos; });
  };
  add_files_below(root / "fuzz/seeds" / target.name, any, files);
  add_files_below(root / "fuzz/regressions" / target.name, any, files);
  add_files_below(root / "tests/golden", is_seed, files);
  add_files_below(root / "recipes", is_seed, files);
  std::sort(files.begin(), files.end());
  return files;
}

void run_target(const Target& target, Bytes bytes) {
  try {
    target.run(bytes);
  } catch (const Error& error) {
    if (error.code() == ExitCode::kInternal) throw;
  }
}

}  // namespace lockstep::fuzz
