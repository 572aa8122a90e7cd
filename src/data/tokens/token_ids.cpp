#include "data/tokens/token_ids.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <mutex>
#include <numeric>
#include <thread>
#include <type_traits>

#include "core/files.h"
#include "core/log.h"
#include "data/parallel_for.h"

namespace lockstep::data {
namespace {

constexpr int64_t kBlockBytes = 8 << 20;
constexpr int64_t kMostThreads = 16;

/// The id that a stored value stands for; -1: none.
template <typename T> int64_t id_of(T value) {
  if constexpr (std::is_floating_point_v<T>)
    return value >= 0 && value < T(int64_t{1} << 31) ? static_cast<int64_t>(value) : -1;
  else if constexpr (sizeof(T) == 8)
    return value < 0 || value >= (int64_t{1} << 31) ? -1 : value;
  else
    return value < 0 ? -1 : value;
}

template <typename T> T load(const std::byte* from, int64_t i) {
  T value;
  std::memcpy(&value, from + static_cast<size_t>(i) * sizeof(T), sizeof value);
  return value;
}

template <typename T> TokenIds ids_of_block(const std::byte* tokens, int64_t begin, int64_t end) {
  int64_t least = std::numeric_limits<int64_t>::max(), most = std::numeric_limits<int64_t>::min();
  for (int64_t i = begin; i < end; ++i) {
    const int64_t id = id_of(load<T>(tokens, i));
    least = std::min(least, id);
    most = std::max(most, id);
  }
  const auto place_of = [&](int64_t id) {
    int64_t i = begin;
    while (id_of(load<T>(tokens, i)) != id) ++i;
    return i;
  };
  return {
      .least = least, .most = most, .least_at = place_of(least), .most_at = place_of(most), .num_read = end - begin};
}

TokenIds ids_of_block(TokenType type, const std::byte* tokens, int64_t begin, int64_t end) {
  switch (type) {
    case TokenType::kU8: return ids_of_block<uint8_t>(tokens, begin, end);
    case TokenType::kI8: return ids_of_block<int8_t>(tokens, begin, end);
    case TokenType::kI16: return ids_of_block<int16_t>(tokens, begin, end);
    case TokenType::kI32: return ids_of_block<int32_t>(tokens, begin, end);
    case TokenType::kI64: return ids_of_block<int64_t>(tokens, begin, end);
    case TokenType::kF64: return ids_of_block<double>(tokens, begin, end);
    case TokenType::kF32: return ids_of_block<float>(tokens, begin, end);
    case TokenType::kU16: return ids_of_block<uint16_t>(tokens, begin, end);
  }
  LOCKSTEP_CHECK(false, "type {}", static_cast<int>(type));
}

void join(TokenIds& all, const TokenIds& block) {
  if (all.num_read == 0 || block.least < all.least) {
    all.least = block.least;
    all.least_at = block.least_at;
  }
  if (all.num_read == 0 || block.most > all.most) {
    all.most = block.most;
    all.most_at = block.most_at;
  }
  all.num_read += block.num_read;
}

/// A step that visits every block once, far from the last one.
int64_t spread_step(int64_t num_blocks) {
  auto step = std::max<int64_t>(1, static_cast<int64_t>(0.618 * static_cast<double>(num_blocks)));
  while (std::gcd(step, num_blocks) != 1) ++step;
  return step;
}

/// Names a state of a file.
std::string file_key(const std::filesystem::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) core::throw_errno("cannot stat", path);
  return fmt::format("{} bytes={} changed={}.{}", std::filesystem::absolute(path).lexically_normal().string(),
                     info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
}

Arrays scan_as_arrays(const IndexedDataset& files, double seconds) {
  const auto start = std::chrono::steady_clock::now();
  const TokenIds ids = scan_token_ids(files, seconds);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  const double share = static_cast<double>(ids.num_read) / static_cast<double>(files.num_tokens());
  core::log_info("data: ids of '{}' are {} to {}: read {} of {} tokens ({:.0f} %) in {:.1f} s", files.prefix().string(),
                 ids.least, ids.most, ids.num_read, files.num_tokens(), 100 * share, taken.count());
  return {.facts = {{"least", ids.least},
                    {"most", ids.most},
                    {"least_at", ids.least_at},
                    {"most_at", ids.most_at},
                    {"num_read", ids.num_read}}};
}

}  // namespace

TokenIds scan_token_ids(const IndexedDataset& files, double seconds) {
  const auto deadline =
      std::chrono::steady_clock::now() +
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
  const int64_t block_tokens = kBlockBytes / token_bytes(files.type()),
                num_blocks = (files.num_tokens() + block_tokens - 1) / block_tokens;
  if (num_blocks == 0) return {};
  const int64_t step = spread_step(num_blocks),
                threads = std::clamp<int64_t>(std::thread::hardware_concurrency(), 1, kMostThreads);
  TokenIds all;
  std::mutex mutex;
  for_each_parallel(static_cast<size_t>(num_blocks), threads, [&](size_t i, size_t) {
    if (i > 0 && std::chrono::steady_clock::now() > deadline) return;
    const auto block = static_cast<int64_t>(static_cast<unsigned __int128>(i) * static_cast<uint64_t>(step) %
                                            static_cast<uint64_t>(num_blocks));
    const TokenIds ids = ids_of_block(files.type(), files.token_data().data(), block * block_tokens,
                                      std::min(files.num_tokens(), (block + 1) * block_tokens));
    const std::lock_guard lock(mutex);
    join(all, ids);
  });
  return all;
}

void check_token_ids(const IndexedDataset& files, int64_t vocab_size, const TokenIdCheck& check) {
  const bool has_no_other =
      (files.type() == TokenType::kU8 && vocab_size > 0xFF) || (files.type() == TokenType::kU16 && vocab_size > 0xFFFF);
  if (has_no_other || files.num_tokens() == 0) return;
  const auto scan = [&] { return scan_as_arrays(files, check.seconds); };
  const bool is_shared = check.cache != nullptr && check.cache->is_writable();
  if (!is_shared && !check.is_first_rank) return;
  const core::Json facts =
      (check.cache != nullptr ? check.cache->get("ids", file_key(files.prefix().string() + ".bin"), scan) : scan())
          .facts;
  if (const auto num_read = facts.at("num_read").get<int64_t>(); num_read < files.num_tokens() && check.is_first_rank)
    core::log_warning(
        "data: ids of '{}' were tested in {} of {} tokens before the start, the others when they are used; `lockstep "
        "data verify` reads all",
        files.prefix().string(), num_read, files.num_tokens());
  if (facts.at("most").get<int64_t>() >= vocab_size) files.refuse_token(facts.at("most_at"), vocab_size);
  if (facts.at("least").get<int64_t>() < 0) files.refuse_token(facts.at("least_at"), vocab_size);
}

}  // namespace lockstep::data
