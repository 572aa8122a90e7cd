#include "sweep/expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "core/characters.h"
#include "core/error_lines.h"
#include "core/print.h"
#include "core/strings.h"

namespace lockstep::sweep {
namespace {
constexpr int kMaxDepth = 64;  // brackets and signs within each other
constexpr size_t kMaxLength = 1000;

struct Function {
  const char* name;
  size_t min_arguments, max_arguments;
};
constexpr std::array kFunctions{Function{"min", 1, 16}, Function{"max", 1, 16},  Function{"abs", 1, 1},
                                Function{"sqrt", 1, 1}, Function{"log2", 1, 1},  Function{"floor", 1, 1},
                                Function{"ceil", 1, 1}, Function{"round", 1, 1}, Function{"if", 3, 3}};

using core::is_digit;

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

std::string type_name(const Scalar& value) {
  const std::array names{"a truth value", "a number", "a text"};
  return names[value.index()];
}

[[noreturn]] void throw_at(const std::string& text, const std::string& where, size_t column,
                           const std::string& message) {
  throw ErrorOfLines<UsageError>(
      core::printable_line(fmt::format("sweep: {}: formula '{}', column {}: {}", where, text, column + 1, message)),
      fmt::format("{}\n        {}^", core::printable_line(text), std::string(column, ' ')));
}
}  // namespace

/// Recursive descent over the text, one function per strength of binding.
class ExpressionParser {
 public:
  explicit ExpressionParser(Expression& result) : result_(result), text_(result.text_) {}

  void run() {
    if (text_.size() > kMaxLength) fail(0, fmt::format("longer than {} characters", kMaxLength));
    result_.root_ = either();
    if (!at_end()) fail(at_, fmt::format("expected an operator or the end, found '{}'", text_[at_]));
  }

 private:
  using Kind = Expression::Kind;

  [[noreturn]] void fail(size_t column, const std::string& message) {
    throw_at(text_, result_.where_, column, message);
  }

  bool at_end() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
    return at_ == text_.size();
  }
  /// Takes an operator of symbols.
  bool take(std::string_view symbol) {
    if (at_end() || !core::starts_with(std::string_view(text_).substr(at_), symbol)) return false;
    at_ += symbol.size();
    return true;
  }
  /// Takes an operator that is a word.
  bool take_word(std::string_view word) {
    if (at_end() || !core::starts_with(std::string_view(text_).substr(at_), word)) return false;
    const size_t end = at_ + word.size();
    if (end < text_.size() && (is_name_start(text_[end]) || is_digit(text_[end]))) return false;
    at_ = end;
    return true;
  }
  size_t add(Expression::Node node) {
    result_.nodes_.push_back(std::move(node));
    return result_.nodes_.size() - 1;
  }
  size_t join(const std::string& symbol, size_t column, size_t left, size_t right) {
    return add({.kind = Kind::kBinary, .symbol = symbol, .column = column, .children = {left, right}});
  }

  size_t either() {
    size_t left = both();
    while (take_word("or")) {
      const size_t column = at_ - 2;
      const size_t right = both();
      left = join("or", column, left, right);
    }
    return left;
  }
  size_t both() {
    size_t left = negation();
    while (take_word("and")) {
      const size_t column = at_ - 3;
      const size_t right = negation();
      left = join("and", column, left, right);
    }
    return left;
  }
  size_t negation() {
    if (!take_word("not")) return comparison();
    const size_t column = at_ - 3;
    const Depth guard(*this);
    const size_t operand = negation();
    return add({.kind = Kind::kUnary, .symbol = "not", .column = column, .children = {operand}});
  }
  size_t comparison() {
    const size_t left = chain({"+", "-"}, &ExpressionParser::product);
    for (const char* symbol : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (!take(symbol)) continue;
      const size_t column = at_ - std::string_view(symbol).size();
      const size_t right = chain({"+", "-"}, &ExpressionParser::product);
      return join(symbol, column, left, right);
    }
    if (take("=")) fail(at_ - 1, "'=' does not compare; write '=='");
    return left;
  }
  size_t chain(std::initializer_list<const char*> symbols, size_t (ExpressionParser::*next)()) {
    size_t left = (this->*next)();
    for (bool found = true; found;) {
      found = false;
      for (const char* symbol : symbols) {
        if (!take(symbol)) continue;
        const size_t column = at_ - std::string_view(symbol).size();
        const size_t right = (this->*next)();
        left = join(symbol, column, left, right);
        found = true;
        break;
      }
    }
    return left;
  }
  size_t product() { return chain({"*", "//", "/", "%"}, &ExpressionParser::sign); }
  size_t sign() {
    if (!take("-")) return power();
    const size_t column = at_ - 1;
    const Depth guard(*this);
    const size_t operand = sign();
    return add({.kind = Kind::kUnary, .symbol = "-", .column = column, .children = {operand}});
  }
  size_t power() {
    const size_t left = atom();
    if (!take("**")) return left;
    const size_t column = at_ - 2;
    const Depth guard(*this);
    const size_t right = sign();
    return join("**", column, left, right);
  }

  size_t atom() {
    if (at_end()) fail(at_, "expected a number, a name or '(', found the end");
    const size_t column = at_;
    const char c = text_[at_];
    if (c == '(') {
      ++at_;
      const Depth guard(*this);
      const size_t inner = either();
      if (!take(")")) fail(at_, fmt::format("the bracket of column {} is not closed", column + 1));
      return inner;
    }
    if (c == '\'' || c == '"') return quoted(c);
    if (is_digit(c) || c == '.') return number();
    if (is_name_start(c)) return name();
    fail(column, fmt::format("expected a number, a name or '(', found '{}'", c));
  }
  size_t quoted(char quote) {
    const size_t column = at_;
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string::npos) fail(column, "the text is not closed");
    at_ = end + 1;
    return add({.kind = Kind::kValue, .value = text_.substr(column + 1, end - column - 1), .column = column});
  }
  size_t number() {
    const size_t column = at_;
    const auto goes_on = [&](size_t at) {
      const char c = text_[at];
      const bool is_exponent_sign =
          (c == '-' || c == '+') && at > column && (text_[at - 1] == 'e' || text_[at - 1] == 'E');
      return is_digit(c) || c == '.' || is_name_start(c) || is_exponent_sign;
    };
    while (at_ < text_.size() && goes_on(at_)) ++at_;
    const std::string word = text_.substr(column, at_ - column);
    const auto value = core::parse_double(word);
    if (!value || !std::isfinite(*value)) fail(column, fmt::format("'{}' is not a number", word));
    return add({.kind = Kind::kValue, .value = *value, .column = column});
  }
  size_t name() {
    const size_t column = at_;
    while (at_ < text_.size() && (is_name_start(text_[at_]) || is_digit(text_[at_]) || text_[at_] == '.')) ++at_;
    const std::string word = text_.substr(column, at_ - column);
    if (word == "true" || word == "false")
      return add({.kind = Kind::kValue, .value = word == "true", .column = column});
    if (take("(")) return arguments(word, column);
    return add({.kind = Kind::kName, .symbol = word, .column = column});
  }
  size_t arguments(const std::string& word, size_t column) {
    std::vector<std::string> names;
    for (const Function& function : kFunctions) names.emplace_back(function.name);
    const auto found = std::find(names.begin(), names.end(), word);
    if (found == names.end()) fail(column, fmt::format("no function '{}', expected {}", word, core::join_or(names)));
    const Function& function = kFunctions[static_cast<size_t>(found - names.begin())];
    const Depth guard(*this);
    std::vector<size_t> children;
    do children.push_back(either());
    while (take(","));
    if (!take(")")) fail(at_, fmt::format("the bracket of '{}' is not closed", word));
    if (children.size() < function.min_arguments || children.size() > function.max_arguments)
      fail(column, fmt::format("'{}' got {} values, expected {}", word, children.size(),
                               function.min_arguments == function.max_arguments
                                   ? fmt::format("{}", function.min_arguments)
                                   : fmt::format("{} to {}", function.min_arguments, function.max_arguments)));
    return add({.kind = Kind::kCall, .symbol = word, .column = column, .children = std::move(children)});
  }

  struct Depth {
    explicit Depth(ExpressionParser& parser) : parser_(parser) {
      if (++parser_.depth_ > kMaxDepth)
        parser_.fail(parser_.at_, fmt::format("nested deeper than {} levels", kMaxDepth));
    }
    ~Depth() { --parser_.depth_; }
    ExpressionParser& parser_;
  };

  Expression& result_;
  const std::string& text_;
  size_t at_ = 0;
  int depth_ = 0;
};

Expression Expression::parse(std::string text, std::string where) {
  Expression result;
  result.text_ = std::move(text);
  result.where_ = std::move(where);
  ExpressionParser(result).run();
  return result;
}

void Expression::fail(size_t column, const std::string& message) const { throw_at(text_, where_, column, message); }

double Expression::number_of(size_t index, const NameLookup& lookup) const {
  const Scalar value = value_of(index, lookup);
  if (const auto* number = std::get_if<double>(&value)) return *number;
  fail(nodes_[index].column, fmt::format("expected a number, got {} ({})", type_name(value), to_text(value)));
}

bool Expression::bool_of(size_t index, const NameLookup& lookup) const {
  const Scalar value = value_of(index, lookup);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  fail(nodes_[index].column, fmt::format("expected true or false, got {} ({})", type_name(value), to_text(value)));
}

Scalar Expression::call(const Node& node, const NameLookup& lookup) const {
  if (node.symbol == "if") return value_of(node.children[bool_of(node.children[0], lookup) ? 1 : 2], lookup);
  std::vector<double> values;
  for (const size_t child : node.children) values.push_back(number_of(child, lookup));
  const double first = values[0];
  if (node.symbol == "min") return *std::min_element(values.begin(), values.end());
  if (node.symbol == "max") return *std::max_element(values.begin(), values.end());
  if (node.symbol == "abs") return std::abs(first);
  if (node.symbol == "floor") return std::floor(first);
  if (node.symbol == "ceil") return std::ceil(first);
  if (node.symbol == "round") return std::round(first);
  if (first < 0 || (first == 0 && node.symbol == "log2"))
    fail(node.column, fmt::format("{} of {} does not exist", node.symbol, to_text(first)));
  return node.symbol == "sqrt" ? std::sqrt(first) : std::log2(first);
}

Scalar Expression::binary(const Node& node, const NameLookup& lookup) const {
  const std::string& op = node.symbol;
  const size_t left = node.children[0], right = node.children[1];
  if (op == "and") return bool_of(left, lookup) && bool_of(right, lookup);
  if (op == "or") return bool_of(left, lookup) || bool_of(right, lookup);
  if (op == "==" || op == "!=") {
    const Scalar a = value_of(left, lookup), b = value_of(right, lookup);
    if (a.index() != b.index())
      fail(node.column,
           fmt::format("{} ({}) is compared with {} ({})", type_name(a), to_text(a), type_name(b), to_text(b)));
    return (a == b) == (op == "==");
  }
  const double a = number_of(left, lookup), b = number_of(right, lookup);
  if (op == "<") return a < b;
  if (op == "<=") return a <= b;
  if (op == ">") return a > b;
  if (op == ">=") return a >= b;
  const bool divides = op == "/" || op == "//" || op == "%";
  if (divides && b == 0) fail(node.column, "division by zero");
  const double result = op == "+"    ? a + b
                        : op == "-"  ? a - b
                        : op == "*"  ? a * b
                        : op == "/"  ? a / b
                        : op == "//" ? std::floor(a / b)
                        : op == "%"  ? a - b * std::floor(a / b)
                                     : std::pow(a, b);
  if (!std::isfinite(result))
    fail(node.column, fmt::format("{} {} {} is no finite number", to_text(a), op, to_text(b)));
  return result;
}

Scalar Expression::value_of(size_t index, const NameLookup& lookup) const {
  const Node& node = nodes_[index];
  switch (node.kind) {
    case Kind::kValue: return node.value;
    case Kind::kName: {
      const auto value = lookup(node.symbol);
      if (!value) fail(node.column, fmt::format("the name '{}' is unknown here", node.symbol));
      return *value;
    }
    case Kind::kUnary:
      if (node.symbol == "not") return !bool_of(node.children[0], lookup);
      return -number_of(node.children[0], lookup);
    case Kind::kBinary: return binary(node, lookup);
    case Kind::kCall: return call(node, lookup);
  }
  return false;
}

Scalar Expression::evaluate(const NameLookup& lookup) const { return value_of(root_, lookup); }

bool Expression::is_true(const NameLookup& lookup) const { return bool_of(root_, lookup); }

}  // namespace lockstep::sweep
