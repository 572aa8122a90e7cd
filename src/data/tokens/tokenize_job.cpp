#include "data/tokens/tokenize_job.h"

#include <memory>

#include "core/error.h"
#include "data/parallel_for.h"
#include "data/text/json_lines.h"
#include "data/tokens/indexed_dataset.h"

namespace lockstep::data {
namespace {

constexpr size_t kBlockBytesPerThread = size_t{2} << 20;

/// Token ids of one document, sequence after sequence.
struct Document {
  std::vector<std::vector<int32_t>> sequences;
};

/// Walks through all inputs in blocks of lines; `use(lines, path)` takes one block.
template <typename Use> void for_each_block(const TokenizeJob& job, const Use& use) {
  if (job.inputs.empty()) throw UsageError("data: no input files", "name one or more JSON lines files");
  double total_bytes = 0, done_bytes = 0;
  for (const std::string& input : job.inputs) {
    const JsonLines file(input);  // all are there before work begins
    total_bytes += static_cast<double>(file.size());
  }
  int64_t num_documents = 0;
  for (const std::string& input : job.inputs) {
    JsonLines file(input);
    for (auto lines = file.next(kBlockBytesPerThread * static_cast<size_t>(job.num_threads)); !lines.empty();
         lines = file.next(kBlockBytesPerThread * static_cast<size_t>(job.num_threads))) {
      use(lines, file.path());
      num_documents += static_cast<int64_t>(lines.size());
      for (const JsonLines::Line& line : lines) done_bytes += static_cast<double>(line.text.size() + 1);
      if (job.on_progress) job.on_progress(num_documents, std::min(done_bytes / total_bytes, 1.0));
    }
  }
}

Document tokenize(const std::vector<std::string_view>& texts, const TextTokenizer& tokenizer,
                  std::optional<int32_t> eod) {
  Document document;
  for (const std::string_view text : texts) {
    std::vector<int32_t> ids = tokenizer.encode(text);
    if (!ids.empty()) document.sequences.push_back(std::move(ids));
  }
  if (eod && !document.sequences.empty()) document.sequences.back().push_back(*eod);
  return document;
}

}  // namespace

std::vector<TokenizedFile> tokenize_json_lines(const TokenizeJob& job, const TextTokenizer& tokenizer) {
  const std::optional<int32_t> eod = job.append_eod ? tokenizer.eod() : std::nullopt;
  if (job.append_eod && !eod)
    throw UsageError("data: --append-eod: the tokenizer has no end-of-document token that we know",
                     "name it with --eod-token");
  std::vector<std::unique_ptr<IndexedDatasetWriter>> writers;
  std::vector<TokenizedFile> results;
  for (const std::string& key : job.keys) {
    results.push_back({.prefix = fmt::format("{}_{}_document", job.output_prefix, key)});
    writers.push_back(
        std::make_unique<IndexedDatasetWriter>(results.back().prefix, token_type_for(tokenizer.vocab_size())));
  }
  std::vector<JsonFieldReader> readers(static_cast<size_t>(job.num_threads));
  for_each_block(job, [&](const std::vector<JsonLines::Line>& lines, const std::filesystem::path& path) {
    for (size_t key = 0; key < job.keys.size(); ++key) {
      std::vector<Document> documents(lines.size());
      for_each_parallel(lines.size(), job.num_threads, [&](size_t i, size_t worker) {
        documents[i] = tokenize(readers[worker].read(lines[i], path, job.keys[key]), tokenizer, eod);
      });
      for (const Document& document : documents) {
        for (const std::vector<int32_t>& ids : document.sequences) writers[key]->add_sequence(ids);
        writers[key]->end_document();
        results[key].num_empty += document.sequences.empty() ? 1 : 0;
      }
    }
  });
  for (size_t key = 0; key < job.keys.size(); ++key) {
    results[key].num_documents = writers[key]->num_documents();
    results[key].num_tokens = writers[key]->num_tokens();
    writers[key]->finish();
  }
  return results;
}

WordCounter count_json_lines(const TokenizeJob& job, const std::string& pattern) {
  std::vector<WordCounter> counters;
  for (int64_t i = 0; i < job.num_threads; ++i) counters.emplace_back(pattern);
  std::vector<JsonFieldReader> readers(static_cast<size_t>(job.num_threads));
  for_each_block(job, [&](const std::vector<JsonLines::Line>& lines, const std::filesystem::path& path) {
    for_each_parallel(lines.size(), job.num_threads, [&](size_t i, size_t worker) {
      for (const std::string& key : job.keys)
        for (const std::string_view text : readers[worker].read(lines[i], path, key)) counters[worker].add(text);
    });
  });
  for (size_t i = 1; i < counters.size(); ++i) counters[0].merge(counters[i]);
  return std::move(counters[0]);
}

}  // namespace lockstep::data
