#include "logs/column_names.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/characters.h"
#include "core/csv_table.h"
#include "core/error.h"
#include "core/strings.h"
#include "logs/batch_names.h"
#include "logs/speed_names.h"

namespace lockstep::logs {
namespace {

using core::is_digit;

struct Synonyms {
  std::string_view quantity;
  ColumnUse use;
  std::string_view names;  // plain ones, parted by spaces
};

constexpr Synonyms kQuantities[] = {
    {"step", ColumnUse::kSteps, "step iteration iter global_step"},
    {"epoch", ColumnUse::kSteps, "epoch"},
    {"num_steps", ColumnUse::kSteps, "num_steps"},
    {"rank", ColumnUse::kSteps, "rank"},
    {"samples", ColumnUse::kSteps, "samples images"},
    {"tokens", ColumnUse::kSteps, "tokens"},
    {"loss", ColumnUse::kSteps, "loss train_loss"},
    {"samples_seen", ColumnUse::kSteps, "samples_seen consumed_samples"},
    {"timestamp", ColumnUse::kSteps, "timestamp time unix_time"},
    {"nodes", ColumnUse::kBoth,
     "nodes n_nodes num_nodes nnodes node_count number_of_nodes node of_nodes no_of_nodes compute_nodes total_nodes"},
    {"gpus", ColumnUse::kBoth,
     "gpus n_gpus num_gpus ngpus gpu_count number_of_gpus gpu of_gpus no_of_gpus total_gpus gpus_total num_gpu"},
    {"devices", ColumnUse::kBoth,
     "devices n_devices num_devices device_count world_size ranks n_ranks num_ranks accelerators gcds num_gcds n_gcds "
     "number_of_gcds of_gcds num_accelerators number_of_accelerators number_of_devices of_devices chips num_chips "
     "tpus processes num_processes tasks n_tasks num_tasks ntasks mpi_ranks mpi_tasks mpi_processes mpi_procs "
     "number_of_tasks number_of_ranks number_of_processes number_of_mpi_ranks number_of_mpi_tasks "
     "number_of_mpi_processes"},
    {"cores", ColumnUse::kResults,
     "cores n_cores ncores num_cores core_count number_of_cores of_cores no_of_cores total_cores cores_total cpu_cores "
     "num_cpu_cores number_of_cpu_cores total_cpu_cores cpus n_cpus ncpus num_cpus cpu_count number_of_cpus processors "
     "num_processors number_of_processors procs n_procs nprocs num_procs physical_cores total_number_of_cores "
     "number_cores"},
    {"devices_per_node", ColumnUse::kSteps, "devices_per_node gpus_per_node ranks_per_node"},
    {"global_batch", ColumnUse::kBoth,
     "global_batch global_batch_size gbs globalbatchsize total_batch total_batch_size batch_size_global global_bs "
     "global_mini_batch "
     "effective_batch effective_batch_size global_batch_samples global_batch_size_samples"},
    // A "batch" may be of a device or of all.
    {"local_batch", ColumnUse::kBoth,
     "local_batch local_batch_size batch_per_gpu batch_per_device batch_size_per_gpu batch_size_per_device "
     "per_gpu_batch_size per_device_batch_size samples_per_device samples_per_gpu images_per_gpu sequences_per_gpu "
     "per_gpu_batch per_device_batch batch_gpu batch_size_gpu bs_per_gpu local_bs lbs batch_per_rank "
     "batch_size_per_rank batch_per_gcd batch_size_per_gcd batch_device"},
    {"samples_per_s", ColumnUse::kBoth, "samples_per_s samples_per_second images_per_s images_per_second"},
    {"samples_per_s", ColumnUse::kResults,
     "throughput samples_s samples_per_sec samples_sec images_s images_per_sec images_sec img_s img_per_s imgs_s "
     "sequences_per_s sequences_s imgs_sec imgs_per_sec img_sec img_per_sec images_second img_second "
     "sequences_per_sec sequences_per_second sequences_sec seqs_s seqs_per_s seqs_sec seq_s seq_per_s seq_per_sec "
     "seq_sec examples_s examples_per_s examples_per_sec examples_per_second pairs_s pairs_per_s total_throughput "
     "throughput_s_s fps"},
    {"tokens_per_s", ColumnUse::kResults,
     "tokens_per_s tokens_s tokens_per_sec tokens_per_second tokens_sec tok_s tok_per_s tokens_second tps "
     "throughput_t_s wps words_per_s words_per_second words_per_sec words_s words_sec"},
    {"samples_per_s_per_gpu", ColumnUse::kResults,
     "samples_per_s_per_gpu samples_s_gpu samples_per_s_gpu samples_per_second_per_gpu images_s_gpu "
     "images_per_s_per_gpu throughput_per_gpu img_s_gpu imgs_s_gpu images_sec_gpu images_per_sec_per_gpu "
     "images_per_second_per_gpu samples_sec_gpu samples_per_sec_per_gpu seq_s_gpu seqs_s_gpu sequences_s_gpu "
     "samples_s_per_gpu images_s_per_gpu img_s_per_gpu img_sec_gpu samples_s_device throughput_gpu"},
    {"tokens_per_s_per_gpu", ColumnUse::kResults,
     "tokens_per_s_per_gpu tokens_s_gpu tokens_per_s_gpu tokens_per_sec_per_gpu tokens_per_second_per_gpu tok_s_gpu "
     "tokens_s_device tokens_per_gpu_per_s tokens_per_gpu_per_second tokens_sec_gpu tokens_s_per_gpu tok_s_per_gpu "
     "tokens_per_gpu_per_sec tokens_gpu_s tokens_gpu_sec tokens_second_gpu tgs throughput_t_s_gpu "
     "tps_gpu tps_per_gpu tps_device tps_per_device wps_gpu wps_per_gpu"},
    {"accumulation_steps", ColumnUse::kResults,
     "accumulation_steps accumulation accum accum_steps grad_accum grad_accum_steps gradaccum grad_acc grad_acc_steps "
     "gradient_accumulation gradient_accumulation_steps gradient_accumulation_step accumulate_steps "
     "gradient_accumulate_steps ga ga_steps"},
    {"tflops_per_gpu", ColumnUse::kBoth, "tflops_per_gpu tflops_per_device"},
    {"tflops_per_gpu", ColumnUse::kSteps, "tflops"},
    {"tflops_per_gpu", ColumnUse::kResults,
     "tflop_s_gpu tflops_gpu tflops_s_gpu tflop_s_per_gpu tflop_per_s_per_gpu tflops_per_s_per_gpu tflop_s_device "
     "throughput_per_gpu_tflop_s_gpu tflops_gcd tflop_s_gcd tflops_per_gcd achieved_tflops_per_gpu "
     "achieved_tflop_s_per_gpu achieved_teraflop_s_per_gpu teraflops_per_gpu teraflop_s_per_gpu model_tflops_per_gpu "
     "model_tflop_s_gpu tflops_s_per_device tflops_per_s_per_device"},
    {"efficiency_pct", ColumnUse::kResults,
     "efficiency_pct efficiency eff scaling_efficiency parallel_efficiency efficiency_percent"},
    {"mfu_pct", ColumnUse::kResults,
     "mfu_pct mfu mfu_percent model_flops_utilization model_flop_utilization "
     "model_flops_utilisation model_flop_utilisation"},
    {"speedup", ColumnUse::kResults, "speedup speed_up"},
    {"precision", ColumnUse::kBoth, "precision dtype"},
    {"model", ColumnUse::kBoth, "model"},
    {"model", ColumnUse::kSteps, "model_name"},
    {"system", ColumnUse::kBoth, "system"},
    {"system", ColumnUse::kSteps, "cluster"},
    {"micro_batch", ColumnUse::kSteps,
     "micro_batch micro_batch_size mbs micro_batch_size_per_gpu train_micro_batch_size_per_gpu "
     "per_device_train_batch_size"},
    {"accum", ColumnUse::kSteps, "accum grad_accum gradient_accumulation_steps"},
    {"sequence_length", ColumnUse::kSteps, "sequence_length seq_length seq_len"},
    {"task", ColumnUse::kSteps, "task"},
    {"layout", ColumnUse::kSteps, "layout"},
    {"run", ColumnUse::kSteps, "run run_id run_name repeat repetition rep replicate trial seed"},
    {"job", ColumnUse::kSteps, "job job_id jobid slurm_job_id"},
};

/// Names before their unit of time.
constexpr Synonyms kDurations[] = {
    {"step_time", ColumnUse::kBoth,
     "step_time step time_per_step iteration_time iter_time batch_time train_step_time time_step time_iteration "
     "time_iter time_it time_batch"},
    {"step_time", ColumnUse::kSteps, "elapsed_time_per_iteration train_step_timing train_step_timing_in"},
    {"step_time", ColumnUse::kResults,
     "time time_per_timestep time_per_time_step time_timestep wall_time_per_timestep walltime_per_timestep"},
    {"data_wait", ColumnUse::kSteps, "data_wait data_time data"},
};

/// The rows that hold a name: every column of a table is looked up several times.
class SynonymIndex {
 public:
  explicit SynonymIndex(std::span<const Synonyms> table) {
    for (const Synonyms& row : table)
      for (size_t at = 0; at < row.names.size();) {
        const size_t end = std::min(row.names.find(' ', at), row.names.size());
        rows_[row.names.substr(at, end - at)].push_back(&row);
        at = end + 1;
      }
  }

  /// Of several rows with that use the first.
  std::string_view find(std::string_view name, ColumnUse use) const {
    const auto found = rows_.find(name);
    if (found == rows_.end()) return {};
    for (const Synonyms* row : found->second)
      if ((static_cast<int>(row->use) & static_cast<int>(use)) != 0) return row->quantity;
    return {};
  }

 private:
  std::unordered_map<std::string_view, std::vector<const Synonyms*>> rows_{};
};
}  // namespace

std::string_view find_quantity(std::string_view plain_name, ColumnUse use) {
  static const SynonymIndex quantities(kQuantities);
  return quantities.find(plain_name, use);
}

std::string_view find_duration(std::string_view stem, ColumnUse use) {
  static const SynonymIndex durations(kDurations);
  return durations.find(stem, use);
}

int step_time_decimals(const std::string& header) {
  const SpeedName speed = read_speed_name(header);
  if (speed.counted == Counted::kStep) {
    if (speed.told != ToldSpeed::kTime) return -1;
    return speed.unit_s == 1 ? 0 : speed.unit_s == 1e-3 ? 3 : speed.unit_s == 1e-6 ? 6 : -1;
  }
  const std::string plain_name = core::plain_name(header);
  const auto unit = core::find_time_unit(plain_name);
  return unit && !find_duration(unit->stem, ColumnUse::kResults).empty() ? unit->decimals : -1;
}

namespace {
/// Words that name the time of a whole run and no part of it: "wall_time", "total_execution_time", "elapsed".
bool names_whole_time(std::string_view stem) {
  bool has_time = false;
  for (const std::string& word : core::split(std::string(stem), "_"))
    if (holds_word("time walltime wallclock wtime runtime elapsed duration", word))
      has_time = true;
    else if (!holds_word("wall clock total run execution exec solution solver solve job to train training simulation "
                         "sim application app loop main average avg mean median measured the of taken",
                         word))
      return false;
  return (has_time && stem != "time") || stem == "wall_clock";
}

/// "wall_time", "wall_time_s", "time_to_solution_h", "time_min": ratios of them need no unit. "time" and "time_s" may
/// be of a step.
bool is_solution_time(std::string_view plain_name) {
  for (const std::string_view clock : {"_d_hh_mm_ss", "_hh_mm_ss", "_h_mm_ss", "_mm_ss", "_hms"})
    if (core::ends_with(plain_name, clock)) {
      const std::string_view stem = plain_name.substr(0, plain_name.size() - clock.size());
      return stem == "time" || names_whole_time(stem);
    }
  if (names_whole_time(plain_name)) return true;
  const size_t unit = plain_name.rfind('_');
  if (unit == std::string_view::npos || time_unit_s(plain_name.substr(unit + 1)) == 0) return false;
  const std::string_view stem = plain_name.substr(0, unit);
  return names_whole_time(stem) || (stem == "time" && time_unit_s(plain_name.substr(unit + 1)) > 1);
}
}  // namespace

bool may_be_whole_time(std::string_view plain_name) {
  if (holds_word("time times t seconds secs minutes mins hours hrs days", plain_name)) return true;
  const size_t unit = plain_name.rfind('_');
  return unit != std::string_view::npos && holds_word("time times t", plain_name.substr(0, unit)) &&
         time_unit_s(plain_name.substr(unit + 1)) > 0;
}

namespace {
/// What a word of a column of sizes counts; empty: nothing.
std::string_view counted_by(std::string_view word) {
  if (holds_word("node nodes server servers host hosts machine machines instance instances", word)) return "nodes";
  if (holds_word("gpu gpus", word)) return "gpus";
  if (holds_word("device devices accelerator accelerators chip chips gcd gcds tpu tpus hpu hpus npu npus card cards "
                 "rank ranks process processes worker workers",
                 word))
    return "devices";
  return {};
}

/// "number", "#" (plain: nothing), "total" and "used" say that something is counted.
bool counts(std::string_view word) { return holds_word("number num no nr n of count total used allocated", word); }

/// "A100", "MI250X" and "DGX" name a device.
bool names_device(std::string_view word) {
  const bool has_digit = std::any_of(word.begin(), word.end(), is_digit);
  return has_digit || holds_word("dgx hgx nvidia amd intel tesla google compute", word);
}

/// "a100s": several devices of a name.
bool names_devices(std::string_view word) {
  return word.size() > 2 && word.back() == 's' && !is_digit(word.front()) && is_digit(word[word.size() - 2]);
}

/// "a100", "gh200", "mi250x"
bool names_gpu(std::string_view word) {
  const size_t digits = std::min(word.find_first_of("0123456789"), word.size());
  return digits + 1 < word.size() && is_digit(word[digits + 1]) &&
         holds_word("a b gb gh h k l m mi p t v", word.substr(0, digits));
}

/// "GPU number", "# of accelerators", "DGX A100 nodes", "number of A100s", "H100s", "# A100": one word that is counted,
/// beside words that count and names of devices. "model parallel GPUs", "GPUs per node" and "GPU hours" count something
/// else, "GPU" alone may name one, and "num_workers" mostly load data.
std::string_view counted_size(std::string_view header, std::string_view plain_name) {
  if (holds_word("num_workers n_workers worker", plain_name)) return {};
  std::string_view counted;
  const bool has_sign = core::starts_with(core::trim(header), "#");
  bool is_plural = false, is_counted = false, has_names = false, has_gpu = false;
  for (const std::string& word : core::split(std::string(plain_name), "_")) {
    if (const std::string_view found = counted_by(word); !found.empty()) {
      if (!counted.empty()) return {};
      counted = found;
      is_plural = word.back() == 's';
    } else if (counts(word)) {
      is_counted = true;
    } else if (!names_device(word)) {
      return {};
    }
    has_names = has_names || names_devices(word);
    has_gpu = has_gpu || names_gpu(word);
  }
  if (counted.empty() && ((has_names && (is_counted || has_gpu)) || (has_sign && has_gpu))) return "gpus";
  return is_plural || is_counted ? counted : std::string_view();
}
}  // namespace

bool counts_devices_of_node(std::string_view plain_name) {
  bool has_devices = false, has_per = false, has_node = false;
  for (const std::string& word : core::split(std::string(plain_name), "_")) {
    const std::string_view counted = counted_by(word);
    if (counted == "nodes" && !has_node)
      has_node = true;
    else if (!counted.empty() && counted != "nodes" && !has_devices)
      has_devices = true;
    else if (word == "per" || word == "a")
      has_per = true;
    else if (!counts(word))
      return false;
  }
  return has_devices && has_node && (has_per || plain_name.find("_node") != std::string_view::npos);
}

std::string_view ranks_of(std::string_view plain_name) {
  if (holds_word("dp dp_size data_parallel data_parallel_size data_parallelism dp_degree", plain_name)) return "dp";
  if (holds_word("tp tp_size tensor_parallel tensor_parallel_size tensor_model_parallel_size tensor_parallelism mp",
                 plain_name))
    return "tp";
  if (holds_word("pp pp_size pipeline_parallel pipeline_parallel_size pipeline_model_parallel_size "
                 "pipeline_parallelism",
                 plain_name))
    return "pp";
  return holds_word("cp cp_size context_parallel context_parallel_size", plain_name) ? "cp" : "";
}

std::string spelled_out(const std::string& plain_name) {
  std::vector<std::string> words = core::split(plain_name, "_");
  for (std::string& word : words)
    if (holds_word("bsz bs batchsize", word)) word = "batch_size";
  return core::join(words, "_");
}

std::string known_column(const std::string& header) {
  const std::string name = spelled_out(core::plain_name(header));
  if (step_time_decimals(header) >= 0) return std::string(kStepTimeColumn);
  if (is_solution_time(name)) return std::string(kSolutionTimeColumn);
  if (const std::string_view quantity = find_quantity(name, ColumnUse::kResults); !quantity.empty())
    return std::string(quantity);
  if (const BatchName batch = read_batch_name(header); batch.scale == 1 && !batch.is_in_tokens) {
    if (batch.of == BatchOf::kAll) return "global_batch";
    if (batch.of == BatchOf::kDevice) return "local_batch";
  }
  constexpr std::string_view kRate = "throughput_";
  if (core::starts_with(name, kRate)) {
    const std::string known = known_column(name.substr(kRate.size()));
    if (known.find("per_s") != std::string::npos) return known;
  }
  if (const std::string_view size = counted_size(header, name); !size.empty()) return std::string(size);
  return header;
}

bool is_result_table(const std::filesystem::path& path) {
  if ((path.extension() != ".csv" && path.extension() != ".tsv") || !std::filesystem::is_regular_file(path))
    return false;
  try {
    const auto columns = core::read_table_header(path);
    if (!columns) return false;
    const auto has = [&](std::initializer_list<const char*> names) {
      return std::any_of(columns->begin(), columns->end(), [&](const std::string& column) {
        return std::find(names.begin(), names.end(), known_column(column)) != names.end();
      });
    };
    const bool has_steps = std::any_of(columns->begin(), columns->end(), [](const std::string& column) {
      return find_quantity(core::plain_name(column), ColumnUse::kSteps) == "step";
    });
    if (has_steps) return false;
    if (has({"nodes", "gpus", "devices", "cores", "global_batch"})) return true;
    if (std::any_of(columns->begin(), columns->end(),
                    [](const std::string& column) { return ranks_of(core::plain_name(column)) == "dp"; }))
      return true;
    // Steps without a number have nothing but their times.
    return columns->size() > 1 && std::none_of(columns->begin(), columns->end(), [](const std::string& name) {
             const std::string lower = core::to_lower_ascii(name);
             return lower.find("time") != std::string::npos || core::starts_with(lower, "step");
           });
  } catch (const DataError&) {
    return false;
  }
}

}  // namespace lockstep::logs
