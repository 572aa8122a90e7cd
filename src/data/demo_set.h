#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "data/shards/sample.h"

namespace lockstep::data {

enum class DemoSplit : uint64_t { kTrain = 1, kVal = 2, kHeldout = 3 };

/// One sample of a demo set. Its first member is the picture or recording; class folders of the held-out split hold
/// only that.
struct DemoSample {
  int64_t label = 0;
  std::vector<Member> members;  ///< Of the shards.
};

/// Makes the sample of a split with a given number, as a function of the settings alone. Each thread has one of its
/// own.
using DemoSampleMaker = std::function<DemoSample(DemoSplit split, int64_t index)>;

/// What every kind of demo set is asked for.
struct DemoSetOptions {
  std::filesystem::path output = {};  ///< Folder; made when missing.
  int64_t num_train = 0,
          num_val = 0;  ///< Samples in train-*.tar and in val-*.tar, and again num_val others in heldout/.
  int64_t samples_per_shard = 1000;
  bool has_class_folders = false;  ///< The samples of the shards also in train/<class>/ and val/<class>/.
  uint64_t seed = 0;
  int num_workers = 2;  ///< Threads; the files do not depend on it.
};

/// A generated data set with captions and classes.
struct DemoSet {
  std::string kind;        ///< "shapes": names the command make-<kind> and marks the folder.
  int format_version = 1;  ///< Raise when the samples or files change.
  DemoSetOptions options = {};
  core::Json settings = core::Json::object();  ///< What else the samples depend on.
  std::vector<std::string> class_names = {};
  std::string templates = {};  ///< Content of templates.txt.
  std::function<DemoSampleMaker()> open_maker = {};
  std::function<void()> write_more = {};  ///< Writes further files to `output` at the end; may be empty.
};

/// What lies in the folder afterwards.
struct DemoSetResult {
  int64_t num_classes = 0;
  int64_t num_train = 0, num_val = 0, num_heldout = 0;  ///< Samples.
  int64_t num_train_shards = 0, num_val_shards = 0;
  int64_t num_bytes = 0;   ///< Of all shards.
  bool was_there = false;  ///< Found complete from an earlier call with the same settings; nothing was written.
  std::string train_shards = {},
              val_shards = {};  ///< Paths with {first..last}, as --train-data and --val-data take them.
  std::filesystem::path heldout = {}, class_names = {}, templates = {};
  std::filesystem::path train_folder = {}, val_folder = {};  ///< Of class folders; empty: not asked for.
};

core::Json to_json(const DemoSetResult& result);

/// Order in which the classes of a split follow each other: a shuffled round robin, so every class has its share.
class DemoClassOrder {
 public:
  DemoClassOrder(const DemoSet& set, size_t num_classes);
  int64_t label(DemoSplit split, int64_t index) const;

 private:
  uint64_t seed_;
  uint64_t num_classes_;
  int64_t num_train_, num_val_;
};

/// The key of all random choices of one sample.
uint64_t demo_sample_key(const DemoSet& set, DemoSplit split, int64_t index);

/// UsageError that names the setting ("data: make-<kind>: <what> is <seen>, expected ...") unless low <= seen <= high.
void check_demo_setting(const DemoSet& set, std::string_view what, int64_t seen, int64_t low, int64_t high);

/// Writes train-NNNNNN.tar and val-NNNNNN.tar (WebDataset), sizes.json (samples of each shard),
/// heldout/<class>/KEY.<extension> (and so train/ and val/ where class folders are wanted), classnames.txt,
/// templates.txt, and dataset.json, which tells a finished data set from a broken-off one. Every byte is a function of
/// the settings without num_workers. Settings out of range, and a folder that holds anything else, throw UsageError; a
/// broken-off earlier call with the same folder is cleaned up and begun again.
DemoSetResult make_demo_set(const DemoSet& set);

}  // namespace lockstep::data
