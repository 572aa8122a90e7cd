#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace lockstep::core {

/// What a program or shared library asks of the dynamic loader.
struct ElfFacts {
  std::vector<std::string> needed;  ///< Names of the libraries it links.
  /// Folders of DT_RPATH and DT_RUNPATH; "$ORIGIN" is replaced by the file's own folder.
  std::vector<std::string> run_path;
  std::string oldest_glibc;  ///< "2.34": newest GLIBC_ symbol version it asks for; "" if none.
};

/// Reads a 64-bit ELF file of this machine's byte order. EnvironmentError when it is not one, or is damaged.
ElfFacts read_elf(const std::filesystem::path& path);
/// The same for the bytes of a file; `path` names it in errors and gives $ORIGIN.
ElfFacts parse_elf(std::span<const std::byte> bytes, const std::filesystem::path& path);

}  // namespace lockstep::core
