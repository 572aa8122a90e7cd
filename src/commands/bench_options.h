#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/options.h"
#include "tasks/contrastive/front/contrastive_options.h"

namespace lockstep::commands {

/// What a value of --model stands for: a file is a GPT's where it is a configuration of Hugging Face's.
enum class BenchModel { kContrastive, kClassifier, kGpt };

enum class BenchCaseName { kCollective, kLoader, kOp, kStep, kCheckpoint, kLatency };

/// Options of `bench CASE`. Fields of other cases keep their defaults.
struct BenchOptions {
  BenchCaseName which = BenchCaseName::kCollective;

  // All cases
  std::string mode = "time";        // --mode {list,verify,time}
  bool json = false, csv = false;   // --json, --csv
  std::string out;                  // --output FILE, the JSON document beside the table
  int64_t num_warmup = 5;           // --warmup-iters
  int64_t num_iterations = 20;      // --iters
  std::string average = "avg";      // --average {avg,rank0,min,max}, collective only
  tasks::ContrastiveOptions train;  // flags that mean the same in `train clip`
  // What train.model stands for; set by fill_bench_defaults, so that a file is read for it once.
  BenchModel model_kind = BenchModel::kContrastive;

  // collective
  std::vector<std::string> collectives = {"all-reduce"};  // --collectives; after check_bench_options without "all"
  std::string min_bytes = "8", max_bytes = "128M";        // --minbytes, --maxbytes
  double step_factor = 2.0;                               // --stepfactor
  std::string data_type = "float";                        // --datatype
  std::string reduce_op = "sum";                          // --redop
  int64_t root = 0;                                       // --root
  int64_t num_checks = 1;                                 // --check, calls of each size; 0 = no values are checked

  // loader
  std::vector<int64_t> loader_workers = {4};  // --workers
  double think_ms = 0.0;                      // --think-ms
  std::string jpeg_decode = "exact";          // --jpeg-decode, of classifiers
  std::string csv_label_key = "label";        // --csv-label-key, of classifiers

  // op
  std::vector<std::string> ops = {"all"};                  // --ops; after check_bench_options without "all"
  std::vector<std::string> precisions = {"fp32", "bf16"};  // --precisions
  int64_t min_dim = 256, max_dim = 2048;                   // --min-dim, --max-dim
  std::string op_model;                                    // --model, "" = square products only
  int64_t op_batch = 16;                                   // --batch-size
  std::string array_bytes = "256M";                        // --array-bytes

  // step
  std::optional<int64_t> sequence_length;  // --seq-length, of GPTs
  std::string batches;                     // --batches FILE
  std::string find_batch;                  // --find-batch multiple=N
  int64_t find_multiple = 0;               // N of --find-batch, 0 = off; set by check_bench_options
  int64_t find_most = 65536;               // --find-most
  std::string memory_limit;                // --memory-limit
  std::optional<double> peak_tflops;       // --peak-tflops
  std::string peak_file;                   // --peak-from FILE, result of `bench op --json`
  bool skips_products = false;             // --skip-products

  // latency; --precisions is shared with op
  std::vector<std::string> latency_from;                // --from; empty: the model's usual starting point
  std::vector<std::string> latency_towers;              // --towers; empty: all that the model has, together
  std::vector<int64_t> latency_batches = {1, 2, 4, 8};  // --batch-size
  int64_t text_tokens = 64;                             // --text-length
  int64_t new_tokens = 32;                              // --new-tokens
  std::string images, texts;                            // --images DIR, --texts FILE
  double latency_seconds = 20;                          // --seconds
  std::string cuda_graphs = "auto";                     // --cuda-graphs {auto,off}

  // checkpoint
  std::string directory;  // --dir
};

/// Names of the collectives of `bench collective`, in the order in which "all" runs them.
std::span<const std::string> bench_collective_names();

core::OptionSet declare_bench_options(BenchOptions& options);
/// The kind of model, and OpenCLIP's defaults by model name for the optimiser's numbers, where the case has an
/// optimiser and the user gave none.
void fill_bench_defaults(BenchOptions& options, core::OptionSet& set);
/// UsageError when the arguments contradict each other. Resolves "all" in lists.
void check_bench_options(BenchOptions& options, const core::OptionSet& set);
/// UsageError when the case cannot be measured on so many ranks.
void check_bench_ranks(const BenchOptions& options, int64_t num_ranks);

}  // namespace lockstep::commands
