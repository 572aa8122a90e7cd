#include "core/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "core/bus_error.h"
#include "core/error.h"
#include "core/host_name.h"
#include "core/line_reader.h"

namespace lockstep::core {
namespace {
namespace fs = std::filesystem;

TEST(AtomicFile, WritesThroughNoLinkThatWaitsAtItsTemporaryName) {
  const TempDir folder, elsewhere;
  const fs::path victim = elsewhere.path() / "victim", path = folder.path() / "a.txt";
  write_file_atomic(victim, "precious");
  fs::create_symlink(victim, path.string() + fmt::format(".tmp{}-{}", host_name(), ::getpid()));
  write_file_atomic(path, "new");
  EXPECT_EQ(read_file(victim), "precious");
  EXPECT_EQ(read_file(path), "new");
  std::string first, second;  // what an attacker sees once does not tell the next name
  for (std::string* name : {&first, &second}) {
    const AtomicFile file(path);
    for (const auto& entry : fs::directory_iterator(folder.path()))
      if (!entry.is_symlink() && entry.path() != path) *name = entry.path().filename().string();
  }
  EXPECT_NE(first, "");
  EXPECT_NE(first, second);
}

TEST(RegularFile, PipesDevicesAndFoldersAreRefused) {
  const TempDir folder;
  const fs::path pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const fs::path& path : {pipe, fs::path("/dev/zero"), folder.path()}) {
    EXPECT_THROW(read_file(path), EnvironmentError) << path;
    EXPECT_THROW(open_for_reading(path), EnvironmentError) << path;
    EXPECT_THROW(MappedFile{path}, EnvironmentError) << path;
    EXPECT_THROW(LineReader{path}, EnvironmentError) << path;
  }
  write_file_atomic(folder.path() / "file", "content");
  EXPECT_EQ(read_file(folder.path() / "file"), "content");
  EXPECT_NE(read_file("/proc/self/status"), "") << "a regular file without a size";
}

TEST(RegularFile, WhatAUserNamesMayBeAPipe) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const Fd reading(ends[0]);
  {
    const Fd writing(ends[1]);
    ASSERT_EQ(::write(writing.get(), "content", 7), 7);
  }
  const std::string name = fmt::format("/dev/fd/{}", reading.get());  // as bash names <(command)
  EXPECT_THROW(read_file(name), EnvironmentError);
  EXPECT_EQ(read_file_or_pipe(name), "content");
  EXPECT_THROW(read_file_or_pipe("/"), EnvironmentError);
}

TEST(ListFolder, IsSortedAndTellsWhatItCannotRead) {
  const TempDir folder;
  for (const char* name : {"b", "a", "c"}) write_file_atomic(folder.path() / name, "");
  std::error_code failure;
  EXPECT_EQ(list_folder(folder.path(), failure),
            (std::vector<fs::path>{folder.path() / "a", folder.path() / "b", folder.path() / "c"}));
  EXPECT_FALSE(failure);
  EXPECT_TRUE(list_folder(folder.path() / "none", failure).empty());
  EXPECT_EQ(failure, std::errc::no_such_file_or_directory);
}

TEST(BusErrorDeathTest, AMappedFileThatShrinksIsNamed) {
  const TempDir folder;
  const auto read_behind_the_end = [&](const std::string& name) {
    const fs::path path = folder.path() / name;
    write_file_atomic(path, std::string(1 << 16, 'x'));
    report_bus_errors();
    const MappedFile file(path);
    fs::resize_file(path, 0);
    volatile std::byte last = file.bytes().back();
    (void)last;
  };
  EXPECT_EXIT(read_behind_the_end("shrinks.bin"), testing::ExitedWithCode(6),
              "mapped file has become shorter.*shrinks.bin'");
  EXPECT_EXIT(read_behind_the_end("a\x1b[31m\xc2\x9b\x7f.bin"), testing::ExitedWithCode(6),
              "/a[?]\\[31m\xc2[?][?].bin'")
      << "names steer no terminal";
}

TEST(TempDir, AMissingTmpdirIsNamed) {
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before != nullptr ? before : "";
  ::setenv("TMPDIR", "/no/such folder", 1);
  std::string message, hint;
  try {
    const TempDir folder;
  } catch (const EnvironmentError& error) {
    message = error.what();
    hint = error.hint();
  }
  if (before != nullptr)
    ::setenv("TMPDIR", kept.c_str(), 1);
  else
    ::unsetenv("TMPDIR");
  EXPECT_NE(message.find("TMPDIR='/no/such folder'"), std::string::npos) << message;
  EXPECT_NE(hint.find("set TMPDIR"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::core
