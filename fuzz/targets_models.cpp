// Parsers of what describes models and holds their weights; with LibTorch also of .pt files.
#include <string_view>

#include "config/clap_shape.h"
#include "config/clip_shape.h"
#include "config/gpt_shape.h"
#include "config/pretrained_weights.h"
#include "core/error.h"
#include "core/json.h"
#include "fuzz/memory_folder.h"
#include "fuzz/targets.h"
#include "infer/npy_header.h"
#include "models/pickle.h"
#include "train/parts_index.h"

namespace lockstep::fuzz {
namespace {

void read_pickle(Bytes bytes) { models::PickleDocument(bytes, "fuzz.pkl"); }

void read_hub_config(Bytes bytes) {
  static const MemoryFolder folder;
  folder.write("open_clip_config.json", bytes);
  const std::string model = "local-dir:" + folder.path().string();
  config::preparation_of_weights(model, model);
  config::read_hub_config(model);
}

void read_clip_config(Bytes bytes) { config::parse_clip_shape(text_of(bytes), "model.json"); }

void read_clap_config(Bytes bytes) { config::parse_clap_shape(text_of(bytes), "model.json"); }

void read_gpt_config(Bytes bytes) { config::parse_gpt_shape(text_of(bytes), "config.json"); }

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

void read_npy(Bytes bytes) {
  const infer::NpyHeader header = infer::parse_npy_header(text_of(bytes), "rows.npy");
  const auto room = (bytes.size() - header.begin) / (header.is_wide ? 4 : 2);
  LOCKSTEP_CHECK(
      header.begin <= bytes.size() && header.rows <= std::ssize(bytes) && header.width >= 1 &&
          (header.rows == 0 || static_cast<uint64_t>(header.width) <= room / static_cast<uint64_t>(header.rows)),
      "{} x {}", header.rows, header.width);
}

}  // namespace

std::vector<Target> targets_of_models() {
  std::vector<Target> list = {{"pickle", {"/pt/"}, read_pickle, kLongInput},
                              {"hub_config", {}, read_hub_config},
                              {"clip_config", {}, read_clip_config},
                              {"clap_config", {}, read_clap_config},
                              {"gpt_config", {}, read_gpt_config},
                              {"parts_index", {}, read_parts_index},
                              {"npy", {}, read_npy}};
  add_targets_of_torch(list);
  return list;
}

}  // namespace lockstep::fuzz
