#include "data/text/bpe_model.h"

#include <algorithm>

#include "core/error.h"
#include "core/json.h"
#include "core/named_file.h"
#include "core/strings.h"
#include "data/text/text_pattern.h"

namespace lockstep::data {
namespace {

using Object = core::Json;

constexpr int32_t kMaxIds = 1 << 22;

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what, const std::string& hint = "") {
  throw DataError(fmt::format("data: tokenizer file '{}': {}", path.string(), what), hint);
}

Object parse(const std::filesystem::path& path) {
  const std::string text = core::read_named_file(path, "tokenizer file");
  try {
    return core::parse_json(text, path.string());
  } catch (const DataError& error) {
    refuse(path, fmt::format("not valid JSON: {}", error.what()), "copy the file again; it is cut or damaged");
  }
}

/// Builds a model from parsed files; complains in the name of the file at hand.
class Builder {
 public:
  Builder(BpeModel& model, std::filesystem::path path) : model_(model), path_(std::move(path)) {}

  void read_vocabulary(const Object& vocab) {
    if (!vocab.is_object() || vocab.empty())
      refuse(path_, "the vocabulary is no object of tokens, expected {\"token\": id, ...}");
    for (const auto& [name, id] : vocab.items())
      set_token(checked_id(id, name), name, unspell_bytes(name).value_or(name));
    model_.ids_by_bytes.reserve(vocab.size());
    for (const auto& [name, id] : vocab.items())
      model_.ids_by_bytes.emplace(model_.tokens[static_cast<size_t>(id.get<int32_t>())], id.get<int32_t>());
    for (int byte = 0; byte < 256; ++byte) {
      const auto found = model_.ids_by_bytes.find(std::string(1, static_cast<char>(byte)));
      model_.byte_ids[static_cast<size_t>(byte)] = found == model_.ids_by_bytes.end() ? -1 : found->second;
    }
  }

  /// `place` names the merge in errors: "line 7".
  void add_merge(const std::string& left, const std::string& right, const std::string& place) {
    const auto find = [&](const std::string& name) {
      const auto found = model_.ids_by_name.find(name);
      if (found == model_.ids_by_name.end())
        refuse(path_, fmt::format("{}: '{}' is not in the vocabulary", place, name),
               "vocabulary and merges must come from one model");
      return found->second;
    };
    const int32_t left_id = find(left), right_id = find(right), merged_id = find(left + right);
    model_.merges.insert_or_assign(bpe_pair_key(left_id, right_id), BpeMerge{num_merges_++, merged_id});
  }

  void add_token(AddedToken token) {
    if (token.content.empty()) refuse(path_, "an added token is empty");
    const auto known = model_.ids_by_name.find(token.content);
    if (known != model_.ids_by_name.end() && known->second != token.id)
      refuse(path_, fmt::format("the added token '{}' has id {}, but the vocabulary gives it {}", token.content,
                                token.id, known->second));
    if (known == model_.ids_by_name.end() && token.id < static_cast<int32_t>(model_.tokens.size()) &&
        !model_.tokens[static_cast<size_t>(token.id)].empty())
      refuse(path_, fmt::format("the added token '{}' takes id {}, which another token has", token.content, token.id));
    if (known == model_.ids_by_name.end()) set_token(token.id, token.content, token.content);
    model_.tokens[static_cast<size_t>(token.id)] = token.content;
    model_.added.push_back(std::move(token));
  }

  int32_t checked_id(const Object& id, const std::string& name) const {
    const auto number = core::integer_of(id);
    if (!number || *number < 0 || *number >= kMaxIds)
      refuse(path_,
             fmt::format("token '{}' has id {}, expected a whole number from 0 to {}", name, id.dump(), kMaxIds - 1));
    return static_cast<int32_t>(*number);
  }

 private:
  void set_token(int32_t id, const std::string& name, std::string bytes) {
    if (name.empty()) refuse(path_, fmt::format("token {} is empty", id));
    if (static_cast<size_t>(id) >= model_.tokens.size()) model_.tokens.resize(static_cast<size_t>(id) + 1);
    std::string& place = model_.tokens[static_cast<size_t>(id)];
    if (!place.empty()) refuse(path_, fmt::format("two tokens have id {}: one of them is '{}'", id, name));
    place = std::move(bytes);
    model_.ids_by_name.emplace(name, id);
  }

  BpeModel& model_;
  std::filesystem::path path_;
  int32_t num_merges_ = 0;
};

/// The parts of a tokenizer.json around its model.
class PipelineReader {
 public:
  PipelineReader(BpeModel& model, const std::filesystem::path& path) : model_(model), path_(path) {}

  void read_normalizer(const Object& json) {
    for_each_step(json, "normalizers", [&](const Object& step) {
      const std::string type = step.at("type");
      if (type != "NFC" && type != "NFKC")
        refuse(path_, fmt::format("normalizer '{}' is not supported, expected none, NFC or NFKC", type), kOtherModels);
      if (type == "NFKC" || model_.form == TextForm::kAsIs)
        model_.form = type == "NFC" ? TextForm::kNfc : TextForm::kNfkc;
    });
  }

  void read_pre_tokenizer(const Object& json) {
    bool has_byte_level = false;
    for_each_step(json, "pretokenizers", [&](const Object& step) {
      const std::string type = step.at("type");
      if (has_byte_level)
        refuse(path_, fmt::format("pre-tokenizer '{}' comes behind ByteLevel, expected ByteLevel last", type),
               kOtherModels);
      if (type == "Split") {
        add_split(step);
      } else if (type == "Digits") {
        model_.splits.push_back(
            {pattern_from_oniguruma(step.at("individual_digits").get<bool>() ? "\\p{N}" : "\\p{N}+")});
      } else if (type == "ByteLevel") {
        has_byte_level = true;
        model_.adds_prefix_space = step.at("add_prefix_space").get<bool>();
        if (model_.adds_prefix_space && !model_.splits.empty())
          refuse(path_,
                 "ByteLevel behind another split adds a space to each piece (add_prefix_space=true), which is not "
                 "supported");
        if (step.value("use_regex", true)) model_.splits.push_back({pattern_from_oniguruma(kGpt2Pattern)});
      } else {
        refuse(path_, fmt::format("pre-tokenizer '{}' is not supported, expected Split, Digits or ByteLevel", type),
               kOtherModels);
      }
    });
    if (!has_byte_level) refuse(path_, "it has no ByteLevel pre-tokenizer, so it is no byte-level BPE", kOtherModels);
  }

 private:
  static constexpr const char* kOtherModels =
      "byte-level BPE (GPT-2, RoBERTa, Llama 3, Qwen and the like) is read from tokenizer.json; SentencePiece models "
      "from their .model file";

  /// Calls `use` for the step, or for each step of a sequence; null is none.
  template <typename Use> void for_each_step(const Object& json, const char* list, const Use& use) {
    if (json.is_null()) return;
    if (json.at("type") == "Sequence") {
      for (const Object& step : json.at(list)) for_each_step(step, list, use);
    } else {
      use(json);
    }
  }

  void add_split(const Object& step) {
    const std::string behavior = step.at("behavior");
    if (behavior != "Isolated")
      refuse(path_, fmt::format("Split with behavior '{}' is not supported, expected Isolated", behavior));
    const Object& pattern = step.at("pattern");
    if (pattern.contains("Regex")) {
      model_.splits.push_back({pattern_from_oniguruma(pattern.at("Regex").get<std::string>())});
    } else {
      model_.splits.push_back({quote_pattern(pattern.at("String").get<std::string>())});
    }
  }

  BpeModel& model_;
  const std::filesystem::path& path_;
};

void check_model_settings(const Object& model, const std::filesystem::path& path) {
  // Files of older versions leave the type out.
  if (const std::string type = model.value("type", "BPE"); type != "BPE")
    refuse(path, fmt::format("the model is '{}', expected BPE", type));
  const auto is_set = [&](const char* key) {
    const auto found = model.find(key);
    return found != model.end() && !found->is_null() && *found != "" && *found != false && *found != 0;
  };
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"})
    if (is_set(key)) refuse(path, fmt::format("the model's {} is {}, expected none", key, model.at(key).dump()));
}

void read_merges(const Object& merges, Builder& builder) {
  for (size_t i = 0; i < merges.size(); ++i) {
    const Object& merge = merges.at(i);
    const std::string place = fmt::format("merge {}", i);
    if (merge.is_array()) {
      builder.add_merge(merge.at(0), merge.at(1), place);
      continue;
    }
    const auto text = merge.get<std::string>();
    const size_t gap = text.find(' ');
    builder.add_merge(text.substr(0, gap), gap == std::string::npos ? "" : text.substr(gap + 1), place);
  }
}

BpeModel read_tokenizer(const Object& json, const std::filesystem::path& path) {
  BpeModel model;
  Builder builder(model, path);
  const Object& inner = json.at("model");
  check_model_settings(inner, path);
  builder.read_vocabulary(inner.at("vocab"));
  read_merges(inner.at("merges"), builder);
  for (const Object& token : json.value("added_tokens", Object::array())) {
    const std::string content = token.at("content");
    builder.add_token({.id = builder.checked_id(token.at("id"), content),
                       .content = content,
                       .single_word = token.value("single_word", false),
                       .lstrip = token.value("lstrip", false),
                       .rstrip = token.value("rstrip", false),
                       .is_normalized = token.value("normalized", false),
                       .is_special = token.value("special", false)});
  }
  if (const auto unknown = inner.find("unk_token"); unknown != inner.end() && !unknown->is_null()) {
    const auto found = model.ids_by_name.find(unknown->get<std::string>());
    if (found == model.ids_by_name.end())
      refuse(path, fmt::format("unk_token {} is not in the vocabulary", unknown->dump()));
    model.unknown_id = found->second;
  }
  model.fuses_unknown = inner.value("fuse_unk", false);
  model.ignores_merges = inner.value("ignore_merges", false);
  PipelineReader pipeline(model, path);
  pipeline.read_normalizer(json.value("normalizer", Object()));
  pipeline.read_pre_tokenizer(json.value("pre_tokenizer", Object()));
  return model;
}

}  // namespace

BpeModel read_bpe_files(const std::filesystem::path& vocab_json, const std::filesystem::path& merges_txt,
                        const std::vector<std::string>& special_tokens) {
  BpeModel model;
  Builder(model, vocab_json).read_vocabulary(parse(vocab_json));
  Builder builder(model, merges_txt);
  const std::string text = core::read_named_file(merges_txt, "tokenizer file");
  int64_t line_number = 0;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    std::string line = text.substr(start, end - start);
    start = end + 1;
    ++line_number;
    if (core::ends_with(line, "\r")) line.pop_back();
    if (core::starts_with(line, "#version") || (line.empty() && start >= text.size())) continue;
    const size_t gap = line.find(' ');
    if (gap == std::string::npos || line.find(' ', gap + 1) != std::string::npos)
      refuse(merges_txt,
             fmt::format("line {}: two symbols and one space expected, bytes={}", line_number, line.size()));
    builder.add_merge(line.substr(0, gap), line.substr(gap + 1), fmt::format("line {}", line_number));
  }
  for (const std::string& name : special_tokens) {
    const auto found = model.ids_by_name.find(name);
    if (found != model.ids_by_name.end()) builder.add_token({.id = found->second, .content = name, .is_special = true});
  }
  model.splits.push_back({pattern_from_oniguruma(kGpt2Pattern)});
  return model;
}

BpeModel read_tokenizer_json(const std::filesystem::path& path) {
  const Object json = parse(path);
  try {
    return read_tokenizer(json, path);
  } catch (const Object::exception& error) {
    refuse(path, fmt::format("not as a tokenizer.json should be: {}", error.what()),
           "expected the file that Hugging Face's tokenizers writes, with model, vocab, merges and pre_tokenizer");
  }
}

BpeModel open_bpe_model(const std::filesystem::path& path, const std::vector<std::string>& special_tokens) {
  if (!std::filesystem::is_directory(path)) return read_tokenizer_json(path);
  if (std::filesystem::exists(path / "tokenizer.json")) return read_tokenizer_json(path / "tokenizer.json");
  if (std::filesystem::exists(path / "vocab.json"))
    return read_bpe_files(path / "vocab.json", path / "merges.txt", special_tokens);
  throw UsageError(
      fmt::format("data: folder '{}' holds no tokenizer: neither tokenizer.json nor vocab.json", path.string()),
      "name a folder as Hugging Face's save_pretrained writes it, or a tokenizer.json");
}

}  // namespace lockstep::data
