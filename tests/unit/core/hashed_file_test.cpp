#include "core/hashed_file.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/files.h"
#include "core/hash.h"

namespace lockstep::core {
namespace {

TEST(HashedFile, IsTheFileWhateverItsLength) {
  const TempDir folder;
  const std::filesystem::path path = folder.path() / "file";
  constexpr size_t kPiece = size_t{4} << 20;
  for (const size_t size : {size_t{0}, size_t{1}, kPiece - 1, kPiece, kPiece + 1, 2 * kPiece, 3 * kPiece + 5}) {
    std::string text(size, '\0');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 131 + i / 4096);
    write_file_atomic(path, text);
    for (const FileContent content : {FileContent::kDropped, FileContent::kKept}) {
      const HashedFile file = hash_file(path, content);
      EXPECT_EQ(file.num_bytes, static_cast<int64_t>(size));
      EXPECT_EQ(file.xxh3, xxh3_hex(text)) << size;
      ASSERT_EQ(file.content != nullptr, content == FileContent::kKept);
      if (content == FileContent::kDropped) continue;
      EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(file.bytes().data()), size), text) << size;
    }
  }
  EXPECT_THROW(hash_file(folder.path() / "none"), EnvironmentError);
}

}  // namespace
}  // namespace lockstep::core
