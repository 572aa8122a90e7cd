#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/options.h"
#include "sweep/expression.h"
#include "sweep/points.h"
#include "sweep/sweep_file.h"

namespace lockstep::sweep {

/// What the names in formulas and ${...} of one point mean: its axes, nodes, ranks_per_node, ranks, repeat, case, the
/// flags that are set for it, and the variables. Settings are resolved when they are asked for; a circle is
/// refused.
class PointScope {
 public:
  /// `options`: those of the command, to know numbers from texts.
  PointScope(const SweepFile& file, const core::OptionSet& options, const VariableLookup& variables)
      : file_(file), options_(options), variables_(variables) {}

  void set_coordinate(const std::string& key, Scalar value);  ///< Key as in the file.
  void set_settings(std::vector<Setting> settings);           ///< Of the command's flags, those that hold.

  /// Value of a condition over the coordinates.
  bool holds(const WhenBlock& block) const;
  /// The values of a setting. `is_number`: a text is a formula, else ${...} in it are replaced.
  std::vector<Scalar> values_of(const Setting& setting, bool is_number) const;
  double number_of(const Setting& setting) const;
  std::string text_of(const Setting& setting) const;
  /// The flags that hold, in the order of their first appearance.
  const std::vector<Setting>& settings() const { return settings_; }
  /// Does the command's option of this key take numbers or truth values?
  bool is_formula_option(const std::string& key) const;

 private:
  std::optional<Scalar> look_up(const std::string& name) const;
  std::optional<Scalar> look_up_coordinate(const std::string& name) const;
  std::optional<Scalar> look_up_setting(const std::string& name) const;
  std::string where(const Setting& setting) const;

  const SweepFile& file_;
  const core::OptionSet& options_;
  const VariableLookup& variables_;
  std::map<std::string, Scalar> coordinates_;  // by name in formulas
  std::vector<Setting> settings_;
  mutable std::set<std::string> in_progress_;
  mutable std::map<std::string, Scalar> resolved_;  // settings; else each mention of one would resolve it again
};

/// Text of ${NAME}. UsageError says how to set it.
std::string variable_text(const std::string& name, const std::string& where, const VariableLookup& variables);

/// Replaces each ${...} by the value of what stands inside, a name or a formula; "$$" is a dollar sign.
std::string substitute(const std::string& text, const std::string& where,
                       const std::function<Scalar(const std::string& inside)>& value_of);

/// Name of a key in formulas: "batch-size" -> "batch_size".
std::string formula_name(const std::string& key);

}  // namespace lockstep::sweep
