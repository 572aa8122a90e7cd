#include "data/text/json_lines.h"

#include <simdjson.h>

#include <algorithm>

#include "core/error.h"
#include "core/named_file.h"
#include "core/strings.h"

namespace lockstep::data {
namespace {

constexpr const char* kJsonLinesHint =
    "each line must be one JSON object, for example {\"text\": \"...\"}; --json-keys names the field";

std::filesystem::path required(const std::filesystem::path& path) {
  core::require_file(path, "JSON lines file");
  if (path.extension() == ".gz" || path.extension() == ".zst")
    throw UsageError(fmt::format("data: '{}' is compressed, expected JSON lines", path.string()),
                     path.extension() == ".gz" ? "unpack it first, with gunzip -k" : "unpack it first, with unzstd");
  return path;
}

}  // namespace

JsonLines::JsonLines(const std::filesystem::path& path) : path_(required(path)), file_(path) {}

std::vector<JsonLines::Line> JsonLines::next(size_t bytes) {
  const std::string_view text(reinterpret_cast<const char*>(file_.bytes().data()), file_.bytes().size());
  std::vector<Line> lines;
  const size_t stop = std::min(text.size(), at_ + bytes);
  while (at_ < text.size() && (at_ < stop || lines.empty())) {
    const size_t end = std::min(text.find('\n', at_), text.size());
    const std::string_view line = text.substr(at_, end - at_);
    at_ = end + 1;
    ++num_lines_;
    if (!core::trim(line).empty()) lines.push_back({line, num_lines_});
  }
  return lines;
}

struct JsonFieldReader::State {
  simdjson::dom::parser parser;
  std::vector<std::string_view> texts;
};

JsonFieldReader::JsonFieldReader() : state_(std::make_unique<State>()) {}
JsonFieldReader::~JsonFieldReader() = default;

const std::vector<std::string_view>& JsonFieldReader::read(const JsonLines::Line& line,
                                                           const std::filesystem::path& path, std::string_view key) {
  const auto refuse = [&](const std::string& what) {
    throw DataError(fmt::format("data: {}:{}: {}", path.string(), line.number, what), kJsonLinesHint);
  };
  simdjson::dom::object object;
  if (const auto error = state_->parser.parse(line.text.data(), line.text.size()).get(object))
    refuse(fmt::format("not a JSON object: {}", simdjson::error_message(error)));
  const simdjson::dom::element* found = nullptr;
  simdjson::dom::element value;
  std::vector<std::string> keys;
  for (const auto field : object) {
    keys.emplace_back(field.key);
    if (field.key != key) continue;
    if (found != nullptr) refuse(fmt::format("key '{}' occurs twice", key));
    value = field.value;
    found = &value;
  }
  if (found == nullptr)
    refuse(fmt::format("no key '{}', the keys are {}", key, keys.empty() ? "none" : core::join(keys, ", ")));
  state_->texts.clear();
  std::string_view text;
  simdjson::dom::array list;
  if (value.get(text) == simdjson::SUCCESS) {
    state_->texts.push_back(text);
  } else if (value.get(list) == simdjson::SUCCESS) {
    for (const auto part : list) {
      if (part.get(text) != simdjson::SUCCESS)
        refuse(fmt::format("'{}' is a list that holds something other than texts", key));
      state_->texts.push_back(text);
    }
  } else {
    refuse(fmt::format("'{}' is neither a text nor a list of texts", key));
  }
  return state_->texts;
}

}  // namespace lockstep::data
