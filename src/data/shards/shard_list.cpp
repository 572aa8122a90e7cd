#include "data/shards/shard_list.h"

#include <cmath>
#include <cstdint>
#include <optional>

#include "core/error.h"
#include "core/strings.h"
#include "remote/address.h"

namespace lockstep::data {
namespace {

constexpr int kMaxDepth = 64;

/// Recursive expansion of one pattern; positions in messages refer to the whole pattern.
class Expander {
 public:
  Expander(std::string_view pattern, const ExpandLimits& limits) : pattern_(pattern), limits_(limits) {}

  std::vector<std::string> expand(size_t begin, size_t end, int depth) {
    std::vector<std::string> result(1);
    for (size_t at = begin; at < end;) {
      const char c = pattern_[at];
      if (c == '\\' && at + 1 < end) {
        append(result, pattern_.substr(at + 1, 1));
        at += 2;
      } else if (c == '}') {
        unbalanced(at, "closes nothing");
      } else if (c == '{') {
        const size_t close = matching(at, end);
        multiply(result, group(at + 1, close, depth + 1));
        at = close + 1;
      } else {
        size_t stop = at + 1;
        while (stop < end && pattern_[stop] != '\\' && pattern_[stop] != '{' && pattern_[stop] != '}') ++stop;
        append(result, pattern_.substr(at, stop - at));
        at = stop;
      }
    }
    return result;
  }

 private:
  [[noreturn]] void unbalanced(size_t at, std::string_view what) const {
    throw UsageError(
        fmt::format("data: unbalanced braces in shard list '{}': the brace at character {} {}", pattern_.substr(0, 300),
                    at + 1, what),
        "write a list like 'shard-{000..099}.tar' in single quotes; a literal brace is written \\{ or \\}");
  }

  [[noreturn]] void too_long(uint64_t count) const {
    throw UsageError(
        fmt::format(
            "data: shard list '{}' expands to more than is allowed: count={} (at most {}), or more than {} bytes",
            pattern_.substr(0, 300), count, limits_.max_count, limits_.max_bytes),
        "check the range; is a digit too many in it?");
  }

  size_t matching(size_t open, size_t end) const {
    int depth = 0;
    for (size_t at = open; at < end; ++at) {
      if (pattern_[at] == '\\') {
        ++at;
      } else if (pattern_[at] == '{') {
        ++depth;
      } else if (pattern_[at] == '}' && --depth == 0) {
        return at;
      }
    }
    unbalanced(open, "is never closed");
  }

  void check(size_t count, size_t bytes) const {
    if (count > limits_.max_count || bytes > limits_.max_bytes) too_long(count);
  }

  /// To each of a list, whose bytes are counted before they are there.
  void append(std::vector<std::string>& list, std::string_view text) const {
    size_t bytes = text.size() * list.size();
    for (const std::string& item : list) bytes += list.size() > 1 ? item.size() : 0;
    check(list.size(), bytes);
    for (std::string& item : list) item += text;
  }

  void multiply(std::vector<std::string>& list, const std::vector<std::string>& factors) const {
    if (factors.size() == 1) return append(list, factors[0]);  // a thousand braces around nothing copy no list
    size_t list_bytes = 0, factor_bytes = 0;
    for (const std::string& item : list) list_bytes += item.size();
    for (const std::string& item : factors) factor_bytes += item.size();
    check(list.size() * factors.size(), list_bytes * factors.size() + factor_bytes * list.size());
    std::vector<std::string> product;
    product.reserve(list.size() * factors.size());
    for (const std::string& left : list)
      for (const std::string& right : factors) product.push_back(left + right);
    list = std::move(product);
  }

  /// The alternatives of what stands between a pair of braces.
  std::vector<std::string> group(size_t begin, size_t end, int depth) {
    if (depth > kMaxDepth)
      throw UsageError(fmt::format("data: braces nested deeper than {} levels in a shard list", kMaxDepth));
    if (const auto range = try_range(pattern_.substr(begin, end - begin))) return *range;
    std::vector<std::string> all;
    size_t bytes = 0, start = begin;
    int level = 0;
    bool has_comma = false;
    for (size_t at = begin; at <= end; ++at) {
      const char c = at < end ? pattern_[at] : ',';
      if (at < end && c == '\\') {
        ++at;
      } else if (c == '{') {
        ++level;
      } else if (c == '}') {
        --level;
      } else if (c == ',' && (level == 0 || at == end)) {
        has_comma = has_comma || at < end;
        for (std::string& item : expand(start, at, depth)) {
          bytes += item.size();
          all.push_back(std::move(item));
        }
        check(all.size(), bytes);
        start = at + 1;
      }
    }
    if (!has_comma)
      for (std::string& item : all) item = "{" + item + "}";
    return all;
  }

  /// "3..7", "003..100", "0..10..2", "a..e", or nothing.
  std::optional<std::vector<std::string>> try_range(std::string_view text) const {
    const std::vector<std::string> parts = core::split(text, "..");
    if (parts.size() < 2 || parts.size() > 3) return std::nullopt;
    int64_t step = 1;
    if (parts.size() == 3) {
      const auto given = core::parse_int(parts[2]);
      if (!given || *given == INT64_MIN) return std::nullopt;
      step = *given == 0 ? 1 : std::abs(*given);
    }
    const auto is_letter = [](const std::string& s) {
      return s.size() == 1 && std::isalpha(static_cast<unsigned char>(s[0])) != 0;
    };
    if (is_letter(parts[0]) && is_letter(parts[1])) return letters(parts[0][0], parts[1][0], step);
    const auto low = core::parse_int(parts[0]), high = core::parse_int(parts[1]);
    if (!low || !high || parts[0].size() > 18 || parts[1].size() > 18) return std::nullopt;
    const auto padded = [](const std::string& s) {
      const size_t sign = s[0] == '-' ? 1 : 0;
      return s.size() > sign + 1 && s[sign] == '0';
    };
    const size_t width = padded(parts[0]) || padded(parts[1]) ? std::max(parts[0].size(), parts[1].size()) : 0;
    return numbers(*low, *high, step, width);
  }

  std::vector<std::string> numbers(int64_t low, int64_t high, int64_t step, size_t width) const {
    const uint64_t distance = static_cast<uint64_t>(low < high ? high - low : low - high);
    const uint64_t count = distance / static_cast<uint64_t>(step) + 1;
    check(count, count);
    std::vector<std::string> list;
    list.reserve(count);
    for (uint64_t i = 0; i < count; ++i) {
      const int64_t move = static_cast<int64_t>(i) * step;
      list.push_back(fmt::format("{:0{}}", low < high ? low + move : low - move, width));
    }
    return list;
  }

  static std::vector<std::string> letters(char low, char high, int64_t step) {
    static constexpr std::string_view kAlphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    std::vector<std::string> list;
    const auto from = static_cast<int64_t>(kAlphabet.find(low)), to = static_cast<int64_t>(kAlphabet.find(high));
    step = std::min<int64_t>(step, 64);
    for (int64_t at = from; from <= to ? at <= to : at >= to; at += from <= to ? step : -step)
      list.emplace_back(1, kAlphabet[static_cast<size_t>(at)]);
    return list;
  }

  std::string_view pattern_;
  const ExpandLimits& limits_;
};

}  // namespace

std::vector<std::string> expand_braces(std::string_view pattern, const ExpandLimits& limits) {
  return Expander(pattern, limits).expand(0, pattern.size(), 0);
}

bool is_pipe(std::string_view shard) { return core::starts_with(shard, "pipe:"); }

bool is_streamed(std::string_view shard) { return is_pipe(shard) || remote::is_url(shard); }

std::vector<ShardSource> parse_shard_sources(std::string_view spec, std::string_view factors,
                                             const ExpandLimits& limits) {
  std::vector<ShardSource> sources;
  size_t count = 0, bytes = 0;
  for (const std::string& part : core::split(spec, "::")) {
    if (core::trim(part).empty())
      throw UsageError(fmt::format("data: empty source in '{}'", spec),
                       "join sources as 'A/{000..099}.tar::B/{000..049}.tar'");
    sources.push_back({.spec = part, .shards = expand_braces(part, limits), .factor = 1});
    count += sources.back().shards.size();
    for (const std::string& shard : sources.back().shards) bytes += shard.size();
    if (sources.size() > 1 && (count > limits.max_count || bytes > limits.max_bytes))
      throw UsageError(
          fmt::format(
              "data: the first {} sources of '{}' have more shards than is allowed: count={} (at most {}), bytes={} "
              "(at most {})",
              sources.size(), spec.substr(0, 300), count, limits.max_count, bytes, limits.max_bytes),
          "check the ranges; is a digit too many in one of them?");
  }
  if (factors.empty()) return sources;
  const std::vector<std::string> numbers = core::split(factors, "::");
  if (numbers.size() != sources.size())
    throw UsageError(fmt::format("data: {} up-sampling factors for {} sources", numbers.size(), sources.size()),
                     "give one factor per source, joined with '::' like the sources");
  for (size_t i = 0; i < sources.size(); ++i) {
    const auto factor = core::parse_double(core::trim(numbers[i]));
    if (!factor || !std::isfinite(*factor) || *factor <= 0 || *factor > 1e12)
      throw UsageError(fmt::format("data: up-sampling factor '{}' is not a positive number", numbers[i]));
    sources[i].factor = *factor;
  }
  return sources;
}

std::string list_of_shard(std::string_view shard) {
  std::string list;
  for (size_t at = 0; at < shard.size(); ++at) {
    const bool splits = at > 0 && shard[at] == ':' && shard[at - 1] == ':';
    if (splits || std::string_view("{}\\").find(shard[at]) != std::string_view::npos) list += '\\';
    list += shard[at];
  }
  return list;
}

std::string missing_shard_hint(std::string_view shard) {
  if (shard.find_first_of("*?") != std::string_view::npos)
    return "'*' and '?' are not expanded here: write the shards as a brace list, 'train-{000000..000099}.tar'";
  return "check the range in the braces of the list, and that the folder is visible on every node";
}

}  // namespace lockstep::data
