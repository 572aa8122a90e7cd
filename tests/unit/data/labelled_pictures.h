#pragma once
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "data/pictures/image_codecs.h"
#include "data/train_stream.h"
#include "tar_bytes.h"

namespace lockstep::tests {

/// A small JPEG, another one for each `number`.
inline std::string small_jpeg(int number, int width = 24, int height = 18) {
  data::Image image{.width = width, .height = height, .rgb_YXC = {}};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < 3; ++c)
        image.rgb_YXC.push_back(static_cast<uint8_t>((number * 37 + x * 5 + y * 3 + c * 60) % 256));
  const std::vector<std::byte> bytes = data::encode_jpeg(image, 90);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Picture `i` of a small labelled set.
struct LabelledPicture {
  std::string class_name;
  int64_t label = 0;
  std::string bytes;
};

/// Pictures of three classes with 2, 4 and 5 of them, in torchvision's order.
inline std::vector<LabelledPicture> labelled_pictures() {
  const std::vector<std::pair<std::string, int>> classes = {{"Zebra", 2}, {"ant", 4}, {"bee", 5}};
  std::vector<LabelledPicture> pictures;
  for (size_t label = 0; label < classes.size(); ++label)
    for (int i = 0; i < classes[label].second; ++i)
      pictures.push_back({classes[label].first, static_cast<int64_t>(label),
                          small_jpeg(static_cast<int>(pictures.size()), 20 + i, 16 + static_cast<int>(label))});
  return pictures;
}

/// The same pictures as class folders in `root`.
inline std::string write_class_folders(const std::filesystem::path& root) {
  int number = 0;
  for (const LabelledPicture& picture : labelled_pictures()) {
    std::filesystem::create_directories(root / picture.class_name);
    write_file(root / picture.class_name / fmt::format("p{:02}.JPEG", number++), picture.bytes);
  }
  return root.string();
}

/// The same as shards of at most four samples KEY.jpg and KEY.cls; returns their brace list.
inline std::string write_labelled_shards(const std::filesystem::path& folder) {
  const auto pictures = labelled_pictures();
  int num_shards = 0;
  for (size_t first = 0; first < pictures.size(); first += 4, ++num_shards) {
    std::string bytes;
    for (size_t i = first; i < std::min(first + 4, pictures.size()); ++i)
      bytes += TarBytes::member(fmt::format("{:04}.jpg", i), pictures[i].bytes) +
               TarBytes::member(fmt::format("{:04}.cls", i), fmt::format("{}\n", pictures[i].label));
    write_file(folder / fmt::format("{:03}.tar", num_shards), bytes + TarBytes::end());
  }
  return fmt::format("{}/{{000..{:03}}}.tar", folder.string(), num_shards - 1);
}

/// The same as a table with columns filepath and label, beside its pictures.
inline std::string write_labelled_table(const std::filesystem::path& folder) {
  std::string text = "label\tfilepath\n";
  int number = 0;
  for (const LabelledPicture& picture : labelled_pictures()) {
    const std::string name = fmt::format("t{:02}.jpg", number++);
    write_file(folder / name, picture.bytes);
    text += fmt::format("{}\t{}\n", picture.label, name);
  }
  return write_file(folder / "labels.tsv", text);
}

/// A stream of labelled pictures without captions.
inline data::SourceConfig labelled_config(const std::string& spec) {
  data::SourceConfig config;
  config.spec = spec;
  config.need_text = false;
  config.need_label = true;
  config.num_classes = 3;
  config.global_batch = 6;
  config.seed = 11;
  return config;
}

/// Bytes of a picture -> its label.
inline std::map<std::string, int64_t> labels_by_bytes() {
  std::map<std::string, int64_t> labels;
  for (const LabelledPicture& picture : labelled_pictures()) labels[picture.bytes] = picture.label;
  return labels;
}

}  // namespace lockstep::tests
