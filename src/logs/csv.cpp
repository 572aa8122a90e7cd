// step,step_time_s,loss          one line per step (or interval), columns in any order, known by name
// 0,0.512,7.1
//
// A time column is needed; units are taken from its name. Lines that begin with '#' are comments. Columns that tell of
// the run (nodes, model, repeat: csv_columns.h) part the rows into runs, one for each combination of their values, in
// whatever order the rows come. Exports of W&B have a column for each run instead ("run1 - step_time_s").
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/csv_table.h"
#include "core/error.h"
#include "core/join_first.h"
#include "core/strings.h"
#include "logs/csv_columns.h"
#include "logs/csv_runs.h"
#include "logs/parser.h"

namespace lockstep::logs {
namespace {

using Field = CsvField;

/// A step time and where it stands.
struct PlacedTime {
  double ms = 0;
  int64_t line = 0;
};

/// Do times without a unit of their own fall into two groups of about a thousand, as seconds among milliseconds do?
/// Then one of either.
std::optional<std::pair<PlacedTime, PlacedTime>> find_two_units(std::vector<PlacedTime> times) {
  constexpr size_t kFewest = 10;
  // Rarer long ones may be stalls, which are shown as such; no step takes a thousandth of the others, so the short ones
  // may be few.
  constexpr double kMinGap = 100, kMinLongShare = 0.2, kMinRatio = 300, kMaxRatio = 3000;
  if (times.size() < kFewest) return std::nullopt;
  std::stable_sort(times.begin(), times.end(), [](const PlacedTime& a, const PlacedTime& b) { return a.ms < b.ms; });
  size_t split = 1;
  for (size_t at = 1; at < times.size(); ++at)
    if (times[at].ms / times[at - 1].ms > times[split].ms / times[split - 1].ms) split = at;
  const double long_share = static_cast<double>(times.size() - split) / static_cast<double>(times.size());
  const double ratio = times[(split + times.size()) / 2].ms / times[split / 2].ms;
  if (times[split].ms / times[split - 1].ms < kMinGap || long_share < kMinLongShare || ratio < kMinRatio ||
      ratio > kMaxRatio)
    return std::nullopt;
  return std::pair(times.front(), times[split]);
}

class CsvParser : public LogParser {
 public:
  using LogParser::LogParser;

  LineUse read(const LogLine& line) override {
    if (line.text.empty()) return LineUse::kOther;
    if (line.text.front() == '#') {
      if (columns_.empty()) comment_ = core::trim(line.text.substr(1));
      return LineUse::kOther;
    }
    if (columns_.empty()) {
      const bool is_header_comment =
          are_csv_steps(csv_columns_of(comment_)) && !are_csv_steps(csv_columns_of(line.text));
      read_header(is_header_comment ? std::string_view(comment_) : line.text);
      if (!is_header_comment) return LineUse::kOther;
    }
    if (line.text == header_) {  // the program started again and appended
      ++num_headers_;
      return LineUse::kOther;
    }
    const auto fields = core::split_csv_line(line.text, separator_);
    if (!fields || fields->size() != columns_.size()) return LineUse::kRejected;
    HeldRow held{.line = line};
    held.line.text = {};
    held.line.time_s.reset();
    std::vector<std::string> facts(fact_columns_.size());
    if (!set_cells(shared_, *fields, held, facts)) return LineUse::kRejected;
    for (size_t at = 0; at < columns_.size(); ++at)
      if (auto& values = unread_[at]; columns_[at].field == Field::kNone && values.size() <= kMaxUnread)
        values.insert((*fields)[at]);
    if (!side_by_side_.empty()) return hold_side_by_side(*fields, held, facts);
    if (!may_be_elapsed_ && !is_step_time(held.row.step_ms)) return LineUse::kRejected;
    hold(std::move(held), std::move(facts));
    return LineUse::kUsed;
  }

  void finish() override {
    for (const auto& [words, odd] : odd_lines_)
      builder_.count_problem(fmt::format("{}; {} such {} left out (the first is line {})", words, odd.count,
                                         odd.count == 1 ? "line was" : "lines were", odd.first_line));
    leave_out_unnamed();
    std::vector<CsvRun> runs;
    for (CsvRun& run : runs_)
      for (CsvRun& part : split_by_batch(std::move(run))) runs.push_back(std::move(part));
    for (CsvRun& run : runs) {
      if (has_step_ && number_through_epochs(run.rows)) is_by_epoch_ = true;
      if (has_step_) order_by_step(run.rows);
      take_batch_of_counts(run.rows);
    }
    explain_columns(runs);
    const bool is_elapsed = are_elapsed(runs);
    std::vector<size_t> varying;
    for (size_t at = 0; at < fact_columns_.size(); ++at)
      if (values_of(runs, at).size() > 1) varying.push_back(at);
    for (CsvRun& run : runs) {
      if (runs.size() > 1) builder_.begin_run(part_of(run, varying));
      set_facts(run);
      if (is_elapsed)
        take_differences(run.rows);
      else
        take_times(run.rows);
    }
    refuse_two_units();
  }

 private:
  static bool is_step_time(double ms) { return std::isfinite(ms) && ms > 0; }

  /// Puts a row to its run.
  void hold(HeldRow held, std::vector<std::string> facts) {
    constexpr size_t kMaxRuns = 10'000;
    const auto [place, is_new] = run_of_.try_emplace(facts, runs_.size());
    if (is_new) runs_.push_back({.facts = std::move(facts), .num_headers = num_headers_});
    if (runs_.size() > kMaxRuns)
      throw DataError(fmt::format("record: '{}': the columns {} tell more than {} runs apart", source(),
                                  names_of_facts(), kMaxRuns),
                      "name a column that does not tell runs apart something else");
    CsvRun& run = runs_[place->second];
    held.is_start = std::exchange(run.num_headers, num_headers_) != num_headers_;
    if (held.is_start) run.num_rows_of_start = 0;
    if (!has_step_) held.row.step = run.num_rows_of_start, held.row.num_steps = 1;
    ++run.num_rows_of_start;
    run.rows.push_back(std::move(held));
  }

  /// One row for each run that has something in its columns.
  LineUse hold_side_by_side(const std::vector<std::string>& fields, const HeldRow& shared,
                            const std::vector<std::string>& shared_facts) {
    LineUse use = LineUse::kOther;
    for (const RunColumns& run : side_by_side_) {
      if (std::all_of(run.columns.begin(), run.columns.end(), [&](size_t at) { return fields[at].empty(); })) continue;
      HeldRow held = shared;
      std::vector<std::string> facts = shared_facts;
      if (!set_cells(run.columns, fields, held, facts)) {
        if (use == LineUse::kOther) use = LineUse::kRejected;
        continue;
      }
      if (std::isnan(held.row.step_ms) || (!may_be_elapsed_ && !is_step_time(held.row.step_ms)))
        continue;  // of this step it has something else, a loss say
      facts.back() = run.name;
      hold(std::move(held), std::move(facts));
      use = LineUse::kUsed;
    }
    return use;
  }

  /// "'nodes', 'run'"
  std::string names_of_facts() const {
    std::vector<std::string> names;
    for (const CsvColumn* column : fact_columns_) names.push_back(fmt::format("'{}'", column->name));
    return core::join(names, ", ");
  }

  /// Rows with an empty cell where others tell which run they are of.
  void leave_out_unnamed() {
    for (size_t at = 0; at < fact_columns_.size(); ++at) {
      const auto is_unnamed = [&](const CsvRun& run) { return run.facts[at].empty(); };
      if (std::all_of(runs_.begin(), runs_.end(), is_unnamed)) continue;
      size_t num_rows = 0;
      for (const CsvRun& run : runs_) num_rows += is_unnamed(run) ? run.rows.size() : 0;
      if (num_rows == 0) continue;
      std::erase_if(runs_, is_unnamed);
      builder_.run().num_rejected_lines += static_cast<int64_t>(num_rows);
      builder_.count_problem(
          fmt::format("{} without a value in the column '{}', so nobody can tell which run they are of: left out",
                      num_rows == 1 ? "one row is" : fmt::format("{} rows are", num_rows), fact_columns_[at]->name));
    }
  }

  /// Which values of a column some runs have.
  static std::set<std::string> values_of(const std::vector<CsvRun>& runs, size_t fact_column) {
    std::set<std::string> values;
    for (const CsvRun& run : runs) values.insert(run.facts[fact_column]);
    return values;
  }

  static bool is_unclear_batch(const CsvColumn& column) {
    const std::string name = core::plain_name(column.name);
    return column.field == Field::kNone && (name == "batch" || name == "batch_size" || name == "bs");
  }

  /// What of the columns a reader may have meant otherwise.
  void explain_columns(const std::vector<CsvRun>& runs) {
    const CsvColumn* devices = nullptr;
    bool has_sizes = false, has_one_count = false;
    for (size_t at = 0; at < fact_columns_.size(); ++at) {
      const size_t num_values = values_of(runs, at).size();
      if (fact_columns_[at]->fact == "nodes") has_sizes = num_values > 1;
      if (fact_columns_[at]->fact == "devices") devices = fact_columns_[at], has_one_count = num_values == 1;
    }
    if (has_sizes && has_one_count)
      builder_.count_problem(
          fmt::format("the column '{}' is the same at every number of nodes and was read as all devices of a run; if "
                      "it counts those of a node, name it devices_per_node",
                      devices->name));
    if (is_by_epoch_) builder_.count_problem("the steps begin again with each epoch: they were numbered through");
    for (const CsvColumn& column : columns_)
      if (is_unclear_batch(column))
        builder_.count_problem(fmt::format(
            "the column '{}' may be of a device or of all and was not read: name it local_batch or global_batch",
            column.name));
    if (!has_step_ || std::none_of(runs.begin(), runs.end(), [](const CsvRun& run) { return repeats_steps(run.rows); }))
      return;
    std::vector<std::string> names;
    for (size_t at = 0; at < columns_.size(); ++at)
      if (unread_[at].size() > 1 && unread_[at].size() <= kMaxUnread && !is_unclear_batch(columns_[at]))
        names.push_back(fmt::format("'{}'", columns_[at].name));
    if (!names.empty())
      builder_.count_problem(fmt::format(
          "steps come again with the same number, and the {} {}, of several values, {} not read: where the values tell "
          "runs apart, name that column 'run', and where they are ranks of one run, 'rank'",
          names.size() == 1 ? "column" : "columns", core::join(names, ", "), names.size() == 1 ? "is" : "are"));
  }

  /// "nodes=2, run=b": what differs between the runs of the file, the facts in columns `varying`.
  std::string part_of(const CsvRun& run, const std::vector<size_t>& varying) const {
    std::vector<std::string> words;
    for (const size_t at : varying) {
      const CsvColumn& column = *fact_columns_[at];
      words.push_back(
          fmt::format("{}={}", column.run.empty() ? std::string_view(column.name) : column.fact, run.facts[at]));
    }
    if (!run.batch.empty()) words.push_back("global_batch=" + run.batch);
    return core::join(words, ", ");
  }

  void set_facts(const CsvRun& run) {
    std::map<std::string_view, std::string> facts;
    for (size_t at = 0; at < fact_columns_.size(); ++at)
      if (!run.facts[at].empty()) facts[fact_columns_[at]->fact] = run.facts[at];
    const auto count = [&](std::string_view fact) {
      return facts.contains(fact) ? positive_count(facts[fact]) : std::nullopt;
    };
    record::RunSetup& known = setup();
    known.nodes = count("nodes");
    known.devices = count("devices");
    if (const auto per_node = count("devices_per_node"); per_node && known.nodes && !known.devices)
      known.devices = *known.nodes * *per_node;
    known.samples_per_device = count("samples_per_device");
    known.accum = count("accum");
    int64_t samples = 0;
    if (const auto passed = count("micro_batch");
        passed && !known.samples_per_device && !__builtin_mul_overflow(*passed, known.accum.value_or(1), &samples))
      known.samples_per_device = samples;
    else if (known.samples_per_device && known.accum.value_or(1) > 1)
      builder_.count_problem(
          fmt::format("its batch of a device, {}, is taken as that of a step, accumulation included; if it is that of "
                      "one of {} passes, call the column micro_batch",
                      *known.samples_per_device, *known.accum));
    known.sequence_length = count("sequence_length");
    known.model = facts["model"];
    known.precision = facts["precision"];
    known.task = facts["task"];
    known.system = facts["system"];
    known.layout = facts["layout"];
    if (facts.contains("job")) builder_.run().allocation = "slurm " + facts["job"];
    if (run.rows.empty()) return;
    const double batch = run.rows.front().global_batch;
    const bool is_one =
        std::all_of(run.rows.begin(), run.rows.end(), [&](const HeldRow& held) { return held.global_batch == batch; });
    if (is_one) known.global_batch = positive_count(fmt::format("{:.0f}", batch));
  }

  void take(const HeldRow& held) {
    if (held.is_start) builder_.start_attempt();
    LogRow row = held.row;
    if (std::isnan(row.samples)) row.samples = held.global_batch;
    if (add(held.line, row) == LineUse::kUsed) return;
    ++builder_.run().num_rejected_lines;
    builder_.count_problem("a row was left out: its step is beyond counting");
  }

  /// What makes the steps of two runs comparable in size: all but the number of nodes and devices, the batch and the
  /// names of repeats.
  std::string work_of() const {
    const record::RunSetup& known = builder_.run().setup;
    return fmt::format("{}\n{}\n{}\n{}", known.model, known.precision, known.task, known.system);
  }

  /// Adds rows with their times; they are freed on the way.
  void take_times(std::deque<HeldRow>& rows) {
    std::vector<PlacedTime>& bare_times = bare_times_[work_of()];
    for (; !rows.empty(); rows.pop_front()) {
      const HeldRow& held = rows.front();
      if (!is_step_time(held.row.step_ms)) {
        ++builder_.run().num_rejected_lines;
        builder_.count_problem("a row was left out: its step time is no time above zero");
        continue;
      }
      if (held.row.unit_ms == 0) {
        bare_times.push_back({held.row.step_ms, held.line.number});
        builder_.run().is_unit_guessed = !is_unit_given_;
      }
      take(held);
    }
  }

  /// A column "time_s" that rises at every row is time since the start.
  bool are_elapsed(const std::vector<CsvRun>& runs) const {
    constexpr size_t kFewestPairs = 7;  // step times that rise so often by chance: one file in 40,000
    if (!may_be_elapsed_) return false;
    size_t num_pairs = 0, num_rises = 0;
    for (const CsvRun& run : runs) {
      const auto before = rows_before(run.rows);
      for (size_t at = 0; at < run.rows.size(); ++at)
        if (before[at]) ++num_pairs, num_rises += run.rows[at].row.step_ms > run.rows[*before[at]].row.step_ms ? 1 : 0;
    }
    return num_pairs >= kFewestPairs && num_rises == num_pairs;
  }

  /// Rows of elapsed times get their differences.
  void take_differences(const std::deque<HeldRow>& rows) {
    builder_.count_problem(
        fmt::format("the column '{}' rises at every row, so it is time since the start: the steps' times are the "
                    "differences of the rows, and the first row has none",
                    elapsed_name_));
    const auto before = rows_before(rows);
    bool is_start = false;
    for (size_t at = 0; at < rows.size(); ++at) {
      is_start = is_start || rows[at].is_start;
      if (!before[at]) continue;
      HeldRow held = rows[at];
      const HeldRow& last = rows[*before[at]];
      const int64_t num_steps = has_step_ ? std::max<int64_t>(held.row.step - last.row.step, 1) : 1;
      held.row.step_ms = (held.row.step_ms - last.row.step_ms) / static_cast<double>(num_steps);
      held.row.num_steps = static_cast<int32_t>(std::min<int64_t>(num_steps, 1'000'000'000));
      held.is_start = std::exchange(is_start, false);
      take(held);
    }
  }

  void refuse_two_units() {
    for (auto& [work, times] : bare_times_)
      if (const auto two = find_two_units(std::move(times)))
        throw DataError(fmt::format("record: '{}': the step times fall into two groups a factor of a thousand apart, "
                                    "{:g} ms (line {}) and {:g} ms (line {}): seconds and milliseconds in one column",
                                    source(), two->first.ms, two->first.line, two->second.ms, two->second.line),
                        "write one unit in the whole column, or the unit behind each number (512 ms, 0.498 s)");
  }

  struct OddLines {
    int64_t count = 0, first_line = 0;
  };

  std::string source() const { return builder_.run().source.string(); }

  void read_header(std::string_view text) {
    header_ = text;
    separator_ = core::separator_of(text);
    columns_ = csv_columns_of(text);
    unread_.resize(columns_.size());
    has_step_ = has_csv_field(columns_, Field::kStep);
    const std::vector<std::string> runs = runs_side_by_side(columns_);
    if (runs.empty())
      for (CsvColumn& column : columns_) column.run.clear();
    check_doubles();
    part_columns(runs);
    for (const CsvColumn& column : columns_) {
      if (column.field != Field::kStepTime) continue;
      is_unit_given_ = column.is_unit_given;
      if (column.may_be_elapsed) may_be_elapsed_ = true, elapsed_name_ = column.name;
    }
    if (are_csv_steps(columns_)) return;
    throw DataError(
        fmt::format("record: '{}' is no table of steps with their times; its first line is '{}'", source(), text),
        "name one step_time_s, step_time_ms, batch_time_s or iteration_time_ms; a table of points (nodes, "
        "samples_per_s) is no log of steps");
  }

  /// Which columns are of which of the runs that stand side by side, and where each fact is held.
  void part_columns(const std::vector<std::string>& runs) {
    std::map<std::string_view, size_t> place_of;
    for (const std::string& run : runs) {
      place_of[run] = side_by_side_.size();
      side_by_side_.push_back({.name = run});
    }
    std::map<std::string_view, size_t> slot_of;  // of facts that each run has in a column of its own
    slots_.resize(columns_.size());
    for (size_t at = 0; at < columns_.size(); ++at) {
      CsvColumn& column = columns_[at];
      if (!runs.empty() && column.fact == "run") {
        builder_.count_problem(
            fmt::format("the column '{}' is not read: names of other columns tell the runs apart, such as '{}'",
                        column.name, runs.front()));
        column.field = Field::kNone;
      }
      if (column.field == Field::kFact) {
        const bool is_shared = column.run.empty();
        const auto known = is_shared ? slot_of.end() : slot_of.find(column.fact);
        slots_[at] = known == slot_of.end() ? fact_columns_.size() : known->second;
        if (!is_shared) slot_of.try_emplace(column.fact, slots_[at]);
        if (slots_[at] == fact_columns_.size()) fact_columns_.push_back(&column);
      }
      if (column.field == Field::kNone) continue;
      (column.run.empty() ? shared_ : side_by_side_[place_of.at(column.run)].columns).push_back(at);
    }
    if (runs.empty()) return;
    fact_columns_.push_back(&run_column_);
    const auto has_time = [&](const std::vector<size_t>& columns) {
      return std::any_of(columns.begin(), columns.end(),
                         [&](size_t at) { return columns_[at].field == Field::kStepTime; });
    };
    if (has_time(shared_)) return;
    std::vector<std::string> timeless;
    std::erase_if(side_by_side_, [&](const RunColumns& run) {
      if (has_time(run.columns)) return false;
      timeless.push_back(fmt::format("'{}'", run.name));
      return true;
    });
    if (!timeless.empty())
      builder_.count_problem(
          fmt::format("{} without a column of step times: left out", core::join_first(timeless, kMaxNamed)));
  }

  /// Of two columns that mean the same the first is read; two step times are refused, since the report hangs on them.
  /// Names of repeats may be of several parts.
  void check_doubles() {
    using Meaning = std::tuple<std::string_view, Field, std::string_view>;  // of a run's column, what it tells
    std::map<Meaning, std::string> first;
    for (CsvColumn& column : columns_) {
      if (column.field == Field::kNone || column.fact == "run") continue;
      const auto [place, is_new] = first.emplace(Meaning(column.run, column.field, column.fact), column.name);
      if (is_new) continue;
      if (column.field == Field::kStepTime)
        throw DataError(fmt::format("record: '{}': the columns '{}' and '{}' both tell the step time", source(),
                                    place->second, column.name),
                        "keep one of them, or name the other something else");
      builder_.count_problem(
          fmt::format("the columns '{}' and '{}' mean the same: the first is read", place->second, column.name));
      column.field = Field::kNone;
    }
  }

  bool refuse(const LogLine& line, const std::string& words) {
    OddLines& odd = odd_lines_[words];
    if (odd.count++ == 0) odd.first_line = line.number;
    return false;
  }

  /// A fact as it tells runs apart: "2" and "2.0" nodes are the same. False after a refusal.
  bool set_fact(const CsvColumn& column, const std::string& text, const LogLine& line, std::string& fact) {
    fact = text;
    if (text.empty() || !is_count_fact(column.fact)) return true;
    constexpr double kMaxCount = 1e9;
    const auto number = core::parse_double(core::may_part_thousands(text) ? core::replace_all(text, ",", "") : text);
    if (!number || !(*number >= 1) || *number > kMaxCount || std::trunc(*number) != *number)
      return refuse(line, fmt::format("the column '{}' holds something else than a whole number above 0", column.name));
    fact = fmt::format("{:.0f}", *number);
    return true;
  }

  /// A step time or data wait in ms; NaN after a refusal.
  bool set_duration(const CsvColumn& column, const std::string& text, LogRow& row, const LogLine& line) {
    const auto time = read_csv_time(text);
    if (!time) return false;
    if (time->unit_ms && column.is_unit_given && *time->unit_ms != column.unit_ms)
      return refuse(
          line, fmt::format("a number in the column '{}' has another unit than the column's name tells", column.name));
    bool& has_units = (column.field == Field::kStepTime ? step_units_ : wait_units_);
    if (!column.is_unit_given && !time->unit_ms && has_units)
      return refuse(line,
                    fmt::format("numbers in the column '{}' have their unit behind them, some have none", column.name));
    has_units = has_units || time->unit_ms;
    const double ms = time->value * time->unit_ms.value_or(column.unit_ms);
    (column.field == Field::kStepTime ? row.step_ms : row.data_wait_ms) = ms;
    if (column.field == Field::kStepTime) row.unit_ms = time->unit_ms.value_or(0);
    return true;
  }

  /// False where one of the cells is refused.
  bool set_cells(const std::vector<size_t>& columns, const std::vector<std::string>& fields, HeldRow& held,
                 std::vector<std::string>& facts) {
    return std::all_of(columns.begin(), columns.end(), [&](size_t at) {
      return columns_[at].field == Field::kFact ? set_fact(columns_[at], fields[at], held.line, facts[slots_[at]])
                                                : set_cell(columns_[at], fields[at], held);
    });
  }

  bool set_cell(const CsvColumn& column, const std::string& text, HeldRow& held) {
    if (column.field == Field::kNone || text.empty()) return true;
    LogLine& line = held.line;
    const bool is_thousands = (is_csv_count(column.field) && text.find(',') + 4 == text.size()) ||
                              (separator_ == ',' && core::may_part_thousands(text));  // which stood in quotes
    if (core::has_ambiguous_comma(text) && !is_thousands)
      throw DataError(fmt::format("record: '{}' line {}, column '{}': '{}' is a number with a comma", source(),
                                  line.number, column.name, text),
                      core::kCommaHint);
    if (is_csv_duration(column.field)) return set_duration(column, text, held.row, line);
    if (column.field == Field::kTime)
      if (const auto stamp = read_time_stamp(text)) {
        line.time_s = stamp;
        return true;
      }
    std::string_view rest;
    const auto number = read_number(text, &rest);
    if (column.field == Field::kLoss) {  // a loss may be "nan"
      held.row.loss = number.value_or(record::kUnknown);
      return true;
    }
    if (!number || !core::trim(rest).empty() || *number < 0) return false;
    set_number(column.field, *number, held);
    return true;
  }

  static void set_number(Field field, double number, HeldRow& held) {
    constexpr double kMaxCount = 1e14, kMaxSmall = 1e9;
    LogRow& row = held.row;
    switch (field) {
      case Field::kStep: row.step = static_cast<int64_t>(std::min(number, kMaxCount)); break;
      case Field::kEpoch: row.epoch = static_cast<int32_t>(std::min(number, kMaxSmall)); break;
      case Field::kNumSteps: row.num_steps = static_cast<int32_t>(std::min(number, kMaxSmall)); break;
      case Field::kRank: held.line.rank = static_cast<int>(std::min(number, kMaxSmall)); break;
      case Field::kSamples: row.samples = number; break;
      case Field::kGlobalBatch: held.global_batch = number; break;
      case Field::kTokens: row.tokens = number; break;
      case Field::kSamplesSeen: row.samples_seen = number; break;
      case Field::kRate: row.samples_per_s = number; break;
      case Field::kTflops: row.tflops_per_device = number; break;
      case Field::kTime: held.line.time_s = number; break;
      case Field::kStepTime:
      case Field::kDataWait:
      case Field::kFact:
      case Field::kLoss:
      case Field::kNone: break;
    }
  }

  static constexpr size_t kMaxNamed = 5;
  static constexpr size_t kMaxUnread = 16;  // a column of more values is a measurement or a remark
  std::string header_{}, comment_{};        // the last comment above the header may be the header itself
  char separator_ = ',';
  std::vector<CsvColumn> columns_{};
  std::vector<const CsvColumn*> fact_columns_{};  // of each fact of a row; the last is the run where runs stand side
                                                  // by side
  std::vector<size_t> slots_{};                   // of each column of a fact: its place among these
  std::vector<size_t> shared_{};                  // columns that are read and are of no one run
  struct RunColumns {
    std::string name{};
    std::vector<size_t> columns{};
  };
  std::vector<RunColumns> side_by_side_{};
  const CsvColumn run_column_{.field = Field::kFact, .name = "run", .fact = "run"};
  std::vector<std::set<std::string>> unread_{};  // values of columns of unknown names, up to one more than kMaxUnread
  bool has_step_ = false, step_units_ = false, wait_units_ = false;  // units stand behind the numbers
  bool may_be_elapsed_ = false, is_unit_given_ = false, is_by_epoch_ = false;
  std::string elapsed_name_{};
  int64_t num_headers_ = 1;
  std::vector<CsvRun> runs_{};
  std::map<std::vector<std::string>, size_t> run_of_{};
  std::map<std::string, OddLines> odd_lines_{};
  std::map<std::string, std::vector<PlacedTime>> bare_times_{};  // by work
};

}  // namespace

LogReader csv_reader() {
  return {
      .is_own_line =
          [](std::string_view line) {
            return line.find_first_of(",;\t") != std::string_view::npos && are_csv_steps(csv_columns_of(line));
          },
      .make = [](LogBuilder& builder) -> std::unique_ptr<LogParser> { return std::make_unique<CsvParser>(builder); }};
}

}  // namespace lockstep::logs
