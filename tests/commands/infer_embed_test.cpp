// `infer embed --shards` and `infer retrieve` on real shards.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "commands/train_fixture.h"
#include "core/safetensors.h"
#include "core/strings.h"

namespace lockstep::tests {
namespace {

using namespace std::chrono_literals;

class InferEmbed : public TrainFixture {
 protected:
  void SetUp() override {
    TrainFixture::SetUp();
    const auto run = train("weights", {"--max-steps", "1", "--epochs", "1"});
    ASSERT_EQ(run.exit_code, 0) << run.err;
    const auto made = run_lockstep({"data", "make-shapes", (logs_.path() / "small").string(), "--samples", "60",
                                    "--val-samples", "28", "--samples-per-shard", "6", "--image-size", "32"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }

  std::vector<std::string> args(const std::string& output, std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {"infer",        "embed",
                                      "--shards",     (logs_.path() / "small/train-{000000..000009}.tar").string(),
                                      "--pretrained", (logs_.path() / "weights").string(),
                                      "--output",     (logs_.path() / output).string(),
                                      "--batch-size", "4",
                                      "--workers",    "1",
                                      "--threads",    "1",
                                      "--device",     "cpu"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  /// The same of other shards of the folder.
  std::vector<std::string> args_of(const std::string& shards, const std::string& output,
                                   std::vector<std::string> more = {}) const {
    auto words = args(output, std::move(more));
    words[3] = shards;
    return words;
  }
  std::string small(const std::string& name) const { return (logs_.path() / "small" / name).string(); }

  /// Content of all files by name.
  std::map<std::string, std::string> content(const std::string& output) const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(logs_.path() / output))
      files[entry.path().filename().string()] = core::read_file(entry.path());
    return files;
  }
};

TEST_F(InferEmbed, KilledFiveTimesItWritesWhatAnUndisturbedStartWrites) {
  const auto whole = run_lockstep(args("whole"), {}, 120s);
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  const auto expected = content("whole");
  ASSERT_EQ(expected.size(), 11u) << "ten shards and embed.json";
  std::mt19937 random(20);
  int num_killed = 0;
  for (int kill = 0; kill < 5; ++kill) {
    const auto start = std::chrono::milliseconds(300 + random() % 1500);
    num_killed += run_lockstep(args("killed"), {}, start).timed_out;
  }
  EXPECT_GE(num_killed, 1);
  const auto last = run_lockstep(args("killed"), {}, 120s);
  ASSERT_EQ(last.exit_code, 0) << last.err;
  auto got = content("killed");
  std::erase_if(got, [](const auto& file) { return file.first.find(".tmp") != std::string::npos; });
  EXPECT_TRUE(got == expected) << got.size() << " files";
  const auto again = run_lockstep(args("killed"), {}, 120s);
  EXPECT_NE(again.err.find("10 of them there already"), std::string::npos) << again.err;
}

TEST_F(InferEmbed, RanksShareTheShardsAndWriteTheSame) {
  ASSERT_EQ(run_lockstep(args("one"), {}, 120s).exit_code, 0);
  auto words = args("three");
  words.insert(words.begin(), {"launch", "--nproc-per-node", "3", "--"});
  const auto shared = run_lockstep(words, {}, 180s);
  ASSERT_EQ(shared.exit_code, 0) << shared.err;
  EXPECT_TRUE(content("one") == content("three"));
}

TEST_F(InferEmbed, ABadPictureAndALostShardHarmNoOthers) {
  ASSERT_EQ(run_lockstep(args("good"), {}, 120s).exit_code, 0);
  const fs::path shard = logs_.path() / "small/train-000003.tar", lost = logs_.path() / "small/train-000007.tar";
  std::string bytes = core::read_file(shard);
  const size_t picture = bytes.find("\xff\xd8\xff");
  ASSERT_NE(picture, std::string::npos);
  bytes.replace(picture, 3, "no!");
  core::write_file_atomic(shard, bytes);
  fs::remove(lost);
  const auto result = run_lockstep(args("bad"), {}, 120s);
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_NE(result.err.find("1 of 10 shards could not be read, the first is '" + lost.string()), std::string::npos)
      << result.err;
  auto good = content("good"), bad = content("bad");
  EXPECT_EQ(bad.size(), good.size() - 1);
  size_t num_equal = 0;
  for (const auto& [name, value] : bad) num_equal += value == good[name];
  EXPECT_EQ(num_equal, bad.size() - 1) << "only the file of the bad picture differs";
  const core::SafetensorsFile file(logs_.path() / "bad/000003_train-000003.safetensors");
  EXPECT_EQ(file.at("image").shape, (std::vector<int64_t>{5, 32}));
  const auto list = core::parse_json(file.metadata().at("bad"), "bad samples");
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].at("kind"), "left_out");
  EXPECT_NE(list[0].at("reason").get<std::string>().find("train-000003.tar"), std::string::npos) << list.dump();
  EXPECT_EQ(core::parse_json(file.metadata().at("keys"), "keys").size(), 5u);
}

/// Where the headers of the members of a tar file begin.
std::vector<size_t> tar_headers(const std::string& bytes) {
  constexpr size_t kMagicOffset = 257, kBlock = 512;
  std::vector<size_t> places;
  for (size_t at = bytes.find("ustar"); at != std::string::npos; at = bytes.find("ustar", at + 1))
    if (at % kBlock == kMagicOffset) places.push_back(at - kMagicOffset);
  return places;
}

TEST_F(InferEmbed, AShardDamagedInTheMiddleIsKeptInPartAndEmbeddedAgainWhenItIsWhole) {
  for (const std::string format : {"safetensors", "npy"}) {
    const std::string ending = format == "npy" ? ".json" : ".safetensors";
    ASSERT_EQ(run_lockstep(args("good-" + format, {"--format", format}), {}, 120s).exit_code, 0);
    const fs::path cut = logs_.path() / "small/train-000003.tar", wrong = logs_.path() / "small/train-000005.tar";
    const std::string cut_bytes = core::read_file(cut), wrong_bytes = core::read_file(wrong);
    const size_t members = tar_headers(cut_bytes).size() / 6, fifth = tar_headers(cut_bytes).at(4 * members);
    core::write_file_atomic(cut, cut_bytes.substr(0, fifth + 700));
    std::string broken = wrong_bytes;
    broken.replace(tar_headers(broken).at(2 * members), 4, "????");
    core::write_file_atomic(wrong, broken);

    const auto first = run_lockstep(args("part-" + format, {"--format", format}), {}, 120s);
    EXPECT_EQ(first.exit_code, 4) << first.err;
    EXPECT_NE(
        first.err.find("2 of 10 shards could be read in part, the first is '" + cut.string() + "' behind sample '"),
        std::string::npos)
        << first.err;
    EXPECT_NE(first.err.find("(4 are kept)"), std::string::npos) << first.err;
    auto good = content("good-" + format), part = content("part-" + format);
    for (const auto& [name, value] : part) {
      const bool is_whole = name.find(".partial.") == std::string::npos;
      EXPECT_TRUE(!is_whole || value == good.at(name)) << name;
    }
    EXPECT_EQ(part.size(), good.size());
    const std::string name = "000005_train-000005.partial" + ending;
    ASSERT_TRUE(part.contains(name)) << part.begin()->first;
    EXPECT_NE(part.at(name).find("\"damage\""), std::string::npos);
    EXPECT_NE(part.at(name).find("is damaged at offset"), std::string::npos) << "from where";
    const auto search = run_lockstep(
        {"infer", "retrieve", "--embeddings", (logs_.path() / ("part-" + format)).string(), "--queries",
         (logs_.path() / ("good-" + format)).string(), "--query-key", "image", "-k", "54", "--threads", "1"},
        {}, 120s);
    EXPECT_EQ(search.exit_code, 0) << search.err << " 8 x 6 + 4 + 2 rows";

    core::write_file_atomic(cut, cut_bytes);
    core::write_file_atomic(wrong, wrong_bytes);
    const auto whole = run_lockstep(args("part-" + format, {"--format", format}), {}, 120s);
    EXPECT_EQ(whole.exit_code, 0) << whole.err;
    EXPECT_NE(whole.err.find("8 of them there already"), std::string::npos) << whole.err;
    EXPECT_TRUE(content("part-" + format) == good) << "no part is left";
  }
}

TEST_F(InferEmbed, ABadFileAndALongTextAreToldAndHarmNoOthers) {
  const fs::path folder = logs_.path() / "pictures", broken = folder / "b.jpg";
  fs::create_directory(folder);
  const std::string shard = core::read_file(logs_.path() / "small/train-000000.tar");
  const size_t begin = shard.find("\xff\xd8\xff");
  const std::string picture = shard.substr(begin, shard.find("ustar", begin) - begin);
  core::write_file_atomic(folder / "a.jpg", picture);
  core::write_file_atomic(folder / "c.jpg", picture);
  core::write_file_atomic(broken, "no picture");
  core::write_file_atomic(logs_.path() / "texts.txt", "a circle\n" + std::string(600, 'x') + "\n\n");
  const std::vector<std::string> common = {
      "--pretrained", (logs_.path() / "weights").string(), "--device", "cpu", "--threads", "1", "--workers", "1"};
  const auto infer = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "infer");
    words.insert(words.end(), common.begin(), common.end());
    return run_lockstep(words, {}, 120s);
  };
  const std::string output = (logs_.path() / "embedded.safetensors").string();
  const auto embedded =
      infer({"embed", "--images", folder.string(), "--texts", (logs_.path() / "texts.txt").string(), "-o", output});
  ASSERT_EQ(embedded.exit_code, 0) << embedded.err;
  EXPECT_NE(embedded.err.find("left out: 'b.jpg'"), std::string::npos) << embedded.err;
  EXPECT_NE(embedded.err.find("1 of 3 texts of '"), std::string::npos) << embedded.err;
  EXPECT_NE(embedded.err.find("and are cut, the first is line 2"), std::string::npos) << embedded.err;
  const core::SafetensorsFile file(output);
  EXPECT_EQ(file.at("image").shape.at(0), 2);
  EXPECT_EQ(file.at("text").shape.at(0), 3) << "an empty line is an empty text";
  EXPECT_EQ(file.metadata().at("files"), R"(["a.jpg","c.jpg"])");
  EXPECT_EQ(file.metadata().at("cut_texts"), "[1]");
  EXPECT_EQ(core::parse_json(file.metadata().at("bad"), "bad").at(0).at("key"), "b.jpg");

  core::write_file_atomic(logs_.path() / "names.txt", "circle\nsquare\n");
  core::write_file_atomic(logs_.path() / "templates.txt", "a {}\n");
  const std::vector<std::string> classes = {"classify",
                                            "--classnames",
                                            (logs_.path() / "names.txt").string(),
                                            "--templates",
                                            (logs_.path() / "templates.txt").string(),
                                            "--images"};
  auto words = classes;
  words.push_back(folder.string());
  const auto classified = infer(words);
  EXPECT_EQ(classified.exit_code, 0) << classified.err;
  const auto lines = core::split(classified.out, "\n");
  ASSERT_EQ(lines.size(), 4u) << classified.out;
  EXPECT_TRUE(core::parse_json(lines[0], "line").contains("classes"));
  EXPECT_TRUE(core::parse_json(lines[1], "line").contains("error")) << lines[1];
  EXPECT_TRUE(core::parse_json(lines[2], "line").contains("classes"));
  words.back() = broken.string();
  const auto none = infer(words);
  EXPECT_EQ(none.exit_code, 4);
  EXPECT_NE(none.err.find("none of 1 file can be used"), std::string::npos) << none.err;
}

TEST_F(InferEmbed, ShardListsAreThoseOfTraining) {
  ASSERT_EQ(run_lockstep(args_of(small("train-{000000..000002}.tar"), "range"), {}, 120s).exit_code, 0);
  const auto joined =
      run_lockstep(args_of(small("train-000000.tar") + "::" + small("train-{000001..000002}.tar"), "joined"), {}, 120s);
  ASSERT_EQ(joined.exit_code, 0) << joined.err;
  EXPECT_TRUE(content("range") == content("joined"));
  fs::copy_file(small("train-000000.tar"), small("odd{1,2}.tar"));
  const auto odd = run_lockstep(args_of(small("odd\\{1,2\\}.tar"), "odd"), {}, 120s);
  ASSERT_EQ(odd.exit_code, 0) << odd.err;
  const auto keys_in = [&](const std::string& file) {
    return core::SafetensorsFile(logs_.path() / file).metadata().at("keys");
  };
  EXPECT_EQ(keys_in("odd/000000_odd_1_2_.safetensors"), keys_in("range/000000_train-000000.safetensors"));
}

TEST_F(InferEmbed, ABatchOfBadPicturesAloneHarmsNoOthers) {
  const fs::path shard = small("train-000000.tar");
  std::string bytes = core::read_file(shard);
  std::vector<size_t> pictures;
  for (size_t at = bytes.find("\xff\xd8\xff"); at != std::string::npos; at = bytes.find("\xff\xd8\xff", at + 1))
    pictures.push_back(at);
  ASSERT_EQ(pictures.size(), 6u);
  for (const size_t last : {4, 5}) bytes.replace(pictures[last], 3, "no!");  // the second batch of four
  core::write_file_atomic(shard, bytes);
  const auto result = run_lockstep(args_of(shard.string(), "bad"), {}, 120s);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const core::SafetensorsFile file(logs_.path() / "bad/000000_train-000000.safetensors");
  EXPECT_EQ(file.at("image").shape.at(0), 4);
  EXPECT_EQ(core::parse_json(file.metadata().at("bad"), "bad").size(), 2u);
}

TEST_F(InferEmbed, AFolderGoesOnWithNothingThatChangesTheNumbers) {
  const std::string three = small("train-{000000..000002}.tar");
  ASSERT_EQ(run_lockstep(args_of(three, "folder"), {}, 120s).exit_code, 0);
  const auto before = content("folder");
  const fs::path lost = logs_.path() / "folder/000001_train-000001.safetensors",
                 facts = logs_.path() / "folder/embed.json";
  fs::remove(lost);
  const auto refused = [&](const std::vector<std::string>& flags, const std::string& message) {
    const auto result = run_lockstep(args_of(three, "folder", flags), {}, 120s);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_NE(result.err.find(message), std::string::npos) << result.err;
    EXPECT_FALSE(fs::exists(lost));
  };
  refused({"--force-quick-gelu"}, "holds embeddings with another shape.quick_gelu: false, now true");
  refused({"--max-image-pixels", "1000000"}, "another preparation.max_image_pixels: 25000000, now 1000000");
  fs::copy_file(shared_->path() / "tiny.json", logs_.path() / "same.json");
  const auto moved =
      run_lockstep(args_of(three, "folder", {"--model", (logs_.path() / "same.json").string()}), {}, 120s);
  EXPECT_EQ(moved.exit_code, 0) << moved.err;
  EXPECT_TRUE(content("folder") == before) << "the shape is the same, wherever its file lies";

  core::Json old = core::read_json_file(facts);  // as it was before shape and vocabulary were noted
  EXPECT_TRUE(old.contains("vocabulary"));
  old["format_version"] = 1;
  old.erase("shape");
  old.erase("vocabulary");
  old["preparation"].erase("max_image_pixels");
  core::write_file_atomic(facts, old.dump());
  fs::remove(lost);
  refused({"--force-quick-gelu"}, "was begun by a version that did not note --force-quick-gelu");
  const auto again = run_lockstep(args_of(three, "folder"), {}, 120s);
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(core::read_file(lost), before.at(lost.filename().string()));
  EXPECT_TRUE(core::read_json_file(facts).contains("shape"));
}

/// Writes another content, of at most a block, into a member of a tar file that has one.
void replace_member(std::string& bytes, size_t header, const std::string& content) {
  constexpr size_t kBlock = 512, kSizePlace = 124, kSumPlace = 148, kSumLength = 8;
  bytes.replace(header + kBlock, kBlock, content + std::string(kBlock - content.size(), '\0'));
  bytes.replace(header + kSizePlace, 12, fmt::format("{:011o}", content.size()) + std::string(1, '\0'));
  bytes.replace(header + kSumPlace, kSumLength, std::string(kSumLength, ' '));
  unsigned sum = 0;
  for (size_t i = 0; i < kBlock; ++i) sum += static_cast<unsigned char>(bytes[header + i]);
  bytes.replace(header + kSumPlace, kSumLength, fmt::format("{:06o}", sum) + std::string(1, '\0') + " ");
}

TEST_F(InferEmbed, CaptionsThatAreCutAreCountedAndListed) {
  const fs::path shard = small("train-000000.tar");
  std::string bytes = core::read_file(shard);
  std::vector<size_t> captions;
  for (const size_t header : tar_headers(bytes))
    if (std::string(bytes.data() + header).ends_with(".txt")) captions.push_back(header);
  ASSERT_EQ(captions.size(), 6u);
  std::string words;
  for (int i = 0; i < 50; ++i) words += " a circle";
  replace_member(bytes, captions[2], words);
  core::write_file_atomic(shard, bytes);
  for (const std::string format : {"safetensors", "npy"}) {
    const auto result = run_lockstep(args_of(shard.string(), "cut-" + format, {"--format", format}), {}, 120s);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NE(result.err.find(", 1 caption cut"), std::string::npos) << result.err;
    const fs::path output = logs_.path() / ("cut-" + format);
    const core::Json list =
        format == "npy"
            ? core::read_json_file(output / "000000_train-000000.json").at("bad")
            : core::parse_json(core::SafetensorsFile(output / "000000_train-000000.safetensors").metadata().at("bad"),
                               "bad");
    ASSERT_EQ(list.size(), 1u) << list.dump();
    EXPECT_EQ(list[0].at("kind"), "cut");
    EXPECT_EQ(list[0].at("key"), "000000002");
    EXPECT_NE(list[0].at("reason").get<std::string>().find("its caption is cut to "), std::string::npos);
  }
  const auto pictures = run_lockstep(args_of(shard.string(), "pictures", {"--towers", "image"}), {}, 120s);
  EXPECT_EQ(pictures.err.find("cut"), std::string::npos) << pictures.err;
}

TEST_F(InferEmbed, ADataSetThatGrowsIsEmbeddedFurther) {
  ASSERT_EQ(run_lockstep(args_of(small("train-{000000..000001}.tar"), "grown"), {}, 120s).exit_code, 0);
  const std::string four = small("train-{000000..000003}.tar");
  const auto more = run_lockstep(args_of(four, "grown"), {}, 120s);
  ASSERT_EQ(more.exit_code, 0) << more.err;
  EXPECT_NE(more.err.find("2 of them there already"), std::string::npos) << more.err;
  ASSERT_EQ(run_lockstep(args_of(four, "whole"), {}, 120s).exit_code, 0);
  EXPECT_TRUE(content("grown") == content("whole"));
}

TEST_F(InferEmbed, SearchesOfAnIncompleteFolderSaySo) {
  for (const std::string format : {"safetensors", "npy"}) {
    const std::string folder = (logs_.path() / format).string();
    ASSERT_EQ(
        run_lockstep(args_of(small("train-{000000..000003}.tar"), format, {"--format", format}), {}, 120s).exit_code,
        0);
    const auto search = [&] {
      return run_lockstep({"infer", "retrieve", "--embeddings", folder, "--queries", folder, "--query-key", "image",
                           "-k", "1", "--threads", "1"},
                          {}, 120s);
    };
    const auto whole = search();
    EXPECT_EQ(whole.err.find("is not complete"), std::string::npos) << whole.err;
    EXPECT_EQ(whole.out.find("incomplete"), std::string::npos);
    fs::remove(fs::path(folder) / ("000001_train-000001" + std::string(format == "npy" ? ".json" : ".safetensors")));
    const auto part = search();
    EXPECT_EQ(part.exit_code, 0) << part.err;
    EXPECT_NE(part.err.find("'" + folder + "' is not complete: 3 of 4 shards are there"), std::string::npos)
        << part.err;
    EXPECT_EQ(core::parse_json(core::split(part.out, "\n")[0], "line").at("incomplete"),
              (core::Json{{"shards", 4}, {"whole", 3}, {"in_part", 0}}));
  }
}

TEST_F(InferEmbed, WorkOfOneRankIsRefusedOnTwo) {
  core::write_file_atomic(logs_.path() / "texts.txt", "a circle\n");
  const std::string output = (logs_.path() / "out.safetensors").string();
  const std::vector<std::string> launch = {"launch", "--nproc-per-node", "2", "--"};
  const std::vector<std::vector<std::string>> commands = {
      {"infer", "embed", "--pretrained", (logs_.path() / "weights").string(), "--texts",
       (logs_.path() / "texts.txt").string(), "-o", output, "--device", "cpu"},
      {"infer", "retrieve", "--embeddings", "e", "--queries", "q", "-o", output}};
  for (std::vector<std::string> words : commands) {
    words.insert(words.begin(), launch.begin(), launch.end());
    const auto result = run_lockstep(words, {}, 120s);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_NE(result.err.find("is the work of one rank, there are 2"), std::string::npos) << result.err;
    EXPECT_FALSE(fs::exists(output));
  }
}

TEST_F(InferEmbed, AFolderOfSomethingElseIsRefused) {
  ASSERT_EQ(run_lockstep(args("folder"), {}, 120s).exit_code, 0);
  const auto other = run_lockstep(args("folder", {"--batch-size", "8"}), {}, 120s);
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.err.find("holds embeddings with another batch_size: 4, now 8"), std::string::npos) << other.err;
  const auto both = run_lockstep(args("folder", {"--images", "x"}));
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_NE(both.err.find("--shards and --images at once"), std::string::npos) << both.err;
}

TEST_F(InferEmbed, RetrieveFindsTheBestRowsInBothForms) {
  ASSERT_EQ(run_lockstep(args("rows"), {}, 120s).exit_code, 0);
  ASSERT_EQ(run_lockstep(args("npy", {"--format", "npy"}), {}, 120s).exit_code, 0);
  const auto search = [&](const std::string& folder, const std::string& tile) {
    const auto found = run_lockstep(
        {"infer", "retrieve", "--embeddings", (logs_.path() / folder).string(), "--queries",
         (logs_.path() / folder).string(), "--query-key", "image", "-k", "3", "--tile-rows", tile, "--threads", "1"},
        {}, 120s);
    EXPECT_EQ(found.exit_code, 0) << found.err;
    EXPECT_EQ(found.err.find("other weights"), std::string::npos) << found.err;
    return found.out;
  };
  const std::string lines = search("rows", "8192");
  size_t num_queries = 0;
  for (const auto& line : core::split(lines, "\n")) {
    if (line.empty()) continue;
    const auto json = core::parse_json(line, "line");
    ASSERT_EQ(json.at("results").size(), 3u);
    EXPECT_NEAR(json.at("results")[0].at("score").get<double>(), 1.0, 1e-5) << "each picture is its own nearest";
    ++num_queries;
  }
  EXPECT_EQ(num_queries, 60u);
  const std::string npy = search("npy", "8192");
  EXPECT_EQ(npy, lines);
  const auto missing = run_lockstep({"infer", "retrieve", "--embeddings", (logs_.path() / "rows").string(), "--queries",
                                     (logs_.path() / "small").string()});
  EXPECT_EQ(missing.exit_code, 4) << missing.err;
}

TEST_F(InferEmbed, RetrieveWarnsWhereOtherWeightsMadeTheQueries) {
  ASSERT_EQ(run_lockstep(args("rows"), {}, 120s).exit_code, 0);
  ASSERT_EQ(train("others", {"--max-steps", "1", "--epochs", "1", "--seed", "7"}).exit_code, 0);
  core::write_file_atomic(logs_.path() / "queries.txt", "a red circle\na square\n");
  const auto search = [&](const std::string& weights, const std::vector<std::string>& more = {}) {
    const std::string queries = (logs_.path() / (weights + ".safetensors")).string();
    std::vector<std::string> words = {"infer",        "embed",
                                      "--pretrained", (logs_.path() / weights).string(),
                                      "--texts",      (logs_.path() / "queries.txt").string(),
                                      "-o",           queries,
                                      "--device",     "cpu",
                                      "--threads",    "1"};
    words.insert(words.end(), more.begin(), more.end());
    const auto made = run_lockstep(words, {}, 120s);
    EXPECT_EQ(made.exit_code, 0) << made.err;
    EXPECT_NE(made.err.find("taking step-00000001.a1, the newest checkpoint of"), std::string::npos) << made.err;
    const auto found = run_lockstep({"infer", "retrieve", "--embeddings", (logs_.path() / "rows").string(), "--queries",
                                     queries, "-k", "1", "--threads", "1"},
                                    {}, 120s);
    EXPECT_EQ(found.exit_code, 0) << found.err;
    return found.err;
  };
  EXPECT_EQ(search("weights").find("were made"), std::string::npos);
  EXPECT_NE(search("others").find("were made by other weights, or in another precision"), std::string::npos);
  EXPECT_NE(search("weights", {"--force-quick-gelu"}).find("were made with another shape.quick_gelu: true and false"),
            std::string::npos);
  const auto none = run_lockstep({"infer", "retrieve", "--embeddings", (logs_.path() / "rows").string(), "--queries",
                                  (logs_.path() / "weights.safetensors").string(), "--query-key", "audio"});
  EXPECT_NE(none.exit_code, 0);
  EXPECT_NE(none.err.find("it has text"), std::string::npos) << none.err;
}

}  // namespace
}  // namespace lockstep::tests
