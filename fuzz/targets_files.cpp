// Parsers of the files beside the data: lists of samples and shards, vocabularies, configurations of models, claims,
// indices, arrays, accounts.
#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/manifest.h"
#include "checkpoint/ranking.h"
#include "config/clap_shape.h"
#include "config/clip_shape.h"
#include "config/gpt_shape.h"
#include "config/pretrained_weights.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/json.h"
#include "data/shards/csv_table.h"
#include "data/shards/epoch_size.h"
#include "data/shards/shard_list.h"
#include "data/text/bpe_model.h"
#include "data/text/tokenizer_vocabulary.h"
#include "data/tokens/array_cache.h"
#include "doctor/meeting.h"
#include "fuzz/memory_folder.h"
#include "fuzz/targets.h"
#include "infer/npy_header.h"
#include "record/meta.h"
#include "remote/account.h"
#include "remote/sync_state.h"
#include "train/parts_index.h"

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

void read_hub_config(Bytes bytes) {
  static const MemoryFolder folder;
  folder.write("open_clip_config.json", bytes);
  const std::string model = "local-dir:" + folder.path().string();
  config::preparation_of_weights(model, model);
  config::read_hub_config(model);
}

void read_ranking(Bytes bytes) {
  const checkpoint::Ranking ranking =
      checkpoint::ranking_from_json(core::parse_json(text_of(bytes), "best.json"), "best.json");
  std::vector<std::string> names;
  for (const auto& entry : ranking.entries) names.push_back(entry.name);
  ranking.best_of(names);
}

/// Whatever a rank of a doctor may say to rank 0, which passes over these two kinds of errors.
void read_doctor_report(Bytes bytes) {
  try {
    const auto report = doctor::rank_report_from_json(core::parse_json(text_of(bytes), "report"));
    doctor::rank_report_from_json(doctor::to_json(report));
  } catch (const core::Json::exception&) {
  }
}

void read_meta(Bytes bytes) {
  static const MemoryFolder folder;
  record::RunData run;
  record::apply_meta(run, {.file = folder.write("meta.toml", bytes)});
}

void read_aws_profiles(Bytes bytes) {
  static const MemoryFolder folder;
  const std::string config = folder.write("config", bytes).string();
  remote::find_account(
      [&](const char* name) {
        const std::string_view wanted = name;
        return wanted == "AWS_CONFIG_FILE" || wanted == "AWS_SHARED_CREDENTIALS_FILE" ? std::optional(config)
                                                                                      : std::nullopt;
      },
      folder.path());
}

/// The shards of --train-data, and behind the first line's end their factors.
void read_shard_list(Bytes bytes) {
  const std::string_view text = text_of(bytes);
  const size_t end = std::min(text.find('\n'), text.size());
  const data::ExpandLimits limits{.max_count = 10'000, .max_bytes = 1 << 20};  // the usual ones take a second
  for (const data::ShardSource& source :
       data::parse_shard_sources(text.substr(0, end), text.substr(std::min(end + 1, text.size())), limits))
    LOCKSTEP_CHECK(source.shards.size() <= limits.max_count && source.factor > 0, "{} shards, factor {}",
                   source.shards.size(), source.factor);
}

/// Who claimed a run's checkpoints, and which were usable then: it voids others.
void read_claim(Bytes bytes) {
  static const MemoryFolder folder;
  static const bool is_made = [] {
    const fs::path of_step = folder.path() / "checkpoints/step-00000010.a1";
    folder.write("checkpoints/step-00000010.a1/model.safetensors", std::as_bytes(std::span("weights")));
    checkpoint::write_manifest(
        of_step, {.step = 10, .attempt = 1, .files = {checkpoint::describe_file(of_step, "model.safetensors")}});
    return true;
  }();
  folder.write("checkpoints/owner.2", bytes);
  const auto entries = checkpoint::list_checkpoints(folder.path());
  LOCKSTEP_CHECK(is_made && entries.size() == 1, "{} checkpoints", entries.size());
  const bool is_free = entries[0].state == checkpoint::CheckpointState::kUsable;
  LOCKSTEP_CHECK(is_free || entries[0].state == checkpoint::CheckpointState::kSuperseded, "{}", entries[0].problem);
  checkpoint::who_claimed(folder.path(), 2);
}

void read_clip_config(Bytes bytes) { config::parse_clip_shape(text_of(bytes), "model.json"); }

void read_clap_config(Bytes bytes) { config::parse_clap_shape(text_of(bytes), "model.json"); }

void read_gpt_config(Bytes bytes) { config::parse_gpt_shape(text_of(bytes), "config.json"); }

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

/// What a manifest says of its files, and what a rank says of its own.
void read_parts_index(Bytes bytes) {
  const core::Json json = core::parse_json(text_of(bytes), "parts");
  const train::FileParts wanted{
      {"table", {.sizes = {4, 3}, .strides = {3, 1}, .count = 12, .place = {.whole = {8, 3}, .dim = 0, .begin = 4}}},
      {"step", {.sizes = {}, .strides = {}, .count = 1, .place = {.whole = {}}}}};
  const auto index = train::PartsIndex::of_manifest({{"parts", json}});
  const std::vector<std::string> files = {"a", "b", "c"};
  index.names_in(index.files_with(wanted, files));
  core::Json again;
  index.add_to_manifest(again);
}

/// What an earlier process noted of the copy of a run.
void read_sync_state(Bytes bytes) {
  core::parse_json(text_of(bytes), "remote_sync.json");  // else a warning is all that comes of it
  static const MemoryFolder folder;
  folder.write(remote::kSyncStateName, bytes);
  const remote::RunFile file{.name = "checkpoints/step-00000010.a1/model.safetensors", .bytes = 10, .mtime_ns = 5};
  remote::SyncState state(folder.path(), "there");
  state.has_arrived(file);
  const core::Json parts = state.unfinished(file);
  LOCKSTEP_CHECK(parts.is_object(), "{}", parts.dump());
  state.note_unfinished(file, parts);
  state.save();
  remote::SyncState again(folder.path(), "there");
  LOCKSTEP_CHECK(again.unfinished(file) == parts && again.begun_checkpoints() == state.begun_checkpoints(),
                 "it is read as another one");
  state.note_arrived(file);
  LOCKSTEP_CHECK(state.has_arrived(file) && state.unfinished(file).empty(), "it has not arrived");
  for (const std::string& begun : state.begun_checkpoints()) state.forget(begun);
  LOCKSTEP_CHECK(state.begun_checkpoints().empty(), "something is not forgotten");
  state.keep_only({});
  LOCKSTEP_CHECK(state.is_empty(), "something is kept");
}

void read_npy(Bytes bytes) {
  const infer::NpyHeader header = infer::parse_npy_header(text_of(bytes), "rows.npy");
  const auto room = (bytes.size() - header.begin) / (header.is_wide ? 4 : 2);
  LOCKSTEP_CHECK(
      header.begin <= bytes.size() && header.rows <= std::ssize(bytes) && header.width >= 1 &&
          (header.rows == 0 || static_cast<uint64_t>(header.width) <= room / static_cast<uint64_t>(header.rows)),
      "{} x {}", header.rows, header.width);
}

}  // namespace

void add_targets_of_files(std::vector<Target>& list) {
  list.insert(list.end(), {{"samples_csv", {}, read_samples_csv},
                           {"bpe_files", {}, read_bpe_files},
                           {"clip_vocab", {}, read_clip_vocab},
                           {"hub_config", {}, read_hub_config},
                           {"ranking", {}, read_ranking},
                           {"doctor_report", {}, read_doctor_report},
                           {"meta", {}, read_meta},
                           {"aws_profiles", {}, read_aws_profiles},
                           {"shard_list", {}, read_shard_list},
                           {"claim", {}, read_claim},
                           {"clip_config", {}, read_clip_config},
                           {"clap_config", {}, read_clap_config},
                           {"gpt_config", {}, read_gpt_config},
                           {"epoch_size", {}, read_epoch_size},
                           {"array_file", {}, read_array_file},
                           {"parts_index", {}, read_parts_index},
                           {"sync_state", {}, read_sync_state},
                           {"npy", {}, read_npy}});
}

}  // namespace lockstep::fuzz
