#include "cli/front/overview.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/common/version.h"
#include "cli/front/engine_exec.h"
#include "commands/commands.h"
#include "core/elf_file.h"
#include "core/json.h"
#include "core/strings.h"

namespace lockstep::cli {
namespace {
std::string command_line(const std::string& name, const std::string& summary) {
  return fmt::format("  {:<18}{}\n", name, summary);
}

std::string or_none(const std::string& text, const char* none) { return text.empty() ? none : text; }

/// Newest GLIBC_ symbol version over both programs.
std::string oldest_glibc() {
  std::string newest;
  for (const auto& program : {own_program(), engine_path()}) {
    if (!std::filesystem::exists(program)) continue;
    const std::string version = core::read_elf(program).oldest_glibc;
    if (core::natural_less(newest, version)) newest = version;
  }
  return newest;
}
}  // namespace

std::string overview_text() {
  std::string text =
      "lockstep trains CLIP, CLAP, GPT and ImageNet classifiers on one to many devices,\nand measures how well that "
      "scales.\n\n"
      "Usage: lockstep COMMAND [FLAGS]\n\nCommands\n";
  for (const commands::CommandInfo& info : commands::command_table())
    if (info.is_implemented) text += command_line(info.name, info.summary);
  text +=
      "\nExamples\n"
      "  lockstep data make-shapes --help\n"
      "  lockstep train clip --train-data 'd/train-{000000..000019}.tar' --model m.json\n"
      "  lockstep launch --nproc-per-node 2 -- train clip --config recipe.toml\n"
      "  lockstep train gpt --model gpt2 --mock-data --train-iters 10 --dry-run\n"
      "  lockstep train clap --dataset-type synthetic-audio --train-num-samples 640\n"
      "  lockstep report logs/*\n"
      "\n"
      "`lockstep COMMAND --help` explains a command, `lockstep --version` the build.\n"
      "Exit codes: 0 ok, 1 internal, 2 usage, 3 communication, 4 data, 5 checkpoint,\n"
      "6 environment, 75 stopped on request (run again with --resume latest).\n";
  return text;
}

std::string word_help_text(const std::string& word) {
  if (commands::find_command(word) != nullptr) return "";  // a command by itself explains itself
  std::string text;
  for (const commands::CommandInfo& info : commands::command_table())
    if (info.is_implemented && core::starts_with(info.name, word + " ")) text += command_line(info.name, info.summary);
  if (text.empty()) return "";
  return fmt::format("Usage: lockstep {} COMMAND [FLAGS]\n\n{}\n`lockstep {} COMMAND --help` explains each.\n", word,
                     text, word);
}

std::string version_text(bool as_json) {
  const VersionInfo info = version_info();
  const std::string glibc = oldest_glibc();
  if (as_json) {
    const auto text_or_null = [](const std::string& text) {
      return text.empty() ? core::Json(nullptr) : core::Json(text);
    };
    const core::Json json = {
        {"version", info.version},         {"commit", info.commit},           {"libtorch", text_or_null(info.libtorch)},
        {"cuda", text_or_null(info.cuda)}, {"nccl", text_or_null(info.nccl)}, {"glibc_min", glibc}};
    return json.dump(2) + "\n";
  }
  const bool has_engine = !info.libtorch.empty();
  return fmt::format(
      "lockstep {}\n"
      "  commit    {}\n"
      "  LibTorch  {}\n"
      "  CUDA      {}\n"
      "  NCCL      {}\n"
      "  glibc     {} or newer (symbol versions of {})\n",
      info.version, info.commit, or_none(info.libtorch, "none: built without lockstep-engine"),
      or_none(info.cuda, has_engine ? "none: LibTorch without CUDA" : "none"), or_none(info.nccl, "none"), glibc,
      std::filesystem::exists(engine_path()) ? "lockstep and lockstep-engine" : "lockstep");
}

}  // namespace lockstep::cli
