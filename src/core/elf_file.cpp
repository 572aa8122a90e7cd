#include "core/elf_file.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "core/error.h"
#include "core/files.h"
#include "core/strings.h"

namespace lockstep::core {
namespace {
constexpr size_t kMaxEntries = 100'000;  // of any table; a damaged file must not keep us busy

class ElfReader {
 public:
  ElfReader(std::span<const std::byte> bytes, const std::filesystem::path& path) : bytes_(bytes), path_(path) {
    const auto ident = at<std::array<unsigned char, EI_NIDENT>>(0);
    constexpr int kOwnOrder = std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
    if (std::memcmp(ident.data(), ELFMAG, SELFMAG) != 0 || ident[EI_CLASS] != ELFCLASS64 || ident[EI_DATA] != kOwnOrder)
      fail("is no 64-bit ELF file of this machine");
    const auto header = at<Elf64_Ehdr>(0);
    if (header.e_shnum > 0 && header.e_shentsize != sizeof(Elf64_Shdr)) fail("has section headers of an unknown size");
    for (size_t i = 0; i < header.e_shnum; ++i)
      sections_.push_back(at<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr)));
  }

  ElfFacts facts() const {
    ElfFacts facts;
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type == SHT_DYNAMIC) read_dynamic(section, facts);
      if (section.sh_type == SHT_GNU_verneed) read_versions(section, facts);
    }
    return facts;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw EnvironmentError(fmt::format("core: '{}' {}", path_.string(), what), "build or unpack the program again");
  }

  template <typename T> T at(uint64_t offset) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T))
      fail(fmt::format("ends inside a table: bytes={}", bytes_.size()));
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }

  std::string text_at(uint32_t string_section, uint64_t offset) const {
    if (string_section >= sections_.size()) fail("names a section that it does not have");
    const Elf64_Shdr& strings = sections_[string_section];
    if (strings.sh_offset > bytes_.size() || offset > bytes_.size() - strings.sh_offset)
      fail("names a text outside the file");
    const char* begin = reinterpret_cast<const char*>(bytes_.data()) + strings.sh_offset + offset;
    const size_t limit = bytes_.size() - strings.sh_offset - offset;
    const size_t length = strnlen(begin, limit);
    if (length == limit) fail("has a text without an end");
    return {begin, length};
  }

  void read_dynamic(const Elf64_Shdr& section, ElfFacts& facts) const {
    for (uint64_t i = 0; i < std::min<uint64_t>(section.sh_size / sizeof(Elf64_Dyn), kMaxEntries); ++i) {
      const auto entry = at<Elf64_Dyn>(section.sh_offset + i * sizeof(Elf64_Dyn));
      if (entry.d_tag == DT_NULL) return;
      if (entry.d_tag == DT_NEEDED) facts.needed.push_back(text_at(section.sh_link, entry.d_un.d_val));
      if (entry.d_tag != DT_RPATH && entry.d_tag != DT_RUNPATH) continue;
      for (std::string folder : split(text_at(section.sh_link, entry.d_un.d_val), ":")) {
        for (const char* origin : {"$ORIGIN", "${ORIGIN}"})
          folder = replace_all(folder, origin, std::filesystem::absolute(path_).parent_path().string());
        if (!folder.empty()) facts.run_path.push_back(folder);
      }
    }
  }

  void read_versions(const Elf64_Shdr& section, ElfFacts& facts) const {
    constexpr std::string_view kPrefix = "GLIBC_";
    size_t num_entries = 0;
    for (uint64_t library_at = section.sh_offset;;) {
      const auto library = at<Elf64_Verneed>(library_at);
      uint64_t symbol_at = library_at + library.vn_aux;
      for (size_t i = 0; i < library.vn_cnt; ++i) {
        const auto symbol = at<Elf64_Vernaux>(symbol_at);
        const std::string version = text_at(section.sh_link, symbol.vna_name);
        if (starts_with(version, kPrefix) && natural_less(facts.oldest_glibc, version.substr(kPrefix.size())))
          facts.oldest_glibc = version.substr(kPrefix.size());
        if (++num_entries > kMaxEntries) fail("has an endless table of symbol versions");
        if (symbol.vna_next == 0) break;
        symbol_at += symbol.vna_next;
      }
      if (library.vn_next == 0) return;
      if (++num_entries > kMaxEntries) fail("has an endless table of symbol versions");
      library_at += library.vn_next;
    }
  }

  std::span<const std::byte> bytes_;
  std::filesystem::path path_;
  std::vector<Elf64_Shdr> sections_;
};
}  // namespace

ElfFacts parse_elf(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  return ElfReader(bytes, path).facts();
}

ElfFacts read_elf(const std::filesystem::path& path) {
  const MappedFile file(path);
  return parse_elf(file.bytes(), path);
}

}  // namespace lockstep::core
