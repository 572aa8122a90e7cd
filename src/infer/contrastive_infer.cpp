#include "infer/contrastive_infer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>

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

}  // namespace

void embed(const config::InferOptions& options) {
  Encoder encoder(options, hw::RankInfo{});
  at::Tensor other_NE, text_NE;
  std::vector<core::SafetensorsEntry> entries;
  std::map<std::string, std::string> facts{{"model", options.model}, {"pretrained", options.pretrained}};
  if (!options.input().empty()) {
    const auto files = list_files(options.input(), encoder.is_audio());
    core::Json names = core::Json::array();
    for (const auto& file : files) names.push_back(name_in(options.input(), file));
    facts["files"] = names.dump(-1, ' ', false, core::Json::error_handler_t::replace);
    other_NE = encoder.files(files).contiguous();
    entries.push_back(entry(encoder.is_audio() ? "audio" : "image", other_NE));
  }
  if (!options.texts.empty()) {
    text_NE = encoder.texts(read_lines(options.texts)).contiguous();
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
  const auto captions = encoder.captions(files);
  core::end_progress();
  std::string lines;
  for (size_t i = 0; i < files.size(); ++i) {
    const core::Json line = {{"file", name_in(options.images, files[i])}, {"caption", captions[i]}};
    lines += line.dump(-1, ' ', false, core::Json::error_handler_t::replace) + "\n";
  }
  if (options.output.empty())
    core::print("{}", lines);
  else
    core::write_file_atomic(options.output, lines);
  core::log_info("{} pictures{}", files.size(), options.output.empty() ? "" : " -> " + options.output);
}

void classify(const config::InferOptions& options) {
  Encoder encoder(options, hw::RankInfo{});
  const auto files = list_files(options.input(), encoder.is_audio());
  const auto names = data::read_class_names(options.classnames);
  const auto templates = !options.templates.empty() ? data::read_templates(options.templates)
                         : encoder.is_audio()       ? std::vector<std::string>{tasks::kSoundTemplate}
                                                    : data::read_templates(data::find_clip_assets().openai_templates());
  const auto class_KE = encoder.classes(names, templates);
  const auto other_NE = encoder.files(files);
  core::end_progress();
  const auto probability_NK = (encoder.scale() * other_NE.matmul(class_KE.t())).softmax(1);
  write_class_results(probability_NK, names, files, options);
  core::log_info("{} {}, {} classes{}", files.size(), encoder.what(), names.size(),
                 options.output.empty() ? "" : " -> " + options.output);
}

}  // namespace lockstep::infer
