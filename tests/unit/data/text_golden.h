#pragma once
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/env.h"
#include "core/error.h"

namespace lockstep::data {

struct TextCase {
  std::string text, clean;
  std::vector<int32_t> ids;
};

/// Content of a gzipped file.
inline std::string read_golden_text(const std::string& path) {
  const gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) throw EnvironmentError("tests: cannot open " + path);
  std::string content, block(1 << 16, '\0');
  for (int got = 0; (got = gzread(file, block.data(), static_cast<unsigned>(block.size()))) > 0;) {
    content.append(block, 0, static_cast<size_t>(got));
  }
  gzclose(file);
  return content;
}

/// The JSON values of a gzipped file of lines.
inline std::vector<nlohmann::json> read_golden_lines(const std::string& path) {
  const std::string content = read_golden_text(path);
  std::vector<nlohmann::json> lines;
  for (size_t start = 0; start < content.size();) {
    const size_t end = std::min(content.find('\n', start), content.size());
    lines.push_back(nlohmann::json::parse(content.substr(start, end - start)));
    start = end + 1;
  }
  return lines;
}

/// Cases of ref/make_tokenizer_goldens.py: the committed ones, or those of the file that LOCKSTEP_TOKENIZER_CASES
/// names.
inline std::vector<TextCase> read_text_cases() {
  const std::string path =
      core::env("LOCKSTEP_TOKENIZER_CASES").value_or(std::string(LOCKSTEP_GOLDEN_DIR) + "/tokenizer/cases.jsonl.gz");
  std::vector<TextCase> cases;
  for (const nlohmann::json& json : read_golden_lines(path))
    cases.push_back({json.at("text"), json.at("clean"), json.at("ids")});
  return cases;
}

/// Every byte outside printable ASCII as \xNN, so that a failure can be read and typed again.
inline std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool plain = c >= 0x20 && c < 0x7F && c != '\\';
    out += plain ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return out;
}

}  // namespace lockstep::data
