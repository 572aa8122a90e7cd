#include "infer/contrastive_infer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>

#include "core/counted.h"
#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "core/log.h"
#include "core/print.h"
#include "core/safetensors.h"
#include "data/text/class_names.h"
#include "data/text/clip_assets.h"
#include "infer/class_results.h"
#include "infer/encoder.h"
#include "infer/file_list.h"
#include "tasks/contrastive/engine/contrastive_data.h"

namespace lockstep::infer {
namespace {

core::SafetensorsEntry entry(const std::string& name, const at::Tensor& feature_NE) {
  return {
      .name = name,
      .dtype = "F32",
      .shape = feature_NE.sizes().vec(),
      .bytes = std::as_bytes(std::span(feature_NE.const_data_ptr<float>(), static_cast<size_t>(feature_NE.numel())))};
}

/// Names of the files that can be used; `kept`: their places.
core::Json list_of(const std::string& input, const std::vector<std::filesystem::path>& files, const BadSamples& bad,
                   std::vector<int64_t>& kept) {
  core::Json names = core::Json::array();
  for (size_t i = 0; i < files.size(); ++i) {
    if (bad.by_id().contains(i)) continue;
    names.push_back(name_in(input, files[i]));
    kept.push_back(static_cast<int64_t>(i));
  }
  return names;
}

core::Json reasons_of(const std::string& input, const std::vector<std::filesystem::path>& files,
                      const BadSamples& bad) {
  core::Json list = core::Json::array();
  for (const auto& [id, sample] : bad.by_id())
    list.push_back({{"key", name_in(input, files[static_cast<size_t>(id)])}, {"reason", sample.reason}});
  return list;
}

/// What a reader may not expect: texts are cut, as in training.
void tell_cut(const std::vector<size_t>& cut, size_t num_texts, const config::InferOptions& options,
              int64_t context_length) {
  if (cut.empty()) return;
  core::log_warning(
      "infer: {} of {} texts of '{}' are longer than the {} tokens of '{}' and are cut, the first is line {}",
      cut.size(), num_texts, options.texts, context_length, options.model, cut.front() + 1);
}

std::string text_of(const core::Json& json) { return json.dump(-1, ' ', false, core::Json::error_handler_t::replace); }

}  // namespace

void embed(const config::InferOptions& options) {
  Encoder encoder(options, hw::RankInfo{});
  at::Tensor other_NE, text_NE;
  std::vector<core::SafetensorsEntry> entries;
  std::map<std::string, std::string> facts{{"model", options.model}, {"pretrained", options.pretrained}};
  const core::Json origin = encoder.origin(!options.texts.empty());
  for (const auto& [name, value] : origin.items())
    facts[name] = value.is_string() ? value.get<std::string>() : value.dump();
  if (!options.input().empty()) {
    const auto files = list_files(options.input(), encoder.is_audio());
    BadSamples bad;
    std::vector<int64_t> kept;
    const at::Tensor all_NE = encoder.files(files, bad);
    core::end_progress();
    tell_bad(bad, files.size());
    facts["files"] = text_of(list_of(options.input(), files, bad, kept));
    facts["bad"] = text_of(reasons_of(options.input(), files, bad));
    other_NE = all_NE.index_select(0, at::tensor(kept, at::kLong)).contiguous();
    entries.push_back(entry(encoder.is_audio() ? "audio" : "image", other_NE));
  }
  if (!options.texts.empty()) {
    const std::vector<std::string> lines = read_lines(options.texts);
    const std::vector<size_t> cut = encoder.cut_texts(lines);
    tell_cut(cut, lines.size(), options, encoder.shape().context_length());
    facts["cut_texts"] = core::Json(cut).dump();
    text_NE = encoder.texts(lines).contiguous();
    entries.push_back(entry("text", text_NE));
  }
  core::end_progress();
  core::write_safetensors(options.output, entries, facts);
  for (const auto& written : entries)
    core::log_info("{}: {} embeddings of width {} -> {}", written.name, written.shape[0], written.shape[1],
                   options.output);
}

void caption(const config::InferOptions& options) {
  Encoder encoder(options, hw::RankInfo{});
  const auto files = list_files(options.images, /*is_audio=*/false);
  BadSamples bad;
  const auto captions = encoder.captions(files, bad);
  core::end_progress();
  tell_bad(bad, files.size());
  std::string lines;
  for (size_t i = 0; i < files.size(); ++i) {
    core::Json line = {{"file", name_in(options.images, files[i])}};
    if (const auto found = bad.by_id().find(i); found != bad.by_id().end())
      line["error"] = found->second.reason;
    else
      line["caption"] = captions[i];
    lines += text_of(line) + "\n";
  }
  if (options.output.empty())
    core::print("{}", lines);
  else
    core::write_file_atomic(options.output, lines);
  core::log_info("{}{}", core::counted(files.size() - bad.by_id().size(), "picture"),
                 options.output.empty() ? "" : " -> " + options.output);
}

void classify(const config::InferOptions& options) {
  Encoder encoder(options, hw::RankInfo{});
  const auto files = list_files(options.input(), encoder.is_audio());
  const auto names = data::read_class_names(options.classnames);
  const auto templates = !options.templates.empty() ? data::read_templates(options.templates)
                         : encoder.is_audio()       ? std::vector<std::string>{tasks::kSoundTemplate}
                                                    : data::read_templates(data::find_clip_assets().openai_templates());
  const auto class_KE = encoder.classes(names, templates);
  BadSamples bad;
  const auto other_NE = encoder.files(files, bad);
  core::end_progress();
  tell_bad(bad, files.size());
  const auto probability_NK = (encoder.scale() * other_NE.matmul(class_KE.t())).softmax(1);
  write_class_results(probability_NK, names, files, bad, options);
  core::log_info("{} {}, {}{}", files.size() - bad.by_id().size(), encoder.what(),
                 core::counted(names.size(), "class", "classes"),
                 options.output.empty() ? "" : " -> " + options.output);
}

}  // namespace lockstep::infer
