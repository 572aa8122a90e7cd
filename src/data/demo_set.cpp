#include "data/demo_set.h"

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "core/error.h"
#include "core/files.h"
#include "core/rng.h"
#include "core/strings.h"
#include "data/parallel_for.h"
#include "data/shards/tar_writer.h"

namespace lockstep::data {
namespace {

constexpr std::string_view kMarker = "dataset.json";

/// One unit of work: a shard, or a run of samples for class folders.
struct Piece {
  DemoSplit split = DemoSplit::kTrain;
  std::filesystem::path path;
  int64_t first = 0, count = 0;  // samples of the split
  bool is_shard = true;
};

std::string class_folder(const std::string& name) { return core::replace_all(name, " ", "_"); }

std::string key_of(int64_t index) { return fmt::format("{:09}", index); }

void write_shard(const DemoSampleMaker& make, const Piece& piece) {
  TarWriter tar(piece.path);
  for (int64_t i = piece.first; i < piece.first + piece.count; ++i)
    for (const Member& member : make(piece.split, i).members) tar.add(key_of(i) + "." + member.extension, member.bytes);
  tar.finish();
}

void write_to_class_folders(const DemoSet& set, const DemoSampleMaker& make, const Piece& piece) {
  for (int64_t i = piece.first; i < piece.first + piece.count; ++i) {
    const DemoSample sample = make(piece.split, i);
    const Member& media = sample.members.front();
    const auto path = piece.path / class_folder(set.class_names[static_cast<size_t>(sample.label)]) /
                      (key_of(i) + "." + media.extension);
    // Not AtomicFile: thousands of fsyncs would take longer than the drawing, and dataset.json tells whether all was
    // written.
    std::ofstream file(path, std::ios::binary);
    file.write(media.bytes.data(), static_cast<std::streamsize>(media.bytes.size()));
    file.close();
    if (!file) core::throw_errno("cannot write", path);
  }
}

void run_pieces(const DemoSet& set, const std::vector<Piece>& pieces) {
  std::vector<DemoSampleMaker> makers(static_cast<size_t>(set.options.num_workers));
  for_each_parallel(pieces.size(), set.options.num_workers, [&](size_t i, size_t worker) {
    DemoSampleMaker& make = makers[worker];
    if (!make) make = set.open_maker();
    if (pieces[i].is_shard)
      write_shard(make, pieces[i]);
    else
      write_to_class_folders(set, make, pieces[i]);
  });
}

/// "num_val = 140, now 1500; ...": what `seen` and `wanted` do not have alike.
std::string settings_that_differ(const core::Json& seen, const core::Json& wanted) {
  std::vector<std::string> differing;
  core::Json all = seen;
  all.update(wanted);
  for (const auto& [name, unused] : all.items()) {
    const core::Json before = seen.value(name, core::Json()), now = wanted.value(name, core::Json());
    if (before != now) differing.push_back(fmt::format("{} = {}, now {}", name, before.dump(), now.dump()));
  }
  return core::join(differing, "; ");
}

std::vector<Piece> plan_pieces(const DemoSet& set) {
  std::vector<Piece> pieces;
  const int64_t together = set.options.samples_per_shard;
  const auto add = [&](DemoSplit split, std::string_view name, int64_t num_samples, bool is_shard) {
    for (int64_t first = 0; first < num_samples; first += together)
      pieces.push_back({.split = split,
                        .path = set.options.output /
                                (is_shard ? fmt::format("{}-{:06}.tar", name, first / together) : std::string(name)),
                        .first = first,
                        .count = std::min(together, num_samples - first),
                        .is_shard = is_shard});
  };
  add(DemoSplit::kTrain, "train", set.options.num_train, true);
  add(DemoSplit::kVal, "val", set.options.num_val, true);
  add(DemoSplit::kHeldout, "heldout", set.options.num_val, false);
  if (!set.options.has_class_folders) return pieces;
  add(DemoSplit::kTrain, "train", set.options.num_train, false);
  add(DemoSplit::kVal, "val", set.options.num_val, false);
  return pieces;
}

core::Json settings_json(const DemoSet& set) {
  core::Json json{{"kind", set.kind},
                  {"format_version", set.format_version},
                  {"num_train", set.options.num_train},
                  {"num_val", set.options.num_val},
                  {"samples_per_shard", set.options.samples_per_shard}};
  if (set.options.has_class_folders) json["has_class_folders"] = true;
  json.update(set.settings);
  json["seed"] = set.options.seed;
  return json;
}

void check_settings(const DemoSet& set) {
  const auto check = [&](std::string_view what, int64_t seen, int64_t low, int64_t high) {
    check_demo_setting(set, what, seen, low, high);
  };
  if (set.options.output.empty())
    throw UsageError(fmt::format("data: make-{}: no output folder is given", set.kind), "name one");
  const auto num_classes = static_cast<int64_t>(set.class_names.size());
  check("the number of training samples", set.options.num_train, set.options.has_class_folders ? num_classes : 1,
        1'000'000'000);
  check("the number of held-out samples (at least one per class)", set.options.num_val, num_classes, 1'000'000'000);
  check("the number of samples per shard", set.options.samples_per_shard, 1, 10'000'000);
  check("the number of training shards", (set.options.num_train - 1) / set.options.samples_per_shard + 1, 1, 1'000'000);
  check("the number of held-out shards", (set.options.num_val - 1) / set.options.samples_per_shard + 1, 1, 1'000'000);
  check("the number of threads", set.options.num_workers, 1, 1024);
}

/// True where the folder already holds exactly this data set. A broken-off one is removed; anything else is refused.
bool prepare_folder(const DemoSet& set) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directories(set.options.output, error);
  if (error) {
    errno = error.value();
    core::throw_errno("cannot make the folder", set.options.output);
  }
  if (fs::is_empty(set.options.output)) return false;
  const fs::path marker = set.options.output / kMarker;
  core::Json seen;
  if (fs::exists(marker)) seen = core::read_json_file(marker);
  const auto holds = [&](const char* key, const core::Json& value) {
    return seen.is_object() && seen.contains(key) && seen[key] == value;
  };
  if (!holds("kind", set.kind)) {
    throw UsageError(fmt::format("data: make-{0}: the folder '{1}' is not empty and no data set of make-{0}", set.kind,
                                 set.options.output.string()),
                     "choose another folder");
  }
  const bool is_complete = holds("is_complete", true);
  seen.erase("is_complete");
  const core::Json wanted = settings_json(set);
  if (is_complete && seen == wanted) return true;
  if (is_complete) {
    throw UsageError(fmt::format("data: make-{}: the folder '{}' holds a data set made with other settings: {}",
                                 set.kind, set.options.output.string(), settings_that_differ(seen, wanted)),
                     "choose another one, or delete it");
  }
  for (const auto& entry : fs::directory_iterator(set.options.output)) {
    const std::string name = entry.path().filename().string();
    if (name == "heldout" || name == "train" || name == "val" || core::starts_with(name, "train-") ||
        core::starts_with(name, "val-"))
      fs::remove_all(entry.path());
  }
  return false;
}

void write_marker(const DemoSet& set, bool is_complete) {
  core::Json marker = settings_json(set);
  marker["is_complete"] = is_complete;
  core::write_file_atomic(set.options.output / kMarker, marker.dump(2) + "\n");
}

DemoSetResult describe_result(const DemoSet& set, const std::vector<Piece>& pieces) {
  DemoSetResult result{.num_classes = static_cast<int64_t>(set.class_names.size()),
                       .num_train = set.options.num_train,
                       .num_val = set.options.num_val,
                       .num_heldout = set.options.num_val};
  for (const Piece& piece : pieces) {
    result.num_train_shards += piece.is_shard && piece.split == DemoSplit::kTrain;
    result.num_val_shards += piece.is_shard && piece.split == DemoSplit::kVal;
    if (piece.is_shard) result.num_bytes += static_cast<int64_t>(std::filesystem::file_size(piece.path));
  }
  const auto pattern = [&](std::string_view prefix, int64_t num_shards) {
    const std::string name = num_shards == 1 ? fmt::format("{}-000000.tar", prefix)
                                             : fmt::format("{}-{{000000..{:06}}}.tar", prefix, num_shards - 1);
    return (set.options.output / name).string();
  };
  result.train_shards = pattern("train", result.num_train_shards);
  result.val_shards = pattern("val", result.num_val_shards);
  result.heldout = set.options.output / "heldout";
  result.class_names = set.options.output / "classnames.txt";
  result.templates = set.options.output / "templates.txt";
  if (set.options.has_class_folders) {
    result.train_folder = set.options.output / "train";
    result.val_folder = set.options.output / "val";
  }
  return result;
}

void write_side_files(const DemoSet& set, const std::vector<Piece>& pieces) {
  core::Json sizes = core::Json::object();
  for (const Piece& piece : pieces) {
    if (piece.is_shard) sizes[piece.path.filename().string()] = piece.count;
  }
  core::write_file_atomic(set.options.output / "sizes.json", sizes.dump(2) + "\n");
  core::write_file_atomic(set.options.output / "classnames.txt", core::join(set.class_names, "\n") + "\n");
  core::write_file_atomic(set.options.output / "templates.txt", set.templates);
}

}  // namespace

core::Json to_json(const DemoSetResult& result) {
  core::Json json{{"num_classes", result.num_classes},
                  {"num_train", result.num_train},
                  {"num_val", result.num_val},
                  {"num_heldout", result.num_heldout},
                  {"num_train_shards", result.num_train_shards},
                  {"num_val_shards", result.num_val_shards},
                  {"num_bytes", result.num_bytes},
                  {"was_there", result.was_there},
                  {"train_shards", result.train_shards},
                  {"val_shards", result.val_shards},
                  {"heldout", result.heldout.string()},
                  {"class_names", result.class_names.string()},
                  {"templates", result.templates.string()}};
  if (!result.train_folder.empty()) {
    json["train_folder"] = result.train_folder.string();
    json["val_folder"] = result.val_folder.string();
  }
  return json;
}

DemoClassOrder::DemoClassOrder(const DemoSet& set, size_t num_classes)
    : seed_(set.options.seed), num_classes_(num_classes), num_train_(set.options.num_train),
      num_val_(set.options.num_val) {}

int64_t DemoClassOrder::label(DemoSplit split, int64_t index) const {
  const auto num_samples = static_cast<uint64_t>(split == DemoSplit::kTrain ? num_train_ : num_val_);
  const core::Permutation order(num_samples, core::stream_key({seed_, static_cast<uint64_t>(split), 0}));
  return static_cast<int64_t>(order(static_cast<uint64_t>(index)) % num_classes_);
}

uint64_t demo_sample_key(const DemoSet& set, DemoSplit split, int64_t index) {
  return core::stream_key({set.options.seed, static_cast<uint64_t>(split), 1, static_cast<uint64_t>(index)});
}

void check_demo_setting(const DemoSet& set, std::string_view what, int64_t seen, int64_t low, int64_t high) {
  if (seen >= low && seen <= high) return;
  throw UsageError(fmt::format("data: make-{}: {} is {}, expected {} to {}", set.kind, what, seen, low, high));
}

DemoSetResult make_demo_set(const DemoSet& set) {
  check_settings(set);
  const std::vector<Piece> pieces = plan_pieces(set);
  const bool was_there = prepare_folder(set);
  if (!was_there) {
    write_marker(set, false);
    for (const Piece& piece : pieces)
      for (const std::string& name : set.class_names)
        if (!piece.is_shard && piece.first == 0) std::filesystem::create_directories(piece.path / class_folder(name));
    run_pieces(set, pieces);
    write_side_files(set, pieces);
    if (set.write_more) set.write_more();
    write_marker(set, true);
  }
  DemoSetResult result = describe_result(set, pieces);
  result.was_there = was_there;
  return result;
}

}  // namespace lockstep::data
