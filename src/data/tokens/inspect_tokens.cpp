#include "data/tokens/inspect_tokens.h"

#include <algorithm>
#include <limits>

#include "data/tokens/indexed_dataset.h"

namespace lockstep::data {

TokenReport inspect_tokens(const std::filesystem::path& prefix, int64_t vocab_size) {
  constexpr size_t kMaxShown = 32;
  const IndexedDataset files(prefix);
  TokenReport report{.prefix = files.prefix().string(),
                     .type = token_type_name(files.type()),
                     .num_documents = files.num_documents(),
                     .num_sequences = files.num_sequences(),
                     .num_tokens = files.num_tokens(),
                     .min_id = std::numeric_limits<int32_t>::max(),
                     .first_ids = {}};
  const int64_t limit = vocab_size > 0 ? vocab_size : int64_t{1} << 31;
  std::vector<int32_t> lengths, ids;
  for (int64_t i = 0; i < files.num_sequences(); ++i) {
    lengths.push_back(files.length(i));
    ids.resize(static_cast<size_t>(lengths.back()));
    files.read(i, 0, ids, limit);
    for (const int32_t id : ids) {
      report.min_id = std::min<int64_t>(report.min_id, id);
      report.max_id = std::max<int64_t>(report.max_id, id);
    }
    report.num_empty += ids.empty() ? 1 : 0;
    if (files.num_documents() > 0 && i < files.document_begin(1)) {
      const size_t shown = std::min(kMaxShown - report.first_ids.size(), ids.size());
      report.first_ids.insert(report.first_ids.end(), ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(shown));
    }
  }
  if (report.num_tokens == 0) report.min_id = 0;
  if (lengths.empty()) return report;
  std::sort(lengths.begin(), lengths.end());
  report.min_length = lengths.front();
  report.median_length = lengths[lengths.size() / 2];
  report.max_length = lengths.back();
  return report;
}

core::Json TokenReport::to_json() const {
  return {{"prefix", prefix},           {"type", type},
          {"documents", num_documents}, {"sequences", num_sequences},
          {"tokens", num_tokens},       {"empty_sequences", num_empty},
          {"min_length", min_length},   {"median_length", median_length},
          {"max_length", max_length},   {"min_id", min_id},
          {"max_id", max_id},           {"first_ids", first_ids}};
}

}  // namespace lockstep::data
