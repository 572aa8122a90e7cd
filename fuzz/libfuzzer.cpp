// libFuzzer's side of the targets: LOCKSTEP_FUZZ_TARGET names the one to search. With the one argument --inputs it
// prints the files to begin with, relative to the folder where it stands, which is the repository's; with --max-bytes
// the length of the longest input that is worth making.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "fuzz/targets.h"

namespace {
const lockstep::fuzz::Target* target = nullptr;
}

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const char* name = std::getenv("LOCKSTEP_FUZZ_TARGET");
  for (const auto& one : lockstep::fuzz::searched_targets())
    if (name != nullptr && one.name == name) target = &one;
  if (target == nullptr) {
    std::fprintf(stderr, "LOCKSTEP_FUZZ_TARGET must be one of:");
    for (const auto& one : lockstep::fuzz::searched_targets()) std::fprintf(stderr, " %s", one.name.c_str());
    std::fprintf(stderr, "\n");
    std::exit(2);
  }
  if (*argc > 1 && std::strcmp((*argv)[1], "--inputs") == 0) {
    for (const auto& file : lockstep::fuzz::input_files(*target, ".")) std::printf("%s\n", file.c_str());
    std::exit(0);
  }
  if (*argc > 1 && std::strcmp((*argv)[1], "--max-bytes") == 0) {
    std::printf("%zu\n", target->max_bytes);
    std::exit(0);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lockstep::fuzz::run_target(*target, {reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
