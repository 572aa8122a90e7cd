#include "logs/logs.h"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <utility>

#include "core/error.h"
#include "core/line_reader.h"
#include "core/strings.h"
#include "logs/bench.h"
#include "logs/failure.h"
#include "logs/merged.h"
#include "logs/parser.h"

namespace lockstep::logs {
namespace {

namespace fs = std::filesystem;

const LogFormatInfo& info_of(LogFormat format) {
  const auto info = std::find_if(std::begin(kLogFormats), std::end(kLogFormats),
                                 [&](const LogFormatInfo& one) { return one.format == format; });
  LOCKSTEP_CHECK(info != std::end(kLogFormats), "format={}", static_cast<int>(format));
  return *info;
}

bool is_record(const fs::path& path) {
  std::error_code failure;
  return fs::exists(path / "run.json", failure) || fs::exists(path / "steps.jsonl", failure);
}

/// A folder stands for the log that OpenCLIP leaves in it.
fs::path log_file_of(const fs::path& path) {
  std::error_code failure;
  return fs::is_directory(path, failure) ? path / "out.log" : path;
}

std::vector<std::string> names_of_formats() {
  std::vector<std::string> names;
  for (const LogFormatInfo& info : kLogFormats) names.emplace_back(info.name);
  return names;
}

std::string name_of_run(const fs::path& file) {
  const fs::path folder = fs::absolute(file).lexically_normal().parent_path();
  return file.filename() == "out.log" && folder.has_filename() ? folder.filename().string() : file.stem().string();
}

/// The job of "slurm-4711.out", the name that sbatch gives.
std::string allocation_of(const fs::path& file) {
  const std::string stem = file.stem().string();
  constexpr std::string_view kPrefix = "slurm-";
  if (!core::starts_with(stem, kPrefix)) return "";
  const std::string job = stem.substr(kPrefix.size());
  return !job.empty() && job.find_first_not_of("0123456789_") == std::string::npos ? "slurm " + job : "";
}

bool is_table_by_name(const fs::path& file) { return file.extension() == ".csv" || file.extension() == ".tsv"; }

/// How many lines of a log could not be read.
struct Rejects {
  int64_t count = 0, first_line = 0;
  bool is_last_cut = false;
  int64_t num_merged = 0, first_merged = 0, num_taken_apart = 0;  // lines into which several ranks wrote

  void add(int64_t line, bool is_cut) {
    if (count++ == 0) first_line = line;
    is_last_cut = is_cut;
  }
  void add_merged(int64_t line) {
    if (num_merged++ == 0) first_merged = line;
  }
  void tell(record::RunData& run) const {
    tell_merged(run);
    run.num_rejected_lines += count;
    if (count == 0) return;
    if (is_last_cut) run.problems.push_back("the last line is cut off and was left out");
    if (const int64_t others = count - (is_last_cut ? 1 : 0); others > 0)
      run.problems.push_back(fmt::format("{} {} like a measurement and could not be read (the first is line {})",
                                         others, others == 1 ? "line looks" : "lines look", first_line));
  }

 private:
  void tell_merged(record::RunData& run) const {
    if (num_merged == 0) return;
    run.num_rejected_lines += num_merged - num_taken_apart;
    run.problems.push_back(fmt::format(
        "in {} {} (the first is line {}) several ranks wrote into each other's text; {} whole, one measurement after "
        "the other, and {} used; of the rest nobody can tell which number is whose, and it was left out",
        num_merged, num_merged == 1 ? "line" : "lines", first_merged,
        num_taken_apart == 1 ? "one of them was" : fmt::format("{} of them were", num_taken_apart),
        num_taken_apart == 1 ? "is" : "are"));
  }
};

/// Reads what is surely whole in a line of several ranks; false when that is not the entire line.
bool read_merged(const MergedLine& merged, const LogLine& line, LogParser& parser, int64_t& num_used) {
  bool is_first = true;
  for (const std::string_view text : merged.whole) {
    LogLine piece{.text = text};
    if (std::exchange(is_first, false))
      piece.rank = line.rank, piece.time_s = line.time_s;  // prefixes of the others lie somewhere before them
    if (parser.read(piece) != LineUse::kUsed) return false;
    ++num_used;
  }
  return !merged.has_rest;
}

/// A measurement that another writer cut. Lines with a text that a measurement has once may hold several: those are
/// taken apart instead.
bool is_torn(const LogReader& reader, std::string_view line) {
  return reader.is_torn != nullptr && !take_merged_apart(reader.shape, line) && reader.is_torn(line);
}

std::vector<record::RunData> read_lines(const fs::path& file, LogFormat format, const record::RunSetup& given,
                                        const record::RunData& blank) {
  const LogReader reader = info_of(format).reader();
  LogBuilder builder(blank, given);
  const auto parser = reader.make(builder);
  constexpr bool kEndsAtReturn = true;
  core::LineReader lines(file, kEndsAtReturn);
  Rejects rejects;
  int64_t num_used = 0;
  std::string buffer;
  for (std::string_view raw; lines.next(raw);) {
    LogLine line = clean_line(raw, buffer);
    line.number = lines.line_number();
    if (line.text.empty()) continue;
    const bool is_row_of_table = line.text.front() >= '0' && line.text.front() <= '9';
    // The last number of a cut line may lack digits. A CSV file without a last line end is usual, and its rows tell
    // their length.
    const bool is_untrusted =
        lines.is_cut() && format != LogFormat::kCsv && (reader.is_own_line(line.text) || is_row_of_table);
    if (!is_untrusted && is_torn(reader, line.text)) {
      rejects.add_merged(lines.line_number());
      continue;
    }
    if (const auto merged = is_untrusted ? std::nullopt : take_merged_apart(reader.shape, line.text)) {
      rejects.add_merged(lines.line_number());
      if (read_merged(*merged, line, *parser, num_used)) ++rejects.num_taken_apart;
      continue;
    }
    LineUse use = is_untrusted ? LineUse::kRejected : parser->read(line);
    if (use == LineUse::kOther && is_fragment(reader.shape, line.text)) use = LineUse::kRejected;
    if (use == LineUse::kRejected) rejects.add(lines.line_number(), lines.is_cut());
    if (use == LineUse::kUsed) ++num_used;
  }
  parser->finish();
  std::vector<record::RunData> runs = builder.finish();
  rejects.tell(runs.front());
  if (num_used == 0 && runs.front().steps.size() == 0)
    runs.front().problems.push_back(
        fmt::format("no step was found: nothing in the file is a line of {} that can be used", to_text(format)));
  return runs;
}

/// What unpacks a file that a usual packer wrote, by its first bytes; empty for any other.
std::string unpacker_of(const fs::path& file) {
  constexpr std::array kPackers =
      std::to_array<std::pair<std::string_view, std::string_view>>({{"\x1f\x8b", "gunzip"},
                                                                    {"BZh", "bunzip2"},
                                                                    {"\xfd"
                                                                     "7zXZ",
                                                                     "unxz"},
                                                                    {"\x28\xb5\x2f\xfd", "unzstd"}});
  std::error_code failure;
  if (!fs::is_regular_file(file, failure)) return "";
  std::array<char, 8> bytes{};
  std::ifstream in(file, std::ios::binary);
  in.read(bytes.data(), bytes.size());
  for (const auto& [mark, program] : kPackers)
    if (core::starts_with(std::string_view(bytes.data(), static_cast<size_t>(in.gcount())), mark))
      return std::string(program);
  return "";
}

[[noreturn]] void throw_unknown(const fs::path& path) {
  if (is_table_by_name(path)) {  // its first line says what a table of steps lacks
    record::RunData run;
    run.source = path;
    read_lines(path, LogFormat::kCsv, run.setup, run);
  }
  throw DataError(fmt::format("record: '{}' is no log that is known: no line of it is recognised", path.string()),
                  fmt::format("say what it is with --from: {}", core::join_or(names_of_formats())));
}

}  // namespace

std::optional<int64_t> positive_count(std::string_view text) {
  const auto count = core::parse_int(core::trim(text));
  constexpr int64_t kMaxCount = 1'000'000'000'000;
  return count && *count > 0 && *count <= kMaxCount ? count : std::nullopt;
}

OptionDialect option_dialect(std::string_view format) {
  for (const LogFormatInfo& info : kLogFormats)
    if (info.name == format && info.reader != nullptr) return info.reader().dialect;
  return {};
}

std::string to_text(LogFormat format) { return std::string(info_of(format).name); }

LogFormat parse_log_format(std::string_view name) {
  for (const LogFormatInfo& info : kLogFormats)
    if (info.name == name) return info.format;
  const std::vector<std::string> names = names_of_formats();
  const auto nearest = core::nearest_name(name, names);
  throw UsageError(fmt::format("record: unknown log format '{}', expected {}", name, core::join_or(names)),
                   nearest ? fmt::format("did you mean '{}'?", *nearest) : "leave it out to have it guessed");
}

std::optional<LogFormat> guess_format(const fs::path& path) {
  if (is_record(path)) return LogFormat::kLockstep;
  if (is_bench_document(path)) return LogFormat::kBench;
  if (is_latency_table(path)) return LogFormat::kCsv;
  constexpr bool kEndsAtReturn = true;
  constexpr int64_t kSearchedLines = 20'000;  // long enough for the start-up chatter of a large job
  core::LineReader lines(log_file_of(path), kEndsAtReturn);
  std::array<int64_t, std::size(kLogFormats)> hits{};
  std::array<LogReader, std::size(kLogFormats)> readers{};
  for (size_t at = 0; at < readers.size(); ++at)
    if (kLogFormats[at].reader != nullptr) readers[at] = kLogFormats[at].reader();
  std::string buffer;
  int64_t num_searched = 0;
  bool is_first = true;
  for (std::string_view raw; num_searched++ < kSearchedLines && lines.next(raw);) {
    const LogLine line = clean_line(raw, buffer);
    // Headers hold words that other programs write into their logs ("train_step_timing in s" of NeMo).
    if (!line.text.empty() && std::exchange(is_first, false) && csv_reader().is_own_line(line.text))
      return LogFormat::kCsv;
    for (size_t at = 0; at < readers.size(); ++at)
      if (readers[at].is_own_line != nullptr && readers[at].is_own_line(line.text)) ++hits[at];
  }
  const auto best = std::max_element(hits.begin(), hits.end());  // the first of equal ones
  if (*best == 0) return std::nullopt;
  return kLogFormats[static_cast<size_t>(best - hits.begin())].format;
}

bool is_benchmark_result(const fs::path& file) {
  constexpr int64_t kSearchedLines = 400;  // headers and the list of ranks come before the first row
  std::error_code failure;
  if (!fs::is_regular_file(file, failure)) return false;
  if (is_bench_document(file)) return true;
  core::LineReader lines(file, true);
  std::string buffer;
  int64_t num_searched = 0;
  for (std::string_view raw; num_searched++ < kSearchedLines && lines.next(raw);) {
    const std::string_view text = clean_line(raw, buffer).text;
    for (const LogFormatInfo& info : kLogFormats)
      if (info.is_benchmark && info.reader().is_own_line(text)) return true;
  }
  return false;
}

std::vector<record::RunData> read_log(const fs::path& path, std::optional<LogFormat> format,
                                      const LogOptions& options) {
  if (const std::string unpacker = unpacker_of(path); !unpacker.empty())
    throw DataError(fmt::format("record: '{}' is compressed, and compressed files are not read", path.string()),
                    fmt::format("unpack it: {} {}", unpacker, path.string()));
  if (!format) format = guess_format(path);
  if (!format) throw_unknown(path);
  std::vector<record::RunData> runs(1);
  if (*format == LogFormat::kLockstep) {
    runs.front() = record::load_run(path);
  } else {
    const fs::path file = log_file_of(path);
    record::RunData& run = runs.front();
    run.source = file;
    run.name = name_of_run(file);
    run.format = to_text(*format);
    run.allocation = allocation_of(file);
    record::RunData given = run;
    record::apply_meta(given, options.meta);
    if (*format == LogFormat::kBench && is_bench_document(file))
      read_bench_document(file, run);
    else if (*format == LogFormat::kCsv && is_latency_table(file))
      read_latency_table(file, run);
    else
      runs = read_lines(file, *format, given.setup, record::RunData(run));
    if (runs.back().state.empty()) note_failure_of_log(file, runs.back());
  }
  for (record::RunData& run : runs) record::apply_meta(run, options.meta);
  return runs;
}

}  // namespace lockstep::logs
