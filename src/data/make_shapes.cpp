#include "data/make_shapes.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <fstream>
#include <mutex>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/files.h"
#include "core/rng.h"
#include "core/strings.h"
#include "data/image_codecs.h"
#include "data/make_shapes_scene.h"
#include "data/tar_writer.h"

namespace lockstep::data {
namespace {

constexpr int kJpegQuality = 90;
constexpr int kFormatVersion = 1;  // raise when the pictures or files change
constexpr std::string_view kMarker = "dataset.json";
constexpr std::string_view kTemplates = "a photo of a {}.\na picture of a {}.\nan image of a {}.\na {}.\n";

enum class Split : uint64_t { kTrain = 1, kVal = 2, kHeldout = 3 };

/// One unit of work: a shard, or a run of pictures of the held-out folders.
struct Piece {
  Split split = Split::kTrain;
  std::filesystem::path path;
  int64_t first = 0, count = 0;  // samples of the split
  uint64_t num_bytes = 0;        // written; filled by the worker
};

std::string class_folder(const std::string& name) { return core::replace_all(name, " ", "_"); }

/// Draws sample `index` of a split; the class order is a shuffled round robin, so every class has its share.
class SampleMaker {
 public:
  SampleMaker(const MakeShapesConfig& config, Split split, int64_t num_samples)
      : config_(config),
        split_(split),
        order_(static_cast<uint64_t>(num_samples), core::stream_key({config.seed, static_cast<uint64_t>(split), 0})) {}

  struct Sample {
    Scene scene;
    std::string key, caption;
    std::vector<std::byte> jpeg;
  };

  Sample make(int64_t index) {
    core::CounterRng rng(core::stream_key({config_.seed, static_cast<uint64_t>(split_), 1, static_cast<uint64_t>(index)}));
    const uint64_t label = order_(static_cast<uint64_t>(index)) % shape_class_names().size();
    Sample sample;
    sample.scene = draw_scene(static_cast<int>(label), rng);
    sample.key = fmt::format("{:09}", index);
    sample.caption = describe_scene(sample.scene, rng);
    render_scene(sample.scene, config_.image_pixels, image_);
    sample.jpeg = encode_jpeg(image_, kJpegQuality);
    return sample;
  }

 private:
  const MakeShapesConfig& config_;
  Split split_;
  core::Permutation order_;
  Image image_;
};

core::Json scene_json(const Scene& scene) {
  return {{"class", shape_class_names()[static_cast<size_t>(scene.label)]},
          {"label", scene.label},
          {"x", scene.centre_x},
          {"y", scene.centre_y},
          {"radius", scene.radius},
          {"background", background_name(scene.background)},
          {"background_colour", ground_colour_name(scene.ground_colour)}};
}

void write_shard(SampleMaker& maker, Piece& piece) {
  TarWriter tar(piece.path);
  for (int64_t i = piece.first; i < piece.first + piece.count; ++i) {
    const SampleMaker::Sample sample = maker.make(i);
    tar.add(sample.key + ".jpg", sample.jpeg);
    tar.add(sample.key + ".txt", sample.caption);
    tar.add(sample.key + ".cls", fmt::to_string(sample.scene.label));
    tar.add(sample.key + ".json", scene_json(sample.scene).dump());
  }
  piece.num_bytes = tar.finish();
}

void write_pictures(SampleMaker& maker, const Piece& piece) {
  for (int64_t i = piece.first; i < piece.first + piece.count; ++i) {
    const SampleMaker::Sample sample = maker.make(i);
    const auto path =
        piece.path / class_folder(shape_class_names()[static_cast<size_t>(sample.scene.label)]) / (sample.key + ".jpg");
    // Not AtomicFile: thousands of fsyncs would take longer than the drawing, and dataset.json tells whether all was written.
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(sample.jpeg.data()), static_cast<std::streamsize>(sample.jpeg.size()));
    file.close();
    if (!file) core::throw_errno("cannot write", path);
  }
}

void run_piece(const MakeShapesConfig& config, Piece& piece) {
  SampleMaker maker(config, piece.split, piece.split == Split::kTrain ? config.num_train : config.num_val);
  if (piece.split == Split::kHeldout) write_pictures(maker, piece);
  else write_shard(maker, piece);
}

/// Threads take piece after piece; the first error ends them all and is thrown here.
void run_pieces(const MakeShapesConfig& config, std::vector<Piece>& pieces) {
  std::atomic<size_t> next{0};
  std::exception_ptr error;
  std::mutex mutex;
  const auto work = [&] {
    try {
      for (size_t i = next++; i < pieces.size(); i = next++) run_piece(config, pieces[i]);
    } catch (...) {
      next = pieces.size();
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    const size_t num_threads = std::min(static_cast<size_t>(config.num_workers), pieces.size());
    for (size_t i = 0; i < num_threads; ++i) threads.emplace_back(work);
  }
  if (error) std::rethrow_exception(error);
}

std::vector<Piece> plan_pieces(const MakeShapesConfig& config) {
  std::vector<Piece> pieces;
  const auto add = [&](Split split, std::string_view prefix, int64_t num_samples) {
    for (int64_t first = 0; first < num_samples; first += config.samples_per_shard) {
      const auto path = split == Split::kHeldout
                            ? config.output / "heldout"
                            : config.output / fmt::format("{}-{:06}.tar", prefix, first / config.samples_per_shard);
      pieces.push_back({split, path, first, std::min(config.samples_per_shard, num_samples - first)});
    }
  };
  add(Split::kTrain, "train", config.num_train);
  add(Split::kVal, "val", config.num_val);
  add(Split::kHeldout, "", config.num_val);
  return pieces;
}

core::Json settings_json(const MakeShapesConfig& config) {
  return {{"kind", "shapes"},
          {"format_version", kFormatVersion},
          {"num_train", config.num_train},
          {"num_val", config.num_val},
          {"samples_per_shard", config.samples_per_shard},
          {"image_pixels", config.image_pixels},
          {"seed", config.seed}};
}

void check_settings(const MakeShapesConfig& config) {
  const auto check = [](std::string_view what, int64_t seen, int64_t low, int64_t high) {
    if (seen >= low && seen <= high) return;
    throw UsageError(fmt::format("data: make-shapes: {} is {}, expected {} to {}", what, seen, low, high));
  };
  const auto num_classes = static_cast<int64_t>(shape_class_names().size());
  if (config.output.empty()) throw UsageError("data: make-shapes: no output folder is given", "name one with --output FOLDER");
  check("the number of training samples", config.num_train, 1, 1'000'000'000);
  check("the number of held-out samples (at least one per class)", config.num_val, num_classes, 1'000'000'000);
  check("the number of samples per shard", config.samples_per_shard, 1, 10'000'000);
  check("the number of training shards", (config.num_train - 1) / config.samples_per_shard + 1, 1, 1'000'000);
  check("the number of held-out shards", (config.num_val - 1) / config.samples_per_shard + 1, 1, 1'000'000);
  check("the image size in pixels", config.image_pixels, 16, 4096);
  check("the number of threads", config.num_workers, 1, 1024);
}

/// True where the folder already holds exactly this data set. A broken-off one is removed; anything else is refused.
bool prepare_folder(const MakeShapesConfig& config) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directories(config.output, error);
  if (error) {
    errno = error.value();
    core::throw_errno("cannot make the folder", config.output);
  }
  if (fs::is_empty(config.output)) return false;
  const fs::path marker = config.output / kMarker;
  core::Json seen;
  if (fs::exists(marker)) seen = core::read_json_file(marker);
  const auto holds = [&](const char* key, const core::Json& value) {
    return seen.is_object() && seen.contains(key) && seen[key] == value;
  };
  if (!holds("kind", "shapes")) {
    throw UsageError(
        fmt::format("data: make-shapes: the folder '{}' is not empty and no data set of make-shapes", config.output.string()),
        "choose another --output");
  }
  const bool is_complete = holds("is_complete", true);
  seen.erase("is_complete");
  const core::Json wanted = settings_json(config);
  if (is_complete && seen == wanted) return true;
  if (is_complete) {
    throw UsageError(fmt::format("data: make-shapes: the folder '{}' holds a data set made with other settings: {}, expected {}",
                                 config.output.string(), seen.dump(), wanted.dump()),
                     "choose another --output, or delete the folder");
  }
  for (const auto& entry : fs::directory_iterator(config.output)) {
    const std::string name = entry.path().filename().string();
    if (name == "heldout" || core::starts_with(name, "train-") || core::starts_with(name, "val-")) fs::remove_all(entry.path());
  }
  return false;
}

void write_marker(const MakeShapesConfig& config, bool is_complete) {
  core::Json marker = settings_json(config);
  marker["is_complete"] = is_complete;
  core::write_file_atomic(config.output / kMarker, marker.dump(2) + "\n");
}

MakeShapesResult describe_result(const MakeShapesConfig& config, const std::vector<Piece>& pieces) {
  MakeShapesResult result{.num_classes = static_cast<int64_t>(shape_class_names().size()),
                          .num_train = config.num_train,
                          .num_val = config.num_val,
                          .num_heldout = config.num_val};
  for (const Piece& piece : pieces) {
    result.num_train_shards += piece.split == Split::kTrain;
    result.num_val_shards += piece.split == Split::kVal;
    if (piece.split != Split::kHeldout) result.num_bytes += static_cast<int64_t>(std::filesystem::file_size(piece.path));
  }
  const auto pattern = [&](std::string_view prefix, int64_t num_shards) {
    const std::string name =
        num_shards == 1 ? fmt::format("{}-000000.tar", prefix) : fmt::format("{}-{{000000..{:06}}}.tar", prefix, num_shards - 1);
    return (config.output / name).string();
  };
  result.train_shards = pattern("train", result.num_train_shards);
  result.val_shards = pattern("val", result.num_val_shards);
  result.heldout = config.output / "heldout";
  result.class_names = config.output / "classnames.txt";
  result.templates = config.output / "templates.txt";
  return result;
}

void write_side_files(const MakeShapesConfig& config, const std::vector<Piece>& pieces) {
  core::Json sizes = core::Json::object();
  for (const Piece& piece : pieces) {
    if (piece.split != Split::kHeldout) sizes[piece.path.filename().string()] = piece.count;
  }
  core::write_file_atomic(config.output / "sizes.json", sizes.dump(2) + "\n");
  core::write_file_atomic(config.output / "classnames.txt", core::join(shape_class_names(), "\n") + "\n");
  core::write_file_atomic(config.output / "templates.txt", kTemplates);
}

}  // namespace

core::Json to_json(const MakeShapesResult& result) {
  return {{"num_classes", result.num_classes},
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
}

MakeShapesResult make_shapes(const MakeShapesConfig& config) {
  check_settings(config);
  std::vector<Piece> pieces = plan_pieces(config);
  const bool was_there = prepare_folder(config);
  if (!was_there) {
    write_marker(config, false);
    for (const std::string& name : shape_class_names())
      std::filesystem::create_directories(config.output / "heldout" / class_folder(name));
    run_pieces(config, pieces);
    write_side_files(config, pieces);
    write_marker(config, true);
  }
  MakeShapesResult result = describe_result(config, pieces);
  result.was_there = was_there;
  return result;
}

}  // namespace lockstep::data
