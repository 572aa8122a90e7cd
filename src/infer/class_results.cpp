#include "infer/class_results.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "core/files.h"
#include "core/json.h"
#include "infer/file_list.h"
#include "infer/print_lines.h"

namespace lockstep::infer {

void write_class_results(const at::Tensor& probability_NK, const std::vector<std::string>& names,
                         const std::vector<std::filesystem::path>& files, const BadSamples& bad,
                         const config::InferOptions& options) {
  const auto [value, index] =
      probability_NK.topk(std::min<int64_t>(options.top_k, static_cast<int64_t>(names.size())), 1);
  std::string lines;
  for (size_t file = 0; file < files.size(); ++file) {
    if (const auto found = bad.by_id().find(file); found != bad.by_id().end()) {
      const core::Json line = {{"file", name_in(options.input(), files[file])}, {"error", found->second.reason}};
      lines += line.dump(-1, ' ', false, core::Json::error_handler_t::replace) + "\n";
      continue;
    }
    core::Json classes = core::Json::array();
    for (int64_t k = 0; k < index.size(1); ++k)
      classes.push_back({{"name", names[static_cast<size_t>(index[static_cast<int64_t>(file)][k].item<int64_t>())]},
                         {"probability", value[static_cast<int64_t>(file)][k].item<double>()}});
    lines += core::Json{{"file", name_in(options.input(), files[file])}, {"classes", classes}}.dump() + "\n";
  }
  if (!options.output.empty()) return core::write_file_atomic(options.output, lines);
  print_lines(lines);
}

}  // namespace lockstep::infer
