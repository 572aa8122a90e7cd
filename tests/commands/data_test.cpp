#include <gtest/gtest.h>

#include <fstream>

#include "commands/run_program.h"
#include "core/files.h"
#include "core/json.h"
#include "unit/data/tar_bytes.h"

namespace lockstep {
namespace {

using core::Json;
using tests::ProgramResult;
using tests::run_lockstep;

TEST(DataCommand, MakesIndexesVerifiesAndInspectsShards) {
  core::TempDir folder;
  const std::string set = (folder.path() / "set").string(), index = (folder.path() / "index").string();
  ProgramResult made = run_lockstep(
      {"data", "make-shapes", set, "--samples", "200", "--val-samples", "40", "--samples-per-shard", "50", "--json"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const std::string shards = Json::parse(made.out).at("train_shards").get<std::string>();

  const ProgramResult indexed =
      run_lockstep({"data", "index", shards, "--index-dir", index, "--workers", "2", "--json"});
  ASSERT_EQ(indexed.exit_code, 0) << indexed.err;
  EXPECT_EQ(Json::parse(indexed.out).at("samples"), 200);
  EXPECT_EQ(Json::parse(indexed.out).at("indexed"), 4);
  const ProgramResult again = run_lockstep({"data", "index", shards, "--index-dir", index});
  EXPECT_NE(again.out.find("0 indexed, 4 had an index"), std::string::npos) << again.out;

  const std::string other = (folder.path() / "other").string();
  const ProgramResult elsewhere = run_lockstep({"data", "index", shards, "-o", other});
  EXPECT_NE(elsewhere.out.find("4 indexed, 0 had an index"), std::string::npos) << elsewhere.out << elsewhere.err;
  EXPECT_TRUE(std::filesystem::exists(other + "/shards.index"));
  EXPECT_EQ(run_lockstep({"data", "verify", shards, "-o", other}).exit_code, 2) << "verify writes nothing";

  const ProgramResult whole = run_lockstep({"data", "verify", shards, "--index-dir", index});
  EXPECT_EQ(whole.exit_code, 0) << whole.out << whole.err;
  EXPECT_NE(whole.out.find("4 whole, 0 missing, 0 damaged; 200 samples"), std::string::npos) << whole.out;

  const ProgramResult shown = run_lockstep({"data", "inspect", shards, "--json"});
  ASSERT_EQ(shown.exit_code, 0) << shown.err;
  const Json report = Json::parse(shown.out);
  EXPECT_EQ(report.at("usable"), 200);
  EXPECT_EQ(report.at("extensions").at("jpg").at("count"), 200);
  EXPECT_EQ(report.at("captions").size(), 5u);
  EXPECT_EQ(report.at("pictures").at("max_width"), 64);
  EXPECT_NE(run_lockstep({"data", "inspect", shards}).out.find("first captions"), std::string::npos);
}

TEST(DataCommand, MakesAndInspectsSounds) {
  core::TempDir folder;
  const std::string set = (folder.path() / "set").string();
  const std::vector<std::string> make = {"data", "make-sounds",         set,  "--samples", "60",  "--val-samples",
                                         "24",   "--samples-per-shard", "30", "--seconds", "0.5", "--sample-rate",
                                         "8000"};
  std::vector<std::string> as_json = make;
  as_json.push_back("--json");
  const ProgramResult made = run_lockstep(as_json);
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const Json result = Json::parse(made.out);
  EXPECT_EQ(result.at("num_classes"), 24);
  EXPECT_EQ(result.at("clip_samples"), 4000);
  EXPECT_TRUE(std::filesystem::exists(result.at("tokenizer").get<std::string>() + "/merges.txt"));
  EXPECT_NE(run_lockstep(make).out.find("found 60 training and 24 validation samples"), std::string::npos);

  const std::string shards = result.at("train_shards").get<std::string>();
  const ProgramResult shown = run_lockstep({"data", "inspect", shards, "--json"});
  ASSERT_EQ(shown.exit_code, 0) << shown.err;
  const Json report = Json::parse(shown.out);
  EXPECT_EQ(report.at("usable"), 60);
  EXPECT_EQ(report.at("recordings").at("decoded"), 60);
  EXPECT_EQ(report.at("recordings").at("sample_rates"), (Json{{"8000", 60}}));
  EXPECT_EQ(report.at("recordings").at("max_seconds"), 0.5);
  EXPECT_NE(run_lockstep({"data", "inspect", shards})
                .out.find("60 recordings decoded: 0.50 to 0.50 s long, 8000 Hz, 1 channels, 0 silent"),
            std::string::npos);

  const std::string shard = (folder.path() / "set" / "val-000000.tar").string();
  std::string bytes = core::read_file(shard);
  bytes[3000] ^= 16;  // inside the first recording
  tests::write_file(shard, bytes);
  const ProgramResult damaged = run_lockstep({"data", "inspect", shard});
  EXPECT_EQ(damaged.exit_code, 4);
  EXPECT_NE(damaged.out.find("recording in shard '" + shard + "' offset=0 key='000000000' is damaged"),
            std::string::npos)
      << damaged.out;

  EXPECT_EQ(run_lockstep({"data", "make-sounds", (folder.path() / "x").string(), "--seconds", "0.1"}).exit_code, 2);
  EXPECT_EQ(run_lockstep({"data", "make-sounds", folder.path().string()}).exit_code, 2);  // holds something else
}

TEST(DataCommand, InspectFindsWhatTrainingWithSoundsRefuses) {
  using tests::TarBytes;
  core::TempDir folder;
  const std::string set = (folder.path() / "set").string();
  ASSERT_EQ(run_lockstep({"data", "make-sounds", set, "--samples", "24", "--val-samples", "24", "--seconds", "0.25",
                          "--sample-rate", "8000"})
                .exit_code,
            0);
  std::string flac;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(set + "/heldout"))
    if (entry.path().extension() == ".flac") flac = core::read_file(entry.path());
  ASSERT_FALSE(flac.empty());
  const std::string shard = tests::write_file(
      folder.path() / "x.tar", TarBytes::member("a.flac", flac) + TarBytes::member("a.txt", "no") +
                                   TarBytes::member("a.json", R"({"text": ["a tone", "x"]})") +
                                   TarBytes::member("b.flac", flac) + TarBytes::member("b.txt", " \n") +
                                   TarBytes::member("c.flac", flac) + TarBytes::member("c.json", R"({"title": "x"})") +
                                   TarBytes::member("d.flac", "no sound") + TarBytes::member("d.txt", "d") +
                                   TarBytes::member("e.txt", "e") + TarBytes::member("f.flac", flac) +
                                   TarBytes::member("f.txt", "\xff\xfe") + TarBytes::end());
  const ProgramResult shown = run_lockstep({"data", "inspect", shard, "--json"});
  EXPECT_EQ(shown.exit_code, 4) << shown.err;
  const Json report = Json::parse(shown.out);
  EXPECT_EQ(report.at("samples"), 6);
  EXPECT_EQ(report.at("usable"), 1);
  EXPECT_EQ(report.at("skipped"), (Json{{"sample without audio (flac, wav, ogg)", 1}}));
  EXPECT_EQ(report.at("bad_captions").at("count"), 3);
  EXPECT_EQ(report.at("recordings").at("seen"), 5);
  EXPECT_EQ(report.at("recordings").at("bad").size(), 1u);
  EXPECT_EQ(report.at("captions"), (Json::array({{{"key", "a"}, {"text", "a tone"}}, {{"key", "d"}, {"text", "d"}}})));
  const std::string heldout = set + "/heldout";
  const ProgramResult folders = run_lockstep({"data", "inspect", heldout});
  EXPECT_EQ(folders.exit_code, 0) << folders.err;
  for (const char* expected : {"24 recordings in 24 classes", "24 recordings decoded", "0.25 to 0.25 s long"})
    EXPECT_NE(folders.out.find(expected), std::string::npos) << expected << "\n" << folders.out;
  tests::write_file(heldout + "/hiss/cut.flac", flac.substr(0, flac.size() / 2));
  const ProgramResult cut = run_lockstep({"data", "verify", heldout});
  EXPECT_EQ(cut.exit_code, 4) << cut.err;
  EXPECT_NE(cut.out.find("25 recordings of 24 classes, 1 bad"), std::string::npos) << cut.out;
  EXPECT_NE(cut.out.find("cut.flac"), std::string::npos) << cut.out;
  const std::string foreign = tests::write_file(
      folder.path() / "foreign.tar",
      TarBytes::member("a.mp3", "x") + TarBytes::member("a.json", R"({"text": "a"})") + TarBytes::end());
  EXPECT_NE(run_lockstep({"data", "inspect", foreign})
                .out.find("sample without audio (flac, wav, ogg); mp3 is not read: convert it to FLAC"),
            std::string::npos);
  const ProgramResult verified = run_lockstep({"data", "verify", shard});
  EXPECT_EQ(verified.exit_code, 4) << verified.err;
  for (const char* expected : {"5 recordings decoded: 1 bad", "key='d' (flac) is no FLAC"})
    EXPECT_NE(verified.out.find(expected), std::string::npos) << expected << "\n" << verified.out;
  const Json checked = Json::parse(run_lockstep({"data", "verify", shard, "--json"}).out);
  EXPECT_EQ(checked.at("bad_recordings"), 1);
  EXPECT_EQ(checked.at("bad_pictures"), 0);
  EXPECT_EQ(run_lockstep({"data", "verify", shard, "--no-decode"}).exit_code, 0);
  const std::string text = run_lockstep({"data", "inspect", shard, "--pictures", "2"}).out;
  for (const char* expected : {"2 of 5 recordings decoded", "the other 3 recordings were not decoded: --pictures 5",
                               "3 captions that training refuses", "  a: a tone\n"})
    EXPECT_NE(text.find(expected), std::string::npos) << expected << "\n" << text;
}

TEST(DataCommand, DemosTakeAProgramByItsNameOnPath) {
  core::TempDir folder;
  const std::string program =
      tests::write_file(folder.path() / "stand-in", "#!/bin/sh\necho \"called as $0\" >&2\nexit 9\n");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  for (const char* demo : {"sounds", "demo"}) {
    const std::string script = std::string(LOCKSTEP_SOURCE_DIR) + "/examples/" + demo + "/demo.sh";
    for (const std::string& name : {std::string("stand-in"), program}) {
      const ProgramResult result =
          tests::run_program({"/bin/sh", "-c", "PATH=\"$0:$PATH\" exec bash \"$@\"", folder.path().string(), script,
                              name, (folder.path() / "out").string(), "--short"});
      EXPECT_EQ(result.exit_code, 9) << result.err;
      EXPECT_NE(result.err.find("called as " + std::filesystem::canonical(program).string()), std::string::npos)
          << result.err;
    }
  }
}

TEST(DataCommand, ListsEveryDamagedShardWithExitCodeFour) {
  core::TempDir folder;
  const std::string shards = tests::write_shards(folder.path(), {5, 5, 5, 5});
  ASSERT_EQ(run_lockstep({"data", "index", shards}).exit_code, 0);
  const std::string first = (folder.path() / "000.tar").string(), last = (folder.path() / "003.tar").string();
  std::string bytes = core::read_file(first);
  bytes[700] ^= 4;
  tests::write_file(first, bytes);
  tests::write_file(last, core::read_file(last).substr(0, 2000));
  const ProgramResult result = run_lockstep({"data", "verify", shards});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_NE(result.out.find("DAMAGED " + first), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("DAMAGED " + last), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("2 whole, 0 missing, 2 damaged"), std::string::npos) << result.out;
  const Json json = Json::parse(run_lockstep({"data", "verify", shards, "--json", "--no-decode"}).out);
  EXPECT_EQ(json.at("damaged"), 2);
  EXPECT_EQ(json.at("results").at(1).at("ok"), true);
  const Json decoded = Json::parse(run_lockstep({"data", "verify", shards, "--json"}).out);  // the pictures are texts
  EXPECT_EQ(decoded.at("damaged"), 2);
  EXPECT_EQ(decoded.at("results").at(1).at("ok"), false);
  EXPECT_EQ(decoded.at("results").at(1).at("bad_pictures"), 5);
  const ProgramResult indexed = run_lockstep({"data", "index", shards, "--force"});
  EXPECT_EQ(indexed.exit_code, 4);
  EXPECT_NE(indexed.out.find("1 damaged"), std::string::npos) << indexed.out;
  EXPECT_EQ(run_lockstep({"data", "inspect", last}).exit_code, 4);
  const ProgramResult shown = run_lockstep({"data", "inspect", shards});  // goes on behind the damaged one
  EXPECT_EQ(shown.exit_code, 4);
  EXPECT_NE(shown.out.find("4 shards, 3 read"), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("1 shard that training refuses\n  data: shard '" + last + "' is damaged"), std::string::npos)
      << shown.out;
  const Json inspected = Json::parse(run_lockstep({"data", "inspect", shards, "--json"}).out);
  EXPECT_EQ(inspected.at("damaged_shards").size(), 1u);
  std::filesystem::remove(first);
  const ProgramResult missing = run_lockstep({"data", "verify", shards});
  EXPECT_EQ(missing.exit_code, 4);
  EXPECT_NE(missing.out.find("MISSING " + first), std::string::npos) << missing.out;
  EXPECT_NE(missing.out.find("2 whole, 1 missing, 1 damaged"), std::string::npos) << missing.out;
}

TEST(DataCommand, ARangeThatIsTooLongIsToldOnce) {
  core::TempDir folder;
  const std::string set = (folder.path() / "set").string();
  ASSERT_EQ(run_lockstep({"data", "make-shapes", set, "--samples", "2", "--val-samples", "28"}).exit_code, 0);
  const ProgramResult indexed = run_lockstep({"data", "index", set + "/train-{000000..000009}.tar"});
  EXPECT_EQ(indexed.exit_code, 4);
  EXPECT_NE(indexed.out.find("1 indexed, 0 had an index, 9 missing, 0 damaged; 2 samples"), std::string::npos)
      << indexed.out;
  EXPECT_NE(indexed.out.find("missing: " + set + "/train-000001.tar"), std::string::npos) << indexed.out;
  EXPECT_NE(indexed.out.find("and 6 more"), std::string::npos) << indexed.out;
  EXPECT_EQ(std::count(indexed.out.begin(), indexed.out.end(), '\n'), 3) << indexed.out;
  const ProgramResult verified = run_lockstep({"data", "verify", set + "/train-{000000..000009}.tar"});
  EXPECT_EQ(verified.exit_code, 4);
  EXPECT_NE(verified.out.find("check the range in the braces"), std::string::npos) << verified.out;
}

TEST(DataCommand, ATableIsNoShard) {
  const core::TempDir folder;
  const std::string table = (folder.path() / "pictures.csv").string();
  std::ofstream(table) << "filepath,title\na.jpg,a cat\n";
  for (const char* command : {"index", "verify", "inspect"}) {
    const auto refused = run_lockstep({"data", command, table});
    EXPECT_EQ(refused.exit_code, 2) << refused.err;
    EXPECT_NE(refused.err.find("pictures.csv' is a table, expected shards"), std::string::npos) << refused.err;
    EXPECT_NE(refused.err.find("--dataset-type csv"), std::string::npos) << refused.err;
  }
}

TEST(DataCommand, OtherSettingsOfADemoSetAreNamed) {
  core::TempDir folder;
  const std::string set = (folder.path() / "set").string();
  ASSERT_EQ(run_lockstep({"data", "make-shapes", set, "--samples", "2", "--val-samples", "28"}).exit_code, 0);
  const ProgramResult other = run_lockstep({"data", "make-shapes", set, "--samples", "3", "--val-samples", "28"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.err.find("made with other settings: num_train = 2, now 3\n"), std::string::npos) << other.err;
}

TEST(DataCommand, FoldersAndLmdbsAreDecodedShownAndNeedNoIndex) {
  core::TempDir folder;
  const std::string root = (folder.path() / "shapes/train").string(), lmdb = (folder.path() / "out.lmdb").string();
  ASSERT_EQ(run_lockstep({"data", "make-shapes", (folder.path() / "shapes").string(), "--samples", "56",
                          "--val-samples", "28", "--samples-per-shard", "56", "--image-size", "32", "--labels"})
                .exit_code,
            0);
  const ProgramResult too_high = run_lockstep({"data", "inspect", (folder.path() / "shapes").string()});
  EXPECT_EQ(too_high.exit_code, 4);
  EXPECT_NE(too_high.err.find("'" + root + "'"), std::string::npos) << too_high.err;
  const ProgramResult converted = run_lockstep({"data", "to-lmdb", root, lmdb});
  ASSERT_EQ(converted.exit_code, 0) << converted.err;
  EXPECT_NE(converted.out.find("not decoded: `lockstep data verify " + lmdb + "`"), std::string::npos) << converted.out;
  for (const std::string& set : {root, lmdb}) {
    const ProgramResult indexed = run_lockstep({"data", "index", set});
    EXPECT_EQ(indexed.exit_code, 0) << indexed.err;
    EXPECT_NE(indexed.out.find(set + " needs no index"), std::string::npos) << indexed.out;
    const ProgramResult shown = run_lockstep({"data", "inspect", set});
    EXPECT_EQ(shown.exit_code, 0) << shown.err;
    EXPECT_NE(shown.out.find("56 pictures in 28 classes"), std::string::npos) << shown.out;
    EXPECT_NE(shown.out.find("32 to 32 pixels wide, 32 to 32 high"), std::string::npos) << shown.out;
    EXPECT_EQ(Json::parse(run_lockstep({"data", "inspect", set, "--json"}).out).at("results").at(0).at("classes"), 28);
    const ProgramResult whole = run_lockstep({"data", "verify", set});
    EXPECT_EQ(whole.exit_code, 0) << whole.err;
    EXPECT_NE(whole.out.find("56 pictures"), std::string::npos) << whole.out;
    EXPECT_NE(whole.out.find(" 0 bad"), std::string::npos) << whole.out;
  }
  const ProgramResult some = run_lockstep({"data", "inspect", root, "--pictures", "50"});
  EXPECT_NE(some.out.find("the other 6 pictures were not decoded: --pictures 56 takes all"), std::string::npos)
      << some.out;
  const ProgramResult above = run_lockstep({"data", "verify", (folder.path() / "shapes").string()});
  EXPECT_NE(above.out.find("name the one that holds the class folders: '" + root + "'"), std::string::npos)
      << above.out;
  std::filesystem::path damaged;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root))
    if (entry.is_regular_file()) damaged = entry.path();
  std::filesystem::resize_file(damaged, std::filesystem::file_size(damaged) / 2);
  EXPECT_EQ(run_lockstep({"data", "verify", root, "--no-decode"}).exit_code, 0);
  const ProgramResult bad = run_lockstep({"data", "verify", root});
  EXPECT_EQ(bad.exit_code, 4);
  EXPECT_NE(bad.out.find(" 1 bad"), std::string::npos) << bad.out;
  EXPECT_NE(bad.out.find(damaged.string()), std::string::npos) << bad.out;
  const ProgramResult checked =
      run_lockstep({"data", "to-lmdb", root, (folder.path() / "new.lmdb").string(), "--check-pictures"});
  EXPECT_EQ(checked.exit_code, 4);
  EXPECT_NE(checked.err.find(damaged.string()), std::string::npos) << checked.err;
  EXPECT_NE(checked.err.find("leave such samples out with --on-bad-sample skip"), std::string::npos) << checked.err;
  const ProgramResult skipped = run_lockstep(
      {"data", "to-lmdb", root, (folder.path() / "some.lmdb").string(), "--check-pictures", "--on-bad-sample", "skip"});
  EXPECT_EQ(skipped.exit_code, 0) << skipped.err;
  EXPECT_NE(skipped.out.find(damaged.string()), std::string::npos) << skipped.out;
  EXPECT_EQ(run_lockstep({"data", "verify", root, "x.tar"}).exit_code, 2);
}

TEST(DataCommand, AnLmdbWithoutNamesOfClassesIsNoImagenetSilently) {
  core::TempDir folder;
  const std::string set = (folder.path() / "set").string(), lmdb = (folder.path() / "train.lmdb").string();
  ASSERT_EQ(run_lockstep({"data", "make-shapes", set, "--samples", "56", "--val-samples", "28"}).exit_code, 0);
  ASSERT_EQ(run_lockstep({"data", "to-lmdb", set + "/train-000000.tar", lmdb}).exit_code, 0);
  const ProgramResult assumed = run_lockstep({"train", "imagenet", "--train-data", lmdb, "--dry-run"});
  EXPECT_NE((assumed.out + assumed.err).find("the network gets 1000 classes, since --num-classes is not given"),
            std::string::npos)
      << assumed.out << assumed.err;
  const ProgramResult told =
      run_lockstep({"train", "imagenet", "--train-data", lmdb, "--num-classes", "28", "--dry-run"});
  EXPECT_EQ((told.out + told.err).find("the network gets"), std::string::npos) << told.out << told.err;
}

TEST(DataCommand, CaptionsSteerNoTerminal) {
  using tests::TarBytes;
  core::TempDir folder;
  const std::string shard = tests::write_file(
      folder.path() / "x.tar", TarBytes::member("a\x1b[2J.jpg", "none") +
                                   TarBytes::member("a\x1b[2J.txt", "a \x1b]0;owned\x07 dog") + TarBytes::end());
  const ProgramResult shown = run_lockstep({"data", "inspect", shard, "--pictures", "0"});
  EXPECT_NE(shown.out.find("  a\\u001b[2J: a \\u001b]0;owned\\u0007 dog\n"), std::string::npos)
      << shown.out << shown.err;
  EXPECT_EQ((shown.out + shown.err).find_first_of("\x1b\x07"), std::string::npos) << shown.out << shown.err;
}

TEST(DataCommand, CaptionsAndPathsBeginNoLine) {
  using tests::TarBytes;
  core::TempDir folder;
  const std::filesystem::path odd = folder.path() / "x\nwhole y.tar";
  tests::write_file(
      odd, TarBytes::member("a.jpg", "none") + TarBytes::member("a.txt", "one\n99 shards, 99 read") + TarBytes::end());
  const ProgramResult shown = run_lockstep({"data", "inspect", odd.string(), "--pictures", "0"});
  EXPECT_NE(shown.out.find("  a: one\\u000a99 shards, 99 read\n"), std::string::npos) << shown.out << shown.err;
  core::write_file_atomic(odd, "cut");
  const ProgramResult damaged = run_lockstep({"data", "verify", odd.string()});
  EXPECT_NE(damaged.out.find("x\\u000awhole y.tar\n"), std::string::npos) << damaged.out << damaged.err;
  EXPECT_EQ((damaged.out + damaged.err).find("\nwhole y"), std::string::npos) << damaged.out << damaged.err;
}

TEST(DataCommand, RefusesWrongUse) {
  EXPECT_EQ(run_lockstep({"data"}).exit_code, 2);
  const ProgramResult typo = run_lockstep({"data", "indx"});
  EXPECT_EQ(typo.exit_code, 2);
  EXPECT_NE(typo.err.find("did you mean 'index'"), std::string::npos) << typo.err;
  EXPECT_EQ(run_lockstep({"data", "index"}).exit_code, 2);
  EXPECT_EQ(run_lockstep({"data", "index", "x{0..1.tar"}).exit_code, 2);
  EXPECT_EQ(run_lockstep({"data", "index", "pipe:cat x.tar"}).exit_code, 2);
  const core::TempDir folder;
  tests::write_shards(folder.path(), {1});
  const ProgramResult of_shards = run_lockstep({"data", "inspect", folder.path().string()});
  EXPECT_NE(of_shards.err.find("it holds shards: name them as '" + folder.path().string() + "/NAME-{000000..000099}"),
            std::string::npos)
      << of_shards.err;
  const ProgramResult missing = run_lockstep({"data", "inspect", "/nowhere/{000..003}.tar"});
  EXPECT_EQ(missing.exit_code, 4);
  EXPECT_NE(missing.err.find("/nowhere/000.tar"), std::string::npos) << missing.err;
  EXPECT_EQ(run_lockstep({"data", "--help"}).exit_code, 0);
  EXPECT_NE(run_lockstep({"data", "index", "--help"}).out.find("--index-dir"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
