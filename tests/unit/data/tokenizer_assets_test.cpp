#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "core/env.h"
#include "core/error.h"
#include "core/files.h"
#include "data/text/class_names.h"
#include "data/text/clip_assets.h"

namespace lockstep::data {
namespace {

/// Sets an environment variable and puts the old value back.
class ScopedEnv {
 public:
  ScopedEnv(const char* name, const std::string& value) : name_(name), old_(core::env(name)) {
    setenv(name, value.c_str(), 1);
  }
  ScopedEnv(const ScopedEnv&) = delete;
  ScopedEnv& operator=(const ScopedEnv&) = delete;
  ~ScopedEnv() {
    if (old_) {
      setenv(name_, old_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

void make_assets(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  core::write_file_atomic(folder / "bpe_simple_vocab_16e6.txt.gz", "x");
}

TEST(ClipAssets, AreFoundInTheOrderThatIsPromised) {
  const core::TempDir root;
  const auto named = root.path() / "named", option = root.path() / "option";
  const auto cached = root.path() / "cache/lockstep/clip-assets-3.3.0";
  const ScopedEnv cache("XDG_CACHE_HOME", (root.path() / "cache").string());
  const ScopedEnv variable("LOCKSTEP_ASSETS_DIR", named.string());
  make_assets(cached);
  EXPECT_EQ(find_clip_assets().folder, cached);
  make_assets(named);
  EXPECT_EQ(find_clip_assets().folder, named);
  EXPECT_EQ(find_clip_assets().vocabulary(), named / "bpe_simple_vocab_16e6.txt.gz");
  make_assets(option);
  EXPECT_EQ(find_clip_assets(option).folder, option);
}

TEST(ClipAssets, AreLookedForInHomeWithoutXdg) {
  const core::TempDir root;
  const ScopedEnv cache("XDG_CACHE_HOME", ""), variable("LOCKSTEP_ASSETS_DIR", ""), home("HOME", root.path().string());
  make_assets(root.path() / ".cache/lockstep/clip-assets-3.3.0");
  EXPECT_EQ(find_clip_assets().folder, root.path() / ".cache/lockstep/clip-assets-3.3.0");
}

TEST(ClipAssets, ErrorNamesEveryPlaceAndTheCommand) {
  const core::TempDir root;
  const ScopedEnv cache("XDG_CACHE_HOME", (root.path() / "nocache").string());
  const ScopedEnv variable("LOCKSTEP_ASSETS_DIR", (root.path() / "noname").string());
  try {
    find_clip_assets();
    FAIL() << "no error";
  } catch (const EnvironmentError& error) {
    for (const char* const part :
         {"noname", "nocache/lockstep/clip-assets-3.3.0", "share/lockstep", "fetch_clip_assets.py"}) {
      EXPECT_NE(error.text().find(part), std::string::npos) << part << " in " << error.text();
    }
  }
  EXPECT_THROW(find_clip_assets(root.path() / "nothing"), EnvironmentError);
}

class NameFile : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& content) {
    const auto path = folder_.path() / "names.txt";
    core::write_file_atomic(path, content);
    return path;
  }
  template <typename Read> void expect_refused(Read read, const std::string& content, const std::string& part) {
    try {
      read(write(content));
      FAIL() << "no error; expected " << part;
    } catch (const DataError& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
  core::TempDir folder_;
};

TEST_F(NameFile, ClassNamesKeepTheirSigns) {
  EXPECT_EQ(read_class_names(write("tench\nhen, speckled # 1\r\ncr\xC3\xA8me\n\n")),
            (std::vector<std::string>{"tench", "hen, speckled # 1", "cr\xC3\xA8me"}));
  EXPECT_EQ(read_class_names(write("\xEF\xBB\xBFone\ntwo")), (std::vector<std::string>{"one", "two"}));
}

TEST_F(NameFile, ClassNameErrorsNameTheLine) {
  expect_refused(read_class_names, "a\n\nb\n", "line 2: the line is empty");
  expect_refused(read_class_names, "a\nb\xFF\n", "line 2: byte 1 is not UTF-8");
  expect_refused(read_class_names, "\n\n", "the file is empty");
}

TEST(ClassNames, OfTheSameClassesInAnotherOrderAreFound) {
  const std::vector<std::string> folders = {"Bell_strike", "deep-rumble", "hiss"};
  EXPECT_EQ(first_in_other_order(folders, {"bell strike", "deep rumble", "hiss"}), std::nullopt);
  EXPECT_EQ(first_in_other_order(folders, {"bell strike", "hiss", "deep rumble"}), 1u);
  EXPECT_EQ(first_in_other_order(folders, {"hiss", "deep rumble", "a bell"}), std::nullopt) << "names of their own";
  EXPECT_EQ(first_in_other_order(folders, {"hiss"}), std::nullopt);
}

TEST_F(NameFile, TemplatesTakeBothSpellings) {
  const auto templates = read_templates(write("a photo of a {}.\na {c} in a game.\n"));
  EXPECT_EQ(templates, (std::vector<std::string>{"a photo of a {}.", "a {} in a game."}));
  EXPECT_EQ(fill_template(templates[1], "hen"), "a hen in a game.");
  expect_refused(read_templates, "a {}\nno place\n", "line 2: places for the class name=0");
  expect_refused(read_templates, "{} and {}\n", "line 1: places for the class name=2");
}

}  // namespace
}  // namespace lockstep::data
