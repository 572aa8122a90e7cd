#include "core/elf_file.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "core/error.h"
#include "core/files.h"
#include "core/rng.h"

namespace lockstep::core {
namespace {

template <typename T> void append(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// A program of three sections (texts, dynamic table, symbol versions) that links libx.so, has two run paths and asks
/// for GLIBC_2.9 and 2.34.
std::string small_elf() {
  constexpr char kTexts[] = "\0libx.so\0$ORIGIN/../lib:/opt/x\0GLIBC_2.9\0GLIBC_2.34\0OTHER_9.9\0";
  const std::string texts(kTexts, sizeof kTexts);
  const auto offset_of = [&](const char* text) { return texts.find(text); };
  const uint64_t texts_at = sizeof(Elf64_Ehdr), dynamic_at = texts_at + texts.size();
  std::string dynamic;
  append(dynamic, Elf64_Dyn{.d_tag = DT_NEEDED, .d_un = {.d_val = offset_of("libx")}});
  append(dynamic, Elf64_Dyn{.d_tag = DT_RUNPATH, .d_un = {.d_val = offset_of("$ORIGIN")}});
  append(dynamic, Elf64_Dyn{.d_tag = DT_NULL, .d_un = {.d_val = 0}});
  std::string versions;
  append(versions,
         Elf64_Verneed{.vn_version = 1, .vn_cnt = 3, .vn_file = 1, .vn_aux = sizeof(Elf64_Verneed), .vn_next = 0});
  for (const char* name : {"GLIBC_2.34", "GLIBC_2.9", "OTHER"})
    append(versions, Elf64_Vernaux{.vna_hash = 0,
                                   .vna_flags = 0,
                                   .vna_other = 0,
                                   .vna_name = static_cast<Elf64_Word>(offset_of(name)),
                                   .vna_next = name[0] == 'O' ? 0u : static_cast<Elf64_Word>(sizeof(Elf64_Vernaux))});
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
  header.e_shoff = dynamic_at + dynamic.size() + versions.size();
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 3;
  std::string bytes;
  append(bytes, header);
  bytes += texts + dynamic + versions;
  Elf64_Shdr section{};
  section.sh_type = SHT_STRTAB, section.sh_offset = texts_at, section.sh_size = texts.size();
  append(bytes, section);
  section.sh_type = SHT_DYNAMIC, section.sh_offset = dynamic_at, section.sh_size = dynamic.size();
  append(bytes, section);
  section.sh_type = SHT_GNU_verneed, section.sh_offset = dynamic_at + dynamic.size(), section.sh_size = versions.size();
  append(bytes, section);
  return bytes;
}

void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

TEST(ElfFile, ReadsLibrariesRunPathAndTheNewestGlibcVersion) {
  const TempDir folder;
  write_bytes(folder.path() / "program", small_elf());
  const ElfFacts facts = read_elf(folder.path() / "program");
  EXPECT_EQ(facts.needed, std::vector<std::string>{"libx.so"});
  EXPECT_EQ(facts.run_path, (std::vector<std::string>{folder.path().string() + "/../lib", "/opt/x"}));
  EXPECT_EQ(facts.oldest_glibc, "2.34");  // 2.9 is older, though its text is greater
}

TEST(ElfFile, ReadsThisProgram) {
  const ElfFacts facts = read_elf(std::filesystem::read_symlink("/proc/self/exe"));
  EXPECT_EQ(std::count(facts.needed.begin(), facts.needed.end(), "libc.so.6"), 1);
  ASSERT_EQ(facts.oldest_glibc.substr(0, 2), "2.");
  EXPECT_GT(std::stoi(facts.oldest_glibc.substr(2)), 2);
}

TEST(ElfFile, RefusesOtherFiles) {
  const TempDir folder;
  for (const std::string& content :
       {std::string("#!/bin/sh\necho this is a script of some length and no program\n"), std::string(200, '\0')}) {
    write_bytes(folder.path() / "other", content);
    EXPECT_THROW(read_elf(folder.path() / "other"), EnvironmentError);
  }
  EXPECT_THROW(read_elf(folder.path() / "missing"), EnvironmentError);
}

TEST(ElfFile, DamagedFilesAreReadOrRefusedAndNeverCrashOrHang) {
  const std::string whole = small_elf();
  CounterRng rng(stream_key({7, 1}));
  int num_refused = 0, num_read = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    std::string bytes = whole;
    for (uint64_t i = 0; i <= rng.below(4); ++i) bytes[rng.below(bytes.size())] = static_cast<char>(rng.below(256));
    if (trial % 4 == 0) bytes.resize(rng.below(bytes.size()));
    try {
      parse_elf(std::as_bytes(std::span(bytes)), "damaged");
      ++num_read;
    } catch (const EnvironmentError&) {
      ++num_refused;
    }
  }
  EXPECT_GT(num_refused, 5000);
  EXPECT_GT(num_read, 500);
}

}  // namespace
}  // namespace lockstep::core
