// #                                                              out-of-place                       in-place
// #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
// #        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
//      1048576        262144     float     sum      -1    41.15   25.48   44.59      0    40.90   25.64   44.87      0
// # Avg bus bandwidth    : 44.73
//
// Size and time are taken and the bandwidths computed from them, since the printed ones have two digits. The tests name
// their collective in newer versions only; else the file's name or the ratio of the two bandwidths tells.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "core/strings.h"
#include "logs/parser.h"
#include "record/bus_factor.h"

namespace lockstep::logs {
namespace {

/// The collectives by the names of their programs (without "_perf").
struct Collective {
  std::string_view test, kind;
};
constexpr std::array<Collective, 11> kCollectives = {{{"all_reduce", "all_reduce"},
                                                      {"all_gather", "all_gather"},
                                                      {"reduce_scatter", "reduce_scatter"},
                                                      {"alltoall", "all_to_all"},
                                                      {"all_to_all", "all_to_all"},
                                                      {"broadcast", "broadcast"},
                                                      {"sendrecv", "send_recv"},
                                                      {"hypercube", "hypercube"},
                                                      {"scatter", "scatter"},
                                                      {"gather", "gather"},
                                                      {"reduce", "reduce"}}};

const Collective* find_collective(std::string_view text) {
  for (const Collective& collective : kCollectives)  // longer names first: "all_reduce" before "reduce"
    if (text.find(collective.test) != std::string_view::npos) return &collective;
  return nullptr;
}

struct Half {
  double time_us = 0, algbw = 0, busbw = 0;
  std::optional<int64_t> num_wrong{};
};

/// Four columns: time algbw busbw #wrong.
bool read_half(std::span<const std::string_view> fields, Half& half) {
  const auto time = core::parse_double(fields[0]), algbw = core::parse_double(fields[1]),
             busbw = core::parse_double(fields[2]);
  constexpr double kMinTimeUs = 1e-3, kMaxGbytesPerS = 1e9;  // beyond these the line is damaged
  const auto is_bandwidth = [](const std::optional<double>& value) {
    return value && *value >= 0 && *value <= kMaxGbytesPerS;
  };
  if (!time || !std::isfinite(*time) || *time < kMinTimeUs || !is_bandwidth(algbw) || !is_bandwidth(busbw))
    return false;
  half = {*time, *algbw, *busbw, core::parse_int(fields[3])};
  if (!half.num_wrong)
    if (const auto wrong = core::parse_double(fields[3]); wrong && *wrong >= 0 && *wrong < 1e15)
      half.num_wrong = std::llround(*wrong);
  return half.num_wrong || fields[3] == "N/A";
}

/// A half that was not measured, as `lockstep bench collective` prints of collectives that work in place only.
bool is_absent(std::span<const std::string_view> fields) {
  return std::all_of(fields.begin(), fields.end(), [](std::string_view field) { return field == "N/A"; });
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (size_t at = 0; (at = line.find_first_not_of(" \t", at)) != std::string_view::npos;) {
    const size_t end = std::min(line.find_first_of(" \t", at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

constexpr size_t kHalf = 4, kWithRoot = 5 + 2 * kHalf, kWithoutRoot = 4 + 2 * kHalf;

class NcclTestsParser : public LogParser {
 public:
  using LogParser::LogParser;

  LineUse read(const LogLine& line) override {
    if (core::starts_with(line.text, "#")) return read_header(line.text);
    const auto words = words_of(line.text);
    if (words.empty() || !core::parse_int(words[0])) return LineUse::kOther;
    if (!is_header_seen_) return LineUse::kOther;
    return read_row(words) ? LineUse::kUsed : LineUse::kRejected;
  }

  void finish() override;

 private:
  LineUse read_header(std::string_view text) {
    if (text.find("size") != std::string_view::npos && text.find("count") != std::string_view::npos)
      is_header_seen_ = true;
    if (const size_t at = text.find("test starting:"); at != std::string_view::npos)
      named_ = find_collective(text.substr(at));
    if (const auto words = words_of(text);
        words.size() == 2 && words[0] == "#")  // `lockstep bench collective`: "# all-reduce"
      for (const Collective& one : kCollectives)
        if (core::replace_all(std::string(words[1]), "-", "_") == one.test) part_ = one.kind;
    if (const auto count = count_after(text, "lockstep bench collective")) given_ranks_ = *count;
    if (text.find(" Rank ") != std::string_view::npos && text.find(" Pid ") != std::string_view::npos)
      return read_rank(text);
    if (const auto average = number_after(text, "Avg bus bandwidth")) average_busbw_ = *average;
    if (text.find("Out of bounds values") != std::string_view::npos && text.find("FAILED") != std::string_view::npos)
      builder_.run().problems.push_back("the benchmark says that values came out wrong");
    return LineUse::kOther;
  }

  /// "#  Rank  0 Group  0 Pid  4711 on  node-1 device  0 [0x07] NVIDIA H100 80GB HBM3"
  LineUse read_rank(std::string_view text) {
    const auto rank = count_after(text, " Rank ");
    constexpr int64_t kMaxRank = 10'000'000;
    if (!rank || *rank > kMaxRank) return LineUse::kRejected;
    ranks_.insert(static_cast<int>(*rank));
    if (const size_t on = text.find(" on "); on != std::string_view::npos) {
      const auto words = words_of(text.substr(on + 4));
      if (!words.empty()) hosts_.insert(std::string(words[0]));
    }
    const size_t bracket = text.find("] ");
    if (bracket != std::string_view::npos && setup().device.empty())
      setup().device = core::trim(text.substr(bracket + 2));
    return LineUse::kUsed;
  }

  bool read_row(std::span<const std::string_view> words) {
    if (words.size() != kWithRoot && words.size() != kWithoutRoot) return false;
    const auto bytes = core::parse_int(words[0]), count = core::parse_int(words[1]);
    const auto root = words.size() == kWithRoot ? core::parse_int(words[4]) : std::optional<int64_t>(-1);
    Half out, in;
    if (!bytes || !count || !root || *bytes < 0 || *count < 0) return false;
    const auto out_words = words.subspan(words.size() - 2 * kHalf, kHalf), in_words = words.last(kHalf);
    const bool has_out = !is_absent(out_words), has_in = !is_absent(in_words);
    if ((!has_out && !has_in) || (has_out && !read_half(out_words, out)) || (has_in && !read_half(in_words, in)))
      return false;
    for (const bool is_in_place : {false, true}) {
      if (!(is_in_place ? has_in : has_out)) continue;
      const Half& half = is_in_place ? in : out;
      record::CollectivePoint point{.kind = std::string(part_),
                                    .type = std::string(words[2]),
                                    .operation = words[3] == "none" ? "" : std::string(words[3]),
                                    .root = *root,
                                    .bytes = static_cast<double>(*bytes),
                                    .count = *count,
                                    .is_in_place = is_in_place,
                                    .time_us = half.time_us,
                                    .algbw_gbytes_per_s = half.algbw,
                                    .busbw_gbytes_per_s = half.busbw,
                                    .num_wrong = half.num_wrong};
      builder_.run().collective_points.push_back(std::move(point));
    }
    return true;
  }

  bool is_header_seen_ = false;
  const Collective* named_ = nullptr;
  std::string_view part_{};  // kind of the rows that follow, where the output says it
  std::set<int> ranks_{};
  std::set<std::string> hosts_{};
  std::optional<double> average_busbw_{};
  std::optional<int64_t> given_ranks_{};
};

/// The number of ranks whose factor is the printed ratio; nothing where its digits fit several numbers, or the factor
/// is 1 for any.
std::optional<int64_t> ranks_by_ratio(std::span<const record::CollectivePoint> points, std::string_view kind) {
  constexpr int kMaxRanks = 64;  // beyond, neighbouring factors differ by less than two printed digits tell
  constexpr double kRounding = 0.005, kLeast = 10;
  double algbw = 0, busbw = 0, num = 0;
  for (const record::CollectivePoint& point : points)
    if (point.algbw_gbytes_per_s >= kLeast) algbw += point.algbw_gbytes_per_s, busbw += point.busbw_gbytes_per_s, ++num;
  if (num == 0 || record::bus_factor(kind, 2) == record::bus_factor(kind, 3)) return std::nullopt;
  const double ratio = busbw / algbw, error = kRounding * num * (1 + ratio) / algbw;
  std::optional<int64_t> found;
  for (int ranks = 2; ranks <= kMaxRanks; ++ranks) {
    if (std::abs(record::bus_factor(kind, ranks).value() - ratio) > error) continue;
    if (found) return std::nullopt;
    found = ranks;
  }
  return found;
}

/// The kind by its passes: median of the printed ratio over the points large enough for its digits.
const Collective* guess_by_ratio(std::span<const record::CollectivePoint> points, int num_ranks) {
  std::vector<double> ratios;
  for (const record::CollectivePoint& point : points)
    if (point.algbw_gbytes_per_s >= 1) ratios.push_back(point.busbw_gbytes_per_s / point.algbw_gbytes_per_s);
  if (ratios.empty() || num_ranks < 3) return nullptr;  // on two ranks 2 (n-1)/n is 1 too
  std::nth_element(ratios.begin(), ratios.begin() + static_cast<ptrdiff_t>(ratios.size() / 2), ratios.end());
  constexpr double kClose = 0.02;
  return std::abs(ratios[ratios.size() / 2] - record::bus_factor(kCollectives[0].kind, num_ranks).value()) < kClose
             ? &kCollectives[0]
             : nullptr;  // other factors fit several kinds
}

void NcclTestsParser::finish() {
  record::RunData& run = builder_.run();
  if (!ranks_.empty() && !setup().devices) setup().devices = static_cast<int64_t>(ranks_.size());
  if (given_ranks_.value_or(0) > 0 && !setup().devices) setup().devices = *given_ranks_;
  if (!hosts_.empty() && !setup().nodes) setup().nodes = static_cast<int64_t>(hosts_.size());
  const Collective* kind =
      named_ != nullptr ? named_ : find_collective(core::to_lower_ascii(run.source.filename().string()));
  if (!known(&record::RunSetup::devices) && !run.collective_points.empty()) {
    setup().devices = kind != nullptr ? ranks_by_ratio(run.collective_points, kind->kind) : std::nullopt;
    run.problems.push_back(
        setup().devices
            ? fmt::format("how many ranks took part is unknown; the ratio of the two bandwidths is that of {}",
                          *setup().devices)
            : "how many ranks took part is unknown: give --devices");
  }
  const int num_ranks = static_cast<int>(std::min<int64_t>(known(&record::RunSetup::devices).value_or(0), 10'000'000));
  if (kind == nullptr) kind = guess_by_ratio(run.collective_points, num_ranks);
  const bool has_unnamed = std::any_of(run.collective_points.begin(), run.collective_points.end(),
                                       [](const record::CollectivePoint& point) { return point.kind.empty(); });
  if (kind == nullptr && has_unnamed)
    run.problems.push_back(
        "which collective was measured is unknown: put its name (all_reduce, ...) into the file name");
  int64_t num_far = 0, num_wrong = 0;
  double sum_busbw = 0;
  for (record::CollectivePoint& point : run.collective_points) {
    const Collective* own =
        point.kind.empty() ? kind : find_collective(point.kind == "send_recv" ? "sendrecv" : point.kind);
    point.kind = own != nullptr ? own->kind : "";
    point.num_ranks = num_ranks;
    if (point.num_wrong.value_or(0) > 0) ++num_wrong;
    constexpr double kMbToGb = 1e-3, kDigits = 0.006, kRelative = 0.02, kSmallestPrinted = 0.01;
    const double algbw = point.bytes / point.time_us * kMbToGb;
    if (std::abs(algbw - point.algbw_gbytes_per_s) > kDigits + kRelative * algbw) ++num_far;
    if (own != nullptr && num_ranks > 0)
      point.busbw_gbytes_per_s = algbw * record::bus_factor(own->kind, num_ranks).value();
    else if (point.algbw_gbytes_per_s >= kSmallestPrinted)
      point.busbw_gbytes_per_s *= algbw / point.algbw_gbytes_per_s;
    point.algbw_gbytes_per_s = algbw;
    sum_busbw += point.busbw_gbytes_per_s;
  }
  if (num_far > 0)
    run.problems.push_back(
        fmt::format("{} printed bandwidths do not follow from size and time; computed ones are shown", num_far));
  if (num_wrong > 0) run.problems.push_back(fmt::format("{} points have wrong results", num_wrong));
  constexpr double kSameAverage = 0.05;
  const double average =
      run.collective_points.empty() ? 0 : sum_busbw / static_cast<double>(run.collective_points.size());
  if (average_busbw_ && kind != nullptr && num_ranks > 0 &&
      std::abs(average - *average_busbw_) > kSameAverage * *average_busbw_ + 0.01)
    run.problems.push_back(
        fmt::format("the printed average bus bandwidth, {} GB/s, is not that of the points read ({:.2f} GB/s)",
                    *average_busbw_, average));
}

}  // namespace

LogReader nccl_tests_reader() {
  return {.is_own_line =
              [](std::string_view line) {
                return core::starts_with(line, "#") && (line.find("algbw   busbw") != std::string_view::npos ||
                                                        line.find("Avg bus bandwidth") != std::string_view::npos);
              },
          .make = [](LogBuilder& builder) -> std::unique_ptr<LogParser> {
            return std::make_unique<NcclTestsParser>(builder);
          }};
}

}  // namespace lockstep::logs
