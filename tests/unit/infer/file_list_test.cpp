#include "infer/file_list.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/files.h"
#include "support/error_text.h"

namespace lockstep::infer {
namespace {
namespace fs = std::filesystem;
using tests::holds;
using tests::message_of;

class FileList : public ::testing::Test {
 protected:
  fs::path add(const std::string& name) const {
    const fs::path file = top_.path() / name;
    fs::create_directories(file.parent_path());
    core::write_file_atomic(file, "x");
    return file;
  }
  core::TempDir top_{"lockstep_file_list"};
};

TEST_F(FileList, WalksFoldersInOrderAndFollowsNoLinksToFolders) {
  const fs::path late = add("z.JPG"), early = add("a/b/c.png"), middle = add("a/d.webp"), sound = add("a/s.flac");
  add("notes.txt"), add("no_extension");
  fs::create_directory_symlink(top_.path(), top_.path() / "a/loop");
  EXPECT_EQ(list_files(top_.path(), false), (std::vector<fs::path>{early, middle, late}));
  EXPECT_EQ(list_files(top_.path(), true), std::vector<fs::path>{sound});
}

TEST_F(FileList, ANameThatIsNoUtf8IsRefusedBeforeAnythingIsComputed) {
  add("good.jpg"), add("sub/caf\xe9.jpg");
  const std::string text = message_of<DataError>([&] { list_files(top_.path(), false); });
  EXPECT_TRUE(holds(text, "sub/caf\xef\xbf\xbd.jpg' is no UTF-8 text")) << text;
  EXPECT_TRUE(holds(text, "rename the file")) << text;
}

TEST_F(FileList, SaysWhatIsMissing) {
  add("notes.txt");
  EXPECT_TRUE(holds(message_of<DataError>([&] { list_files(top_.path(), false); }), "no picture in"));
  const std::string gone = message_of<DataError>([&] { list_files(top_.path() / "gone.jpg", false); });
  EXPECT_TRUE(holds(gone, "gone.jpg' does not exist")) << gone;
  EXPECT_TRUE(holds(gone, "name a picture, or a folder of pictures")) << gone;
}

TEST_F(FileList, FilesOfOtherFormatsAreTold) {
  add("a.jpg"), add("b.GIF"), add("sub/c.gif"), add("d.bmp"), add("a.txt"), add("e.flac"), add("f.mp3");
  testing::internal::CaptureStderr();
  EXPECT_EQ(list_files(top_.path(), false).size(), 1u);
  const std::string pictures = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(holds(pictures, "left out, since pictures are read from .jpg")) << pictures;
  EXPECT_TRUE(holds(pictures, ": 1 .bmp, 2 .gif")) << pictures;
  testing::internal::CaptureStderr();
  EXPECT_EQ(list_files(top_.path(), true).size(), 1u);
  EXPECT_TRUE(holds(testing::internal::GetCapturedStderr(), ": 1 .mp3"));
}

TEST_F(FileList, ALineThatIsNoUtf8IsNamed) {
  const fs::path texts = add("texts.txt");
  core::write_file_atomic(texts, "a dog\r\n\ncaf\xe9 noir\n");
  const std::string text = message_of<DataError>([&] { read_lines(texts); });
  EXPECT_TRUE(holds(text, "line 3 of '" + texts.string() + "' is no UTF-8 text: byte 4 of it is 0xe9")) << text;
  core::write_file_atomic(texts, "a dog\r\n\ncaf\xc3\xa9\n");
  EXPECT_EQ(read_lines(texts), (std::vector<std::string>{"a dog", "", "caf\xc3\xa9"}));
}

}  // namespace
}  // namespace lockstep::infer
