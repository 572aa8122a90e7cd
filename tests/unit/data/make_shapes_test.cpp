#include "data/pictures/make_shapes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include "core/error.h"
#include "core/strings.h"
#include "data/pictures/image.h"
#include "data/pictures/make_shapes_scene.h"
#include "data/shards/tar_writer.h"
#include "unit/data/image_golden.h"
#include "unit/data/read_tree.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;
using tests::read_tree;

std::string_view field(const std::string& tar, size_t header, size_t offset, size_t size) {
  const std::string_view raw = std::string_view(tar).substr(header + offset, size);
  return raw.substr(0, raw.find('\0'));
}

uint64_t octal(std::string_view digits) {
  uint64_t value = 0;
  for (const char c : digits) {
    if (c >= '0' && c <= '7') value = value * 8 + static_cast<uint64_t>(c - '0');
  }
  return value;
}

/// The members of an archive, in order; checks each header sum and the end.
std::vector<std::pair<std::string, std::string>> read_tar(const fs::path& path) {
  const std::string tar = core::read_file(path);
  EXPECT_EQ(tar.size() % 10240, 0u);
  std::vector<std::pair<std::string, std::string>> members;
  size_t at = 0;
  while (at + 512 <= tar.size() && tar[at] != '\0') {
    uint64_t sum = 0;
    for (size_t i = 0; i < 512; ++i) sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(tar[at + i]);
    EXPECT_EQ(octal(field(tar, at, 148, 8)), sum);
    EXPECT_EQ(std::string_view(tar).substr(at + 257, 8), std::string_view("ustar\00000", 8));
    const std::string prefix(field(tar, at, 345, 155)), name(field(tar, at, 0, 100));
    const uint64_t size = octal(field(tar, at, 124, 12));
    members.emplace_back(prefix.empty() ? name : prefix + "/" + name, tar.substr(at + 512, size));
    at += 512 + (size + 511) / 512 * 512;
  }
  EXPECT_GE(tar.size(), at + 1024);
  EXPECT_EQ(tar.find_first_not_of('\0', at), std::string::npos);
  return members;
}

MakeShapesConfig small(const fs::path& output) {
  return {.set = {.output = output, .num_train = 130, .num_val = 56, .samples_per_shard = 50, .seed = 3},
          .image_pixels = 32};
}

TEST(MakeShapes, ClassFoldersHoldThePicturesOfTheShards) {
  const core::TempDir folder;
  MakeShapesConfig config = small(folder.path() / "set");
  config.set.has_class_folders = true;
  const DemoSetResult result = make_shapes(config);
  const auto names = core::split(core::trim(core::read_file(result.class_names)), "\n");
  for (const auto& [prefix, root] : {std::pair("train", result.train_folder), std::pair("val", result.val_folder)}) {
    std::map<std::string, std::string> shown, wanted;  // path below the folder -> bytes
    for (const auto& entry : fs::recursive_directory_iterator(root))
      if (entry.is_regular_file()) shown[fs::relative(entry.path(), root).string()] = core::read_file(entry.path());
    for (const auto& entry : fs::directory_iterator(config.set.output)) {
      const std::string name = entry.path().filename().string();
      if (!core::starts_with(name, std::string(prefix) + "-")) continue;
      std::map<std::string, std::string> members;
      for (const auto& [member, bytes] : read_tar(entry.path())) members[member] = bytes;
      for (const auto& [member, bytes] : members)
        if (core::ends_with(member, ".jpg")) {
          const size_t label = std::stoul(members.at(core::replace_all(member, ".jpg", ".cls")));
          wanted[core::replace_all(names.at(label), " ", "_") + "/" + member] = bytes;
        }
    }
    EXPECT_EQ(wanted.size(), prefix == std::string("train") ? 130u : 56u);
    EXPECT_EQ(shown, wanted) << prefix;
  }
  EXPECT_TRUE(make_shapes(config).was_there);
  config.set.has_class_folders = false;
  EXPECT_THROW(make_shapes(config), UsageError);  // another set
}

TEST(TarWriter, WritesWhatComesBack) {
  const core::TempDir dir;
  const std::string large(3'000'000, 'x'), long_name = std::string(120, 'd') + "/" + std::string(90, 'f');
  TarWriter tar(dir.path() / "a.tar");
  tar.add("empty", "");
  tar.add("512", std::string(512, 'y'));
  tar.add(long_name, "z");
  tar.add("large", large);
  EXPECT_FALSE(fs::exists(dir.path() / "a.tar"));
  const uint64_t num_bytes = tar.finish();
  EXPECT_EQ(num_bytes, fs::file_size(dir.path() / "a.tar"));
  const auto members = read_tar(dir.path() / "a.tar");
  ASSERT_EQ(members.size(), 4u);
  EXPECT_EQ(members[0], std::pair(std::string("empty"), std::string()));
  EXPECT_EQ(members[1].second.size(), 512u);
  EXPECT_EQ(members[2].first, long_name);
  EXPECT_TRUE(members[3].second == large);
}

TEST(TarWriter, EmptyArchiveIsOneRecord) {
  const core::TempDir dir;
  EXPECT_EQ(TarWriter(dir.path() / "a.tar").finish(), 10240u);
  EXPECT_TRUE(read_tar(dir.path() / "a.tar").empty());
}

TEST(TarWriter, RefusesNamesThatDoNotFit) {
  const core::TempDir dir;
  TarWriter tar(dir.path() / "a.tar");
  EXPECT_THROW(tar.add("", "x"), DataError);
  EXPECT_THROW(tar.add(std::string(101, 'a'), "x"), DataError);
  EXPECT_THROW(tar.add(std::string(160, 'a') + "/b", "x"), DataError);
  EXPECT_THROW(tar.add(std::string("a\0b", 3), "x"), DataError);
}

TEST(MakeShapes, WritesACompleteDataSet) {
  const core::TempDir dir;
  const fs::path out = dir.path() / "new" / "set";
  const DemoSetResult result = make_shapes(small(out));
  EXPECT_FALSE(result.was_there);
  EXPECT_EQ(result.num_classes, 28);
  EXPECT_EQ(result.num_train_shards, 3);
  EXPECT_EQ(result.num_val_shards, 2);
  EXPECT_EQ(result.train_shards, (out / "train-{000000..000002}.tar").string());
  const core::Json sizes = core::read_json_file(out / "sizes.json");
  EXPECT_EQ(sizes, (core::Json{{"train-000000.tar", 50},
                               {"train-000001.tar", 50},
                               {"train-000002.tar", 30},
                               {"val-000000.tar", 50},
                               {"val-000001.tar", 6}}));
  std::map<std::string, int> per_class;
  std::set<std::string> captions, keys;
  const std::vector<std::string>& names = shape_class_names();
  for (const auto& [shard, count] : sizes.items()) {
    const auto members = read_tar(out / shard);
    ASSERT_EQ(members.size(), 4 * count.get<size_t>());
    for (size_t i = 0; i < members.size(); i += 4) {
      const std::string key = members[i].first.substr(0, 9);
      EXPECT_TRUE(keys.insert(shard.substr(0, 3) + key).second);
      EXPECT_EQ(members[i].first, key + ".jpg");
      EXPECT_EQ(members[i + 1].first, key + ".txt");
      EXPECT_EQ(members[i + 2].first, key + ".cls");
      EXPECT_EQ(members[i + 3].first, key + ".json");
      const Image image = decode_image(std::as_bytes(std::span(members[i].second)), key);
      EXPECT_EQ(image.width, 32);
      EXPECT_EQ(image.height, 32);
      const core::Json meta = core::parse_json(members[i + 3].second, key);
      const std::string name = names.at(static_cast<size_t>(meta["label"].get<int>()));
      EXPECT_EQ(meta["class"], name);
      EXPECT_EQ(members[i + 2].second, std::to_string(meta["label"].get<int>()));
      EXPECT_NE(members[i + 1].second.find(name), std::string::npos) << members[i + 1].second;
      captions.insert(members[i + 1].second);
      per_class[name] += shard.starts_with("train");
    }
  }
  EXPECT_GT(captions.size(), 120u);
  for (const std::string& name : names) EXPECT_NEAR(per_class[name], 130.0 / 28, 1) << name;
}

TEST(MakeShapes, HeldOutFoldersMatchTheClassNames) {
  const core::TempDir dir;
  const DemoSetResult result = make_shapes(small(dir.path()));
  std::vector<std::string> folders;
  size_t num_pictures = 0;
  const auto train = read_tree(dir.path());
  std::set<std::string> contents;
  for (const auto& entry : fs::directory_iterator(result.heldout)) {
    folders.push_back(entry.path().filename().string());
    for (const auto& picture : fs::directory_iterator(entry.path())) {
      ++num_pictures;
      contents.insert(core::read_file(picture.path()));
    }
    EXPECT_EQ(std::distance(fs::directory_iterator(entry.path()), {}), 2) << entry.path();
  }
  EXPECT_EQ(num_pictures, 56u);
  EXPECT_EQ(contents.size(), 56u);  // all different
  std::sort(folders.begin(), folders.end());
  std::string expected;
  for (const std::string& folder : folders) expected += core::replace_all(folder, "_", " ") + "\n";
  EXPECT_EQ(core::read_file(result.class_names), expected);
  EXPECT_EQ(std::count(expected.begin(), expected.end(), '\n'), 28);
  for (const std::string& line : core::split(core::trim(core::read_file(result.templates)), "\n"))
    EXPECT_NE(line.find("{}"), std::string::npos);
}

TEST(MakeShapes, BytesDependOnTheSeedAndNotOnThreads) {
  const core::TempDir dir;
  MakeShapesConfig config = small(dir.path() / "one");
  config.set.num_workers = 1;
  make_shapes(config);
  config.set.output = dir.path() / "many";
  config.set.num_workers = 7;
  make_shapes(config);
  const auto one = read_tree(dir.path() / "one");
  EXPECT_EQ(one.size(), 5u + 56u + 4u);
  EXPECT_TRUE(one == read_tree(dir.path() / "many"));
  config.set.output = dir.path() / "other";
  config.set.seed = 4;
  make_shapes(config);
  const auto other = read_tree(dir.path() / "other");
  for (const char* shard : {"train-000000.tar", "val-000001.tar"})
    EXPECT_TRUE(one.at(shard) != other.at(shard)) << shard;
}

TEST(MakeShapes, KeepsACompleteSetAndRefusesAnotherOne) {
  const core::TempDir dir;
  MakeShapesConfig config = small(dir.path());
  make_shapes(config);
  const auto before = fs::last_write_time(dir.path() / "train-000000.tar");
  const DemoSetResult again = make_shapes(config);
  EXPECT_TRUE(again.was_there);
  EXPECT_EQ(again.num_train_shards, 3);
  EXPECT_EQ(fs::last_write_time(dir.path() / "train-000000.tar"), before);
  config.set.seed = 99;
  EXPECT_THROW(make_shapes(config), UsageError);
}

TEST(MakeShapes, BeginsABrokenOffSetAgain) {
  const core::TempDir dir;
  const MakeShapesConfig config = small(dir.path());
  make_shapes(config);
  const auto whole = read_tree(dir.path());
  core::Json marker = core::read_json_file(dir.path() / "dataset.json");
  marker["is_complete"] = false;
  core::write_file_atomic(dir.path() / "dataset.json", marker.dump());
  core::write_file_atomic(dir.path() / "train-000007.tar", "left over");
  fs::remove(dir.path() / "val-000000.tar");
  EXPECT_FALSE(make_shapes(config).was_there);
  EXPECT_TRUE(read_tree(dir.path()) == whole);
}

TEST(MakeShapes, TouchesNoForeignFolder) {
  const core::TempDir dir;
  core::write_file_atomic(dir.path() / "train-000000.tar", "somebody's data");
  EXPECT_THROW(make_shapes(small(dir.path())), UsageError);
  EXPECT_EQ(core::read_file(dir.path() / "train-000000.tar"), "somebody's data");
  core::write_file_atomic(dir.path() / "dataset.json", "[1]");
  EXPECT_THROW(make_shapes(small(dir.path())), UsageError);
  core::write_file_atomic(dir.path() / "dataset.json", "{\"kind\": 5}");
  EXPECT_THROW(make_shapes(small(dir.path())), UsageError);
  EXPECT_EQ(read_tree(dir.path()).size(), 2u);
}

TEST(MakeShapes, ReportsAFolderThatCannotBeMade) {
  const core::TempDir dir;
  core::write_file_atomic(dir.path() / "file", "x");
  EXPECT_THROW(make_shapes(small(dir.path() / "file" / "below")), EnvironmentError);
}

TEST(MakeShapes, RefusesSettingsOutOfRange) {
  const core::TempDir dir;
  const auto refused = [&](auto change) {
    MakeShapesConfig config = small(dir.path() / "x");
    change(config);
    EXPECT_THROW(make_shapes(config), UsageError);
    EXPECT_FALSE(fs::exists(dir.path() / "x"));
  };
  refused([](MakeShapesConfig& c) { c.set.output = ""; });
  refused([](MakeShapesConfig& c) { c.set.num_train = 0; });
  refused([](MakeShapesConfig& c) { c.set.num_val = 27; });
  refused([](MakeShapesConfig& c) { c.set.samples_per_shard = 0; });
  refused([](MakeShapesConfig& c) { c.image_pixels = 8; });
  refused([](MakeShapesConfig& c) { c.set.num_workers = 0; });
  refused([](MakeShapesConfig& c) { c.set.num_train = 5'000'000, c.set.samples_per_shard = 1; });
}

TEST(MakeShapes, PicturesShowTheirClass) {
  // The middle of a filled shape has its colour, whatever the background; outside it the background stays.
  Image image;
  for (int label = 0; label < 28; ++label) {
    core::CounterRng rng(core::stream_key({8, static_cast<uint64_t>(label)}));
    for (int i = 0; i < 20; ++i) {
      const Scene scene = draw_scene(label, rng);
      render_scene(scene, 64, image);
      const auto pixel = [&](float x, float y) {
        return image.rgb_YXC.data() + (static_cast<size_t>(std::clamp(y, 0.0f, 63.0f)) * 64 +
                                       static_cast<size_t>(std::clamp(x, 0.0f, 63.0f))) *
                                          3;
      };
      const uint8_t* centre = pixel(scene.centre_x * 64, scene.centre_y * 64);
      bool has_colour = true;
      for (size_t c = 0; c < 3; ++c)
        has_colour =
            has_colour && std::abs(static_cast<float>(centre[c]) - std::clamp(scene.colour[c], 0.0f, 255.0f)) < 2;
      EXPECT_EQ(has_colour, scene.shape != Shape::kRing) << shape_class_names()[static_cast<size_t>(label)];
    }
  }
}

}  // namespace
}  // namespace lockstep::data
