#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::logs {

inline constexpr double kMsPerSecond = 1000;

/// A log line as the parsers see it.
struct LogLine {
  std::string_view text{};         ///< Without colour codes, rank prefixes and white space around it.
  std::optional<int> rank{};       ///< Of its prefix: "3: ", "[rank3]: ", "[default3]:".
  int64_t number = 0;              ///< In the file, from 1; 0: not known.
  std::optional<double> time_s{};  ///< Of the time stamp in front, as if it were UTC: logs do not name their zone.
};

/// Takes a raw line apart; `buffer` keeps the text alive. Time stamps stay in the text.
LogLine clean_line(std::string_view raw, std::string& buffer);

/// The finite number at the start of `text` (white space before it is passed over, thousands separators are taken out);
/// `rest` is what follows.
std::optional<double> read_number(std::string_view text, std::string_view* rest = nullptr);
/// The number behind `key`, which "=" or ":" and white space may follow: "loss=7.1", "loss: 7.1".
std::optional<double> number_after(std::string_view line, std::string_view key, std::string_view* rest = nullptr);
/// Like number_after, for whole numbers that are not negative; "99.00" counts as whole.
std::optional<int64_t> count_after(std::string_view line, std::string_view key, std::string_view* rest = nullptr);
/// A time behind `key` in ms: its unit is in the key ("... (ms)", "... in s") or behind the number ("0.8 s"), else
/// `default_ms` per unit holds. `found_unit_ms` is the unit that held.
std::optional<double> ms_after(std::string_view line, std::string_view key, double default_ms,
                               double* found_unit_ms = nullptr);

/// Unix time of a stamp "2026-01-31[ ,T]12:34:56[.,789]" near the start of a line, read as UTC.
std::optional<double> read_time_stamp(std::string_view line);

/// What follows a time stamp that a line begins with, put there by what collected the lines ("2026-01-31T12:34:56Z ");
/// the whole line where there is none.
std::string_view behind_time_stamp(std::string_view line);

/// A dump of options, "  world_size ........ 8" (Megatron, DeepSpeed) or "  world_size: 8" (OpenCLIP): the value, or
/// nothing.
std::optional<std::string_view> option_in_dump(std::string_view line, std::string_view name);

}  // namespace lockstep::logs
