#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

/// Limits of one expanded list; beyond them expand_braces throws UsageError before it has used the memory.
struct ExpandLimits {
  size_t max_count = 10'000'000;
  size_t max_bytes = size_t{1} << 30;
};

/// Expands shell-like braces: {a,b,c}, {000..041} (keeps zero padding), {0..10..2}, {a..e}, nested, several (the left
/// one slowest). A brace pair without comma or range is literal text; a backslash takes the next character literally.
/// Unbalanced braces and lists beyond the limits throw UsageError with the place.
std::vector<std::string> expand_braces(std::string_view pattern, const ExpandLimits& limits = {});

/// One of the sources that "::" joins.
struct ShardSource {
  std::string spec;
  std::vector<std::string> shards;
  double factor = 1;  ///< Up-sampling factor; a shard of this source is drawn factor times as often as one of factor 1.
};

/// Splits at "::", expands each part, and attaches the "::"-joined factors ("" for none; else one positive number per
/// source). The limits hold for all sources together.
std::vector<ShardSource> parse_shard_sources(std::string_view spec, std::string_view factors,
                                             const ExpandLimits& limits = {});

/// The list that has just this shard: braces, backslashes and "::" in it are literal text.
std::string list_of_shard(std::string_view shard);

/// How somebody finds a shard that is not there: what the shell would have expanded is no list here.
std::string missing_shard_hint(std::string_view shard);

/// True for "pipe:COMMAND".
bool is_pipe(std::string_view shard);
/// True for what is no file of this machine: a command, or an address (s3://, http://, https://).
bool is_streamed(std::string_view shard);

}  // namespace lockstep::data
