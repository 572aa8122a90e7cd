#include "published/formulas.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/strings.h"

namespace lockstep::published {
namespace {
constexpr double kSecondsPerDay = 86400;

bool is_count_column(const std::string& column) {
  static const std::set<std::string> kCounts = {"nodes",       "gpus",        "devices", "cores",       "global_batch",
                                                "micro_batch", "local_batch", "batch",   "layers",      "hidden",
                                                "sequence",    "vocab",       "heads",   "query_groups"};
  return kCounts.contains(column);
}

constexpr std::string_view kWhole = "0123456789", kDecimal = "0123456789.", kScientific = "0123456789.e";

/// The first number of these signs that stands between two texts, whatever their case.
std::optional<double> find_number(const std::string& text, std::string_view before, std::string_view signs,
                                  std::string_view after) {
  const std::string lower = core::to_lower_ascii(text);
  for (size_t at = 0; (at = lower.find(before, at)) != std::string::npos;) {
    const size_t begin = at + before.size();
    const size_t end = std::min(lower.find_first_not_of(signs, begin), lower.size());
    if (end > begin && core::starts_with(std::string_view(lower).substr(end), after))
      return core::parse_double(std::string_view(lower).substr(begin, end - begin));
    at = std::max(end, at + 1);
  }
  return std::nullopt;
}

/// "989.4 TFLOP/s bf16, 1979 TFLOP/s fp8" -> peaks by precision.
std::map<std::string, double> find_peaks(std::string_view text) {
  constexpr std::string_view kUnit = " TFLOP/s ", kPrecision = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::map<std::string, double> peaks;
  for (size_t at = 0; (at = text.find(kUnit, at)) != std::string_view::npos;) {
    const size_t before = text.substr(0, at).find_last_not_of(kDecimal);
    const size_t begin = before == std::string_view::npos ? 0 : before + 1;
    const size_t precision = at + kUnit.size();
    const size_t end = std::min(text.find_first_not_of(kPrecision, precision), text.size());
    const auto tflops = core::parse_double(text.substr(begin, at - begin));
    if (tflops && end > precision) peaks[std::string(text.substr(precision, end - precision))] = *tflops;
    at = precision;
  }
  return peaks;
}

/// "peak_tflops = 989", "forward_gflops: 14.78": the first number behind one of these names.
std::optional<double> find_assigned(const std::string& text, std::initializer_list<std::string_view> names) {
  const std::string lower = core::to_lower_ascii(text);
  for (const std::string_view name : names)
    for (size_t at = 0; (at = lower.find(name, at)) != std::string::npos; at += name.size()) {
      const size_t sign = lower.find_first_not_of(' ', at + name.size());
      if (sign == std::string::npos || (lower[sign] != '=' && lower[sign] != ':')) continue;
      const size_t begin = lower.find_first_not_of(' ', sign + 1);
      if (begin == std::string::npos) continue;
      const size_t end = std::min(lower.find_first_not_of(kDecimal, begin), lower.size());
      if (const auto value = core::parse_double(lower.substr(begin, end - begin)); value && *value > 0) return value;
    }
  return std::nullopt;
}

Formula ratio_to_base(const char* column, const char* of, const char* text, double scale) {
  return {column, text,
          [of, scale](const FormulaContext& context, size_t row) {
            return exact(scale) * context.at(row, of) / context.at_base(row, of);
          },
          true};
}

Formula speedup_formula(const Rate& rate) {
  return {"speedup", "rate over that of the base",
          [at = rate.at](const FormulaContext& c, size_t row) { return at(c, row) / c.at_base(row, "rate", at); },
          true};
}

Formula efficiency_formula(const Rate& rate, const char* size) {
  const std::string of = size, unit = of == "nodes" ? "node" : of == "gpus" ? "GPU" : of == "cores" ? "core" : "device";
  return {"efficiency_pct", fmt::format("{} per {} over that of the base x 100", rate.name, unit),
          [at = rate.at, size](const FormulaContext& c, size_t row) {
            return exact(100) * (at(c, row) / c.at(row, size)) / (c.at_base(row, "rate", at) / c.at_base(row, size));
          },
          true};
}

/// Is the peak of every row known?
bool has_peaks(const FormulaContext& context) {
  for (size_t row = 0; row < context.table.rows.size(); ++row)
    if (!context.peak(row)) return false;
  return true;
}

std::optional<Formula> mfu_formula(const FormulaContext& context, const Rate& rate) {
  const char* devices = context.device_column();
  if (devices != nullptr && context.has("tflops_per_gpu") && has_peaks(context))
    return Formula{"mfu_pct", "TFLOP/s/GPU / peak TFLOP/s x 100", [](const FormulaContext& c, size_t row) {
                     return c.at(row, "tflops_per_gpu") * exact(100 / *c.peak(row));
                   }};
  if (devices == nullptr || rate.unit != "samples" || !context.facts.forward_gflops || !has_peaks(context))
    return std::nullopt;
  return Formula{"mfu_pct", "3 x forward GFLOP x samples/s / devices / (1000 x peak TFLOP/s) x 100",
                 [devices, at = rate.at](const FormulaContext& c, size_t row) {
                   return exact(3 * *c.facts.forward_gflops / (1e3 * *c.peak(row)) * 100) * at(c, row) /
                          c.at(row, devices);
                 }};
}

/// Efficiency and MFU of tables whose rate is one of all devices, where no formula stands for them yet.
void add_total_formulas(const FormulaContext& context, std::vector<Formula>& formulas) {
  const auto rate = rate_of(context);
  const char* size = context.size_column();
  const std::vector<Formula> of_times = time_formulas_of(context);
  const bool has_efficiency = std::any_of(of_times.begin(), of_times.end(),
                                          [](const Formula& formula) { return formula.column == "efficiency_pct"; });
  if (!rate && size != nullptr && context.has("speedup") && !has_efficiency)
    formulas.push_back({"efficiency_pct", std::string("speed-up per ") + size + " over that of the base x 100",
                        [size](const FormulaContext& c, size_t row) {
                          return exact(100) * (c.at(row, "speedup") / c.at(row, size)) /
                                 (c.at_base(row, "speedup") / c.at_base(row, size));
                        },
                        true});
  if (!rate || size == nullptr) return;
  const auto lacks = [&](const char* column) {
    return std::none_of(formulas.begin(), formulas.end(),
                        [&](const Formula& formula) { return formula.column == column; });
  };
  if (lacks("speedup")) formulas.push_back(speedup_formula(*rate));
  if (lacks("efficiency_pct")) formulas.push_back(efficiency_formula(*rate, size));
  if (const auto mfu = mfu_formula(context, *rate); mfu && lacks("mfu_pct")) formulas.push_back(*mfu);
}

void add_rate_formulas(const FormulaContext& context, std::vector<Formula>& formulas) {
  if (context.has("samples_per_s_per_gpu") && context.has("gpus"))
    formulas.push_back({"samples_per_s", "samples/s/GPU x GPUs", [](const FormulaContext& c, size_t row) {
                          return c.at(row, "samples_per_s_per_gpu") * c.at(row, "gpus");
                        }});
  else if (context.has("samples_per_s") && context.has("global_batch") && context.has("step_time_s"))
    formulas.push_back({"samples_per_s", "global batch / step time", [](const FormulaContext& c, size_t row) {
                          return c.at(row, "global_batch") / c.at(row, "step_time_s");
                        }});
  if (context.has("samples_per_s_per_gpu") && context.facts.forward_gflops && has_peaks(context))
    formulas.push_back({"mfu_pct", "3 x forward GFLOP x samples/s/GPU / (1000 x peak TFLOP/s) x 100",
                        [](const FormulaContext& c, size_t row) {
                          return exact(3 * *c.facts.forward_gflops / (1e3 * *c.peak(row)) * 100) *
                                 c.at(row, "samples_per_s_per_gpu");
                        }});
  if (context.has("samples_per_s_per_gpu"))
    formulas.push_back(
        ratio_to_base("efficiency_pct", "samples_per_s_per_gpu", "samples/s/GPU over that of the base x 100", 100));
  if (context.has("samples_per_s") && context.has("gpus"))
    formulas.push_back({"perfect_linear_samples_per_s", "samples/s of the base x GPUs / GPUs of the base",
                        [](const FormulaContext& c, size_t row) {
                          return c.at_base(row, "samples_per_s") * c.at(row, "gpus") / c.at_base(row, "gpus");
                        },
                        true});
}

void add_token_formulas(const FormulaContext& context, std::vector<Formula>& formulas) {
  const bool has_steps = context.has("global_batch") && context.has("step_time_s");
  if (has_steps && sequence_length(context, 0))
    formulas.push_back(
        {"tokens_per_s", "sequence length x global batch / step time", [](const FormulaContext& c, size_t row) {
           return exact(*sequence_length(c, row)) * c.at(row, "global_batch") / c.at(row, "step_time_s");
         }});
  if (has_steps && context.has("gpus") && context.facts.sequence_flops && has_peaks(context))
    formulas.push_back({"mfu_pct", "global batch x model FLOPs / step time / GPUs / peak x 100",
                        [](const FormulaContext& c, size_t row) {
                          return exact(100 * *c.facts.sequence_flops / (1e12 * *c.peak(row))) *
                                 c.at(row, "global_batch") / c.at(row, "step_time_s") / c.at(row, "gpus");
                        }});
  if (context.has("tokens_per_s"))
    formulas.push_back({"days_per_1t_tokens", "10^12 / tokens/s / 86,400", [](const FormulaContext& c, size_t row) {
                          return exact(1e12 / kSecondsPerDay) / c.at(row, "tokens_per_s");
                        }});
}

void add_speedup_formulas(const FormulaContext& context, std::vector<Formula>& formulas) {
  if (context.has("global_batches_per_s_a100") && context.has("global_batches_per_s_h100"))
    formulas.push_back({"speedup", "global batches/s on H100 over A100", [](const FormulaContext& c, size_t row) {
                          return c.at(row, "global_batches_per_s_h100") / c.at(row, "global_batches_per_s_a100");
                        }});
  else if (context.has("framework_fp16_s") && context.has("trt_fp16_s"))
    formulas.push_back({"speedup", "latency of the framework over TensorRT's", [](const FormulaContext& c, size_t row) {
                          return c.at(row, "framework_fp16_s") / c.at(row, "trt_fp16_s");
                        }});
  else if (context.has("samples_per_s"))
    formulas.push_back(ratio_to_base("speedup", "samples_per_s", "samples/s over that of the base", 1));
}

/// The recipe's terms, FLOPs per token and the whole per sequence.
void add_flops_formula(const FormulaContext& context, std::vector<Formula>& formulas) {
  for (const char* column : {"term", "layers", "hidden", "sequence", "vocab"})
    if (!context.has(column)) return;
  formulas.push_back(
      {"flops",
       "attention 24 L h^2 + 12 L h s, feed-forward 48 L h^2, embedding 6 V h per token; model = s x their sum",
       [](const FormulaContext& c, size_t row) {
         const double layers = c.at(row, "layers").value, h = c.at(row, "hidden").value,
                      s = c.at(row, "sequence").value, v = c.at(row, "vocab").value;
         const double attention = 24 * layers * h * h + 12 * layers * h * s, mlp = 48 * layers * h * h,
                      embedding = 6 * v * h;
         const std::string& term = c.table.text(row, "term");
         if (term == "attention") return exact(attention);
         if (term == "mlp") return exact(mlp);
         return exact(term == "embedding" ? embedding : s * (attention + mlp + embedding));
       }});
}

/// Attention with fewer key and value heads than heads needs less projection work than the formula counts.
std::optional<CheckedCell> grouped_attention(const FormulaContext& c, size_t row) {
  if (!c.has("heads") || !c.has("query_groups") || c.table.text(row, "term") != "attention") return std::nullopt;
  const double layers = c.at(row, "layers").value, h = c.at(row, "hidden").value, s = c.at(row, "sequence").value;
  const double groups = c.at(row, "query_groups").value, heads = c.at(row, "heads").value;
  if (groups >= heads) return std::nullopt;
  const double flops = (12 + 12 * groups / heads) * layers * h * h + 12 * layers * h * s,
               printed = c.at(row, "flops").value;
  CheckedCell cell{
      .row = row, .row_name = "attention", .column = "flops", .formula = "(12 + 12 groups / heads) L h^2 + 12 L h s"};
  cell.printed = c.table.text(row, "flops");
  cell.recomputed = fmt::format("{:.0f}", flops);
  cell.value = cell.low = cell.high = flops;
  cell.verdict = CellVerdict::kOtherMeaning;
  cell.remark = fmt::format(
      "the arithmetic follows, the formula does not fit the model: it counts {:.0f} key and value heads, the model has "
      "{:.0f} query groups; its attention needs {:.1f} % less",
      heads, groups, 100 * (1 - flops / printed));
  return cell;
}

/// An efficiency below 1 that a text defines as run time at n over run time at 1.
std::optional<CheckedCell> inverted_efficiency(const FormulaContext& c, size_t row,
                                               const std::string& printed_formula) {
  const std::string& setting = c.table.text(row, "setting");
  const bool is_batch = setting.find("per-batch efficiency") != std::string::npos,
             is_epoch = setting.find("per-epoch efficiency") != std::string::npos;
  if (!is_batch && !is_epoch) return std::nullopt;
  const double value = c.at(row, "value").value, nodes = find_number(setting, "at ", kWhole, " nodes").value_or(1);
  CheckedCell cell{
      .row = row,
      .row_name = fmt::format("{} {}, {}", c.table.text(row, "system"), c.table.text(row, "benchmark"), setting),
      .column = "value"};
  cell.formula = printed_formula;
  cell.printed = c.table.text(row, "value");
  cell.value = cell.low = cell.high = is_batch ? 1 / value : 1 / (nodes * value);
  cell.recomputed = fmt::format("{:.3f}", cell.value);
  cell.verdict = CellVerdict::kOtherMeaning;
  cell.remark =
      is_batch
          ? fmt::format(
                "by the printed formula batches would take {} of the one-node time at larger sizes, faster than ideal; "
                "an efficiency of {} means {:.3f} times the one-node time: the formula is printed upside down",
                cell.printed, cell.printed, cell.value)
          : fmt::format(
                "by the printed formula an epoch at {:.0f} nodes would take {} of the one-node time; an efficiency of "
                "{} means {:.4f} of it: the formula is printed upside down and leaves out the number of nodes",
                nodes, cell.printed, cell.printed, cell.value);
  return cell;
}
}  // namespace

Printed operator*(const Printed& a, const Printed& b) { return {a.low * b.low, a.value * b.value, a.high * b.high}; }
Printed operator/(const Printed& a, const Printed& b) { return {a.low / b.high, a.value / b.value, a.high / b.low}; }
Printed exact(double value) { return {value, value, value}; }

Printed parse_printed(const std::string& text, double value, bool is_count) {
  if (is_count) return exact(value);
  const double half = 0.5 * std::pow(10, -num_decimals(text));
  return {value - half, value, value + half};
}

TableFacts read_facts(const core::CsvTable& table, const analysis::AnalysisOptions& options) {
  TableFacts facts;
  const std::string text = core::join(table.comments, " ");
  facts.forward_gflops =
      options.forward_gflops ? options.forward_gflops : find_number(text, "forward ", kDecimal, " gflop");
  if (!facts.forward_gflops)
    facts.forward_gflops = find_assigned(text, {"forward_gflops", "fwd_gflops", "forward gflops", "forward gflop"});
  facts.sequence_length = find_number(text, "sequence ", kWhole, "");
  if (!facts.sequence_length)
    facts.sequence_length = find_assigned(text, {"sequence_length", "sequence length", "seq_length", "seq_len"});
  facts.sequence_flops = find_number(text, "model flops ", kScientific, " for one sequence");
  facts.samples_per_device = find_number(text, "batch ", kWhole, "/gpu");
  if (const auto accum = find_number(text, "ga=", kWhole, ""), micro = find_number(text, "mbs=", kWhole, "");
      accum && micro)
    facts.samples_per_device = *accum * *micro;
  facts.peaks_tflops = find_peaks(text);
  if (facts.peaks_tflops.size() == 1) facts.precision = facts.peaks_tflops.begin()->first;
  facts.untyped_peak_tflops = find_assigned(text, {"peak_tflops", "peak tflops", "peak tflop/s"});
  if (!facts.untyped_peak_tflops) facts.untyped_peak_tflops = find_number(text, "peak ", kDecimal, " tflop");
  facts.given_peak_tflops = options.peak_tflops;
  return facts;
}

Printed FormulaContext::at(size_t row, const char* column) const {
  return parse_printed(table.text(row, column), table.number(row, column), is_count_column(column));
}

std::optional<double> FormulaContext::peak(size_t row) const {
  if (facts.given_peak_tflops) return facts.given_peak_tflops;
  if (facts.peaks_tflops.empty()) return facts.untyped_peak_tflops;
  const std::string precision = has("precision") ? table.text(row, "precision") : facts.precision;
  const auto found = facts.peaks_tflops.find(precision);
  return found == facts.peaks_tflops.end() ? std::nullopt : std::optional(found->second);
}

std::vector<Formula> formulas_of(const FormulaContext& context) {
  std::vector<Formula> formulas;
  if (context.table.rows.empty()) return formulas;
  add_rate_formulas(context, formulas);
  add_token_formulas(context, formulas);
  add_speedup_formulas(context, formulas);
  add_flops_formula(context, formulas);
  if (!context.has("global_batches_per_s_a100")) add_total_formulas(context, formulas);
  for (Formula& formula : time_formulas_of(context)) formulas.push_back(std::move(formula));
  std::erase_if(formulas, [&](const Formula& formula) { return !context.has(formula.column.c_str()); });
  return formulas;
}

namespace {
/// The column of a total rate: "samples_per_s", "tokens_per_s", "tflop_per_s".
std::string rate_column(const Rate& rate) { return core::to_lower_ascii(rate.unit) + "_per_s"; }

/// Rate, speed-up and efficiency where the table has none of its own.
void add_relative_formulas(const FormulaContext& context, const Rate& rate, const char* size,
                           std::vector<Formula>& formulas) {
  if (!rate.formula.empty() && !context.has("samples_per_s_per_gpu"))
    formulas.push_back({rate_column(rate), rate.formula, rate.at});
  const bool has_efficiency = context.has("efficiency_pct");
  if (!context.has("speedup") && !has_efficiency) formulas.push_back(speedup_formula(rate));
  if (!has_efficiency) formulas.push_back(efficiency_formula(rate, size));
}
}  // namespace

std::vector<Formula> additions_to(const FormulaContext& context) {
  std::vector<Formula> formulas;
  const char* size = context.size_column();
  if (size == nullptr) return formulas;
  const auto rate = context.has("global_batches_per_s_a100") ? std::nullopt : rate_of(context);
  if (rate) add_relative_formulas(context, *rate, size, formulas);
  for (Formula& formula : time_formulas_of(context))
    if (!context.has(formula.column.c_str())) formulas.push_back(std::move(formula));
  if (rate && !context.has("mfu_pct") && context.facts.given_peak_tflops)
    if (const auto mfu = mfu_formula(context, *rate)) formulas.push_back(*mfu);
  if (context.has("nodes") && rate && rate->unit == "samples")
    formulas.push_back({"node_hours_per_million", "nodes / (3600 x samples/s) x 10^6",
                        [at = rate->at](const FormulaContext& c, size_t row) {
                          return exact(1e6 / 3600) * c.at(row, "nodes") / at(c, row);
                        }});
  if (context.has("global_batches_per_s_h100") && context.has("global_batch"))
    for (const char* device : {"a100", "h100"})
      formulas.push_back({std::string("samples_per_s_") + device, "global batches/s x global batch",
                          [device](const FormulaContext& c, size_t row) {
                            return c.at(row, (std::string("global_batches_per_s_") + device).c_str()) *
                                   c.at(row, "global_batch");
                          }});
  return formulas;
}

std::vector<std::string> missing_in(const FormulaContext& context) {
  std::vector<std::string> missing;
  if (context.size_column() == nullptr || context.has("global_batches_per_s_a100")) return missing;
  const auto rate = rate_of(context);
  if (const std::string beside = missing_beside_times(context); !beside.empty())
    missing.push_back(beside);
  else if (!rate)
    missing.emplace_back(
        "a rate (a column samples_per_s or tokens_per_s; samples/s/GPU, tokens/s/GPU or TFLOP/s/GPU with gpus; "
        "step_time_s with global_batch): neither speed-up nor efficiency follow");
  if (!rate) return missing;
  const bool has_mfu = context.has("mfu_pct"), is_samples = rate->unit == "samples";
  if (context.device_column() == nullptr)
    missing.emplace_back("the devices (a column gpus): no rate per device and no MFU");
  if (is_samples && !has_mfu && !context.facts.forward_gflops)
    missing.emplace_back("the FLOPs of a sample (--fwd-gflops): no MFU");
  if ((is_samples || context.has("tflops_per_gpu")) && !has_mfu && !context.peak(0))
    missing.emplace_back("the peak of a device (--peak-tflops): no MFU");
  if (!context.has("global_batch") && !context.has("local_batch") && !context.facts.samples_per_device)
    missing.emplace_back(
        "the batch (a column global_batch): weak and strong scaling cannot be told apart, and the efficiency may mix "
        "the change of size with one of work");
  return missing;
}

std::vector<CheckedCell> meaning_checks(const FormulaContext& context) {
  std::vector<CheckedCell> cells;
  const std::string text = core::join(context.table.comments, " ");
  constexpr std::string_view kBefore = "efficiency formula as printed: ";
  const size_t begin = text.find(kBefore) == std::string::npos ? text.size() : text.find(kBefore) + kBefore.size();
  const size_t end = text.find(" (", begin);
  const bool has_formula = end != std::string::npos && context.has("setting");
  for (size_t row = 0; row < context.table.rows.size(); ++row) {
    if (context.has("term") && context.has("flops"))
      if (const auto cell = grouped_attention(context, row)) cells.push_back(*cell);
    if (has_formula)
      if (const auto cell = inverted_efficiency(context, row, text.substr(begin, end - begin))) cells.push_back(*cell);
  }
  return cells;
}

}  // namespace lockstep::published
