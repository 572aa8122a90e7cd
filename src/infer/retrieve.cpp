// Letters: Q queries, N rows, E width.
#include "infer/retrieve.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/clock.h"
#include "core/counted.h"
#include "core/error.h"
#include "core/files.h"
#include "core/json.h"
#include "core/log.h"
#include "data/text/text_utf8.h"
#include "infer/embedding_folder.h"
#include "infer/print_lines.h"
#include "nn/parallel_for.h"

namespace lockstep::infer {
namespace {

constexpr int64_t kQueryRows = 1024;  // of one product

bool is_better(const Hit& a, const Hit& b) { return a.score != b.score ? a.score > b.score : a.row < b.row; }

/// Where the files' rows begin when they are counted through.
struct FileRows {
  std::filesystem::path path;
  int64_t begin = 0;
};

/// Key and shard of rows, read again from the files that hold them.
std::map<int64_t, core::Json> describe(const std::vector<FileRows>& files, const std::string& key,
                                       const std::vector<std::vector<Hit>>& hits) {
  std::map<int64_t, core::Json> described;
  for (const auto& of_query : hits)
    for (const Hit& hit : of_query) described.emplace(hit.row, core::Json());
  size_t number = files.size();
  EmbeddingFile file;
  for (auto& [row, json] : described) {
    size_t found = 0;
    while (found + 1 < files.size() && files[found + 1].begin <= row) ++found;
    if (found != number) file = read_embeddings(files[number = found].path, key);
    const int64_t local = row - files[found].begin;
    json = {{"row", local}};
    if (!file.keys.empty()) json["key"] = file.keys[static_cast<size_t>(local)];
    json[file.shard.empty() ? "file" : "shard"] =
        file.shard.empty() ? data::repair_utf8(files[found].path.filename().string()) : file.shard;
  }
  return described;
}

struct Queries {
  at::Tensor rows_QE;
  std::vector<core::Json> names;
  core::Json origin;  // see EmbeddingFile
};

Queries read_queries(const config::RetrieveOptions& options) {
  Queries queries;
  std::vector<at::Tensor> parts;
  std::filesystem::path first;
  for (const auto& path : embedding_files(options.queries)) {
    const EmbeddingFile file = read_embeddings(path, options.query_key);
    if (parts.empty()) first = path;
    if (!parts.empty() && file.rows_NE.size(1) != parts.front().size(1))
      throw DataError(fmt::format("infer: queries of '{}' are {} wide, those of '{}' {}", path.string(),
                                  file.rows_NE.size(1), first.string(), parts.front().size(1)),
                      "all must come from one model: give one file, or a folder of one start of `infer embed`");
    for (int64_t row = 0; row < file.rows_NE.size(0); ++row)
      queries.names.push_back(file.keys.empty() ? core::Json(std::ssize(queries.names))
                                                : core::Json(file.keys[static_cast<size_t>(row)]));
    parts.push_back(file.rows_NE);
    if (!file.origin.empty()) queries.origin = file.origin;
  }
  queries.rows_QE = at::cat(parts).contiguous();
  return queries;
}

/// Warns where shards are missing; what each line of the result then says of it, else null.
core::Json tell_incomplete(const std::string& folder) {
  const auto state = folder_state(folder);
  if (!state || state->is_complete()) return nullptr;
  core::log_warning(
      "infer: '{}' is not complete: {} of {} are there{}; the same start of `lockstep infer embed` embeds "
      "what is missing",
      folder, state->num_whole, core::counted(state->num_shards, "shard"),
      state->num_partial > 0 ? fmt::format(", {} in part", state->num_partial) : "");
  return {{"shards", state->num_shards}, {"whole", state->num_whole}, {"in_part", state->num_partial}};
}

}  // namespace

NearestSearch::NearestSearch(const at::Tensor& query_QE, int64_t top_k, int64_t tile_rows)
    : query_QE_(query_QE), top_k_(top_k), tile_rows_(tile_rows), heaps_(static_cast<size_t>(query_QE.size(0))) {
  LOCKSTEP_CHECK(query_QE.dim() == 2 && top_k > 0 && tile_rows > 0, "dims={} k={} tile={}", query_QE.dim(), top_k,
                 tile_rows);
}

void NearestSearch::add(const at::Tensor& rows_NE) {
  const c10::NoGradGuard no_grad;
  for (int64_t first = 0; first < rows_NE.size(0); first += tile_rows_) {
    const at::Tensor tile_NE = rows_NE.narrow(0, first, std::min(tile_rows_, rows_NE.size(0) - first));
    for (int64_t query = 0; query < query_QE_.size(0); query += kQueryRows) {
      const at::Tensor some_QE = query_QE_.narrow(0, query, std::min(kQueryRows, query_QE_.size(0) - query));
      const at::Tensor score_QN = some_QE.matmul(tile_NE.t()).contiguous();
      const int64_t count = score_QN.size(1);
      nn::parallel_for(0, score_QN.size(0), 1, [&](int64_t begin, int64_t end) {
        for (int64_t q = begin; q < end; ++q) {
          auto& heap = heaps_[static_cast<size_t>(query + q)];
          const float* scores = score_QN.const_data_ptr<float>() + q * count;
          for (int64_t n = 0; n < count; ++n) {
            const Hit hit{.score = scores[n], .row = num_rows_ + first + n};
            const bool is_full = std::ssize(heap) == top_k_;
            if (std::isnan(hit.score) || (is_full && !is_better(hit, heap.front()))) continue;
            if (is_full) {
              std::pop_heap(heap.begin(), heap.end(), is_better);
              heap.pop_back();
            }
            heap.push_back(hit);
            std::push_heap(heap.begin(), heap.end(), is_better);
          }
        }
      });
    }
  }
  num_rows_ += rows_NE.size(0);
}

std::vector<std::vector<Hit>> NearestSearch::hits() const {
  std::vector<std::vector<Hit>> sorted = heaps_;
  for (auto& of_query : sorted) std::sort(of_query.begin(), of_query.end(), is_better);
  return sorted;
}

void retrieve(const config::RetrieveOptions& options) {
  if (options.threads > 0) at::set_num_threads(static_cast<int>(options.threads));
  const Queries queries = read_queries(options);
  const at::Tensor& query_QE = queries.rows_QE;
  const core::Json incomplete = tell_incomplete(options.embeddings);
  if (options.queries != options.embeddings) tell_incomplete(options.queries);
  const bool is_same_kind = options.key == options.query_key && options.key != "text";
  bool is_warned = false;
  NearestSearch search(query_QE, options.top_k, options.tile_rows);
  std::vector<FileRows> files;
  int64_t num_rows = 0;
  const auto begin = core::Clock::now();
  for (const auto& path : embedding_files(options.embeddings)) {
    const EmbeddingFile file = read_embeddings(path, options.key);
    if (file.rows_NE.size(1) != query_QE.size(1))
      throw DataError(fmt::format("infer: embeddings of '{}' are {} wide, those of '{}' {}", path.string(),
                                  file.rows_NE.size(1), options.queries, query_QE.size(1)),
                      "both must come from one model");
    const std::string difference = is_warned ? "" : origin_difference(queries.origin, file.origin, is_same_kind);
    if (!difference.empty()) {
      is_warned = true;
      core::log_warning(
          "infer: '{}' and '{}' were made {}: their scores mean something only where both are of one training",
          options.queries, path.string(), difference);
    }
    search.add(file.rows_NE);
    files.push_back({path, num_rows});
    num_rows += file.rows_NE.size(0);
    core::show_progress(fmt::format("retrieve: {} rows", num_rows));
  }
  core::end_progress();
  const auto hits = search.hits();
  const auto described = describe(files, options.key, hits);
  std::string lines;
  for (size_t query = 0; query < hits.size(); ++query) {
    core::Json results = core::Json::array();
    for (const Hit& hit : hits[query]) {
      core::Json result = described.at(hit.row);
      result["score"] = hit.score;
      results.push_back(std::move(result));
    }
    core::Json line{{"query", queries.names[query]}, {"results", results}};
    if (!incomplete.is_null()) line["incomplete"] = incomplete;
    lines += line.dump() + "\n";
  }
  core::log_info("{}, {} in {}, {:.2f} s", core::counted(hits.size(), "query", "queries"),
                 core::counted(num_rows, "row"), core::counted(files.size(), "file"), core::ms_since(begin) / 1e3);
  if (!options.output.empty()) return core::write_file_atomic(options.output, lines);
  print_lines(lines);
}

}  // namespace lockstep::infer
