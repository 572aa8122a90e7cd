#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sweep/scalar.h"

namespace lockstep::sweep {

/// One line "key = value" of a sweep file: one value, or a list of them. Texts are as written, with their ${...}.
struct Setting {
  std::string key{};
  std::vector<Scalar> values{};
  bool is_list = false;
  int64_t line = 0;
};

/// The sections that the file itself, its cases and its "when" blocks have in common.
struct Sections {
  std::vector<Setting> flags{};  ///< Of the command: [train] or [bench].
  std::vector<Setting> env{};    ///< Environment variables of the ranks.
  std::vector<Setting> slurm{};
  std::vector<Setting> tags{};  ///< Anything to tell points apart by, for reports.
};

/// Of a sweep, and so of one axis.
inline constexpr size_t kMaxPoints = 10'000;

/// One axis: "nodes", a flag, or an environment variable ("env.NAME").
struct Axis {
  std::string key{};
  std::vector<Scalar> values{};
  int64_t line = 0;
};

/// One value of the axis "case": settings that change together, under a name.
struct Case {
  std::string name{};
  Sections sections{};
  int64_t line = 0;
};

/// Settings of the points that fulfil a condition.
struct WhenBlock {
  std::string condition{};
  Sections sections{};
  bool skip = false;  ///< Leave these points out.
  int64_t line = 0;
};

enum class Scaling { kFree, kWeak, kStrong };
enum class Order { kListed, kRandom };
enum class SubmitHow { kJobs, kSingleton, kArrays };

/// A sweep as the user wrote it; docs/sweep.md describes the file.
struct SweepFile {
  std::string path{}, text{};
  std::string name{}, out = "sweeps", command = "train clip", program{};
  Setting ranks_per_node{};  ///< A number, or a formula of the axes; 1 by default.
  int64_t repeats = 1;
  Scaling scaling = Scaling::kFree;
  Order order = Order::kListed;
  int64_t seed = 0;
  SubmitHow how = SubmitHow::kJobs;
  int64_t in_flight = 0;  ///< Jobs that wait or run at the same time; 0: no limit.
  std::string billing_unit{};
  double billing_per_node_hour = 1;
  std::vector<Axis> axes{};
  std::vector<Case> cases{};
  Sections base{};
  std::string flags_section{};  ///< "train" or "bench", as the file calls its flags; empty: it sets none.
  int64_t flags_line = 0;       ///< Where it does so first.
  std::vector<WhenBlock> whens{};
  std::map<std::string, std::string> variables{};  ///< Defaults of ${NAME}.
};

/// Reads a sweep file. UsageError with file, line, what was found and what was expected.
SweepFile parse_sweep_file(std::string_view text, const std::string& path);
SweepFile read_sweep_file(const std::filesystem::path& path);

/// "1-128*2" -> 1 2 4 ... 128, "1-9+4" -> 1 5 9, "2-4" -> 2 3 4, joined with commas. A range must hit its end.
/// UsageError names `where`.
std::vector<Scalar> parse_range(std::string_view text, const std::string& where);
/// Values of the axis `key` written as one text: those of a range, else the text itself.
std::vector<Scalar> axis_values(std::string_view key, const std::string& text, const std::string& where);

}  // namespace lockstep::sweep
