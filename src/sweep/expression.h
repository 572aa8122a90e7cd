#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sweep/scalar.h"

namespace lockstep::sweep {

/// Value of a name in a formula; nothing when it is unknown.
using NameLookup = std::function<std::optional<Scalar>(const std::string& name)>;

/// A formula or a condition, such as "nodes * 2" or "nodes >= 16 and model == 'ViT-B-32'".
///
/// From the weakest to the strongest: or; and; not; == != < <= > >=; + -; * / // %; sign; ** (right to left); calls and
/// brackets. Functions: min, max, abs, sqrt, log2, floor, ceil, round, if(condition, a, b). Texts stand in single or
/// double quotes. Names hold letters, digits, '_' and '.', so the flag --batch-size is called batch_size. Nothing else
/// can be reached: a formula computes, it never runs anything. Both functions throw UsageError that tells `where`, the
/// column and shows the place.
class Expression {
 public:
  static Expression parse(std::string text, std::string where);

  Scalar evaluate(const NameLookup& lookup) const;
  /// The value of a condition; anything but true or false is refused.
  bool is_true(const NameLookup& lookup) const;
  const std::string& text() const { return text_; }

 private:
  friend class ExpressionParser;
  enum class Kind { kValue, kName, kUnary, kBinary, kCall };
  struct Node {
    Kind kind = Kind::kValue;
    std::string symbol{};  ///< Operator, name or function.
    Scalar value = false;
    size_t column = 0;  ///< From 0.
    std::vector<size_t> children{};
  };

  Scalar value_of(size_t index, const NameLookup& lookup) const;
  Scalar call(const Node& node, const NameLookup& lookup) const;
  Scalar binary(const Node& node, const NameLookup& lookup) const;
  double number_of(size_t index, const NameLookup& lookup) const;
  bool bool_of(size_t index, const NameLookup& lookup) const;
  [[noreturn]] void fail(size_t column, const std::string& message) const;

  std::string text_, where_;
  std::vector<Node> nodes_;
  size_t root_ = 0;
};

}  // namespace lockstep::sweep
