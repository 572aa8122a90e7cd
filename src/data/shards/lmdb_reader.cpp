#include "data/shards/lmdb_reader.h"

#include <fcntl.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "core/error.h"
#include "core/strings.h"
#include "core/wrapped_message.h"

namespace lockstep::data {
namespace fs = std::filesystem;

namespace {

static_assert(std::endian::native == std::endian::little, "pages of an LMDB are read as they lie on the disk");

constexpr uint32_t kMagic = 0xBEEFC0DE;
constexpr uint32_t kDataVersion = 1;
constexpr size_t kPageHeader = 16, kNodeHeader = 8;
constexpr size_t kMetaBytes = 136;  // of the two tables, and what stands before and behind them
constexpr size_t kTableBytes = 48;
constexpr uint16_t kBranchPage = 0x01, kLeafPage = 0x02, kOverflowPage = 0x04, kMetaPage = 0x08;
constexpr uint16_t kBigData = 0x01;  // node flags
constexpr uint64_t kNoPage = ~uint64_t{0};
constexpr int kMaxTreeDepth = 32;  // liblmdb's own limit
constexpr uint32_t kMinPageBytes = 256, kMaxPageBytes = 65536;
constexpr size_t kMaxKeptBytes = size_t{64} << 20;  // 16384 pages hold the keys of 2 million pictures
// Smaller reads are slower. What follows is left to the kernel, which reads it in larger pieces of memory than
// posix_fadvise() does.
constexpr uint64_t kAheadBytes = uint64_t{1} << 20;

/// The number at `offset`; the caller has checked that it lies inside.
template <typename T> T number_at(std::string_view bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

}  // namespace

/// Pages of keys do not change while no commit is made, and a commit is refused.
struct LmdbReader::PageCache {
  std::shared_mutex mutex;
  std::unordered_map<uint64_t, std::shared_ptr<const Page>> pages;
};

LmdbReader::LmdbReader(LmdbReader&&) noexcept = default;
LmdbReader::~LmdbReader() = default;

fs::path lmdb_data_file(const fs::path& path) {
  std::error_code code;
  return fs::is_directory(path, code) ? path / "data.mdb" : path;
}

bool is_lmdb(const std::string& path) {
  std::error_code code;
  if (fs::is_directory(path, code)) return fs::exists(fs::path(path) / "data.mdb", code);
  const std::string lower = core::to_lower_ascii(path);
  return core::ends_with(lower, ".lmdb") || core::ends_with(lower, ".mdb");
}

void LmdbReader::refuse(const std::string& what) const {
  throw DataError(fmt::format("data: LMDB '{}' cannot be read: {}", file_name_.string(), what),
                  "copy or convert it again (`lockstep data to-lmdb`)");
}

LmdbReader::LmdbReader(const fs::path& path)
    : path_(path), file_name_(lmdb_data_file(path)), cache_(std::make_unique<PageCache>()) {
  try {
    file_ = core::open_for_reading(file_name_);
    num_bytes_ = core::file_bytes(file_, file_name_);
  } catch (const EnvironmentError& error) {
    throw DataError(core::wrapped_message("data", error), error.hint());
  }
  table_ = newest_table();
  constexpr uint16_t kOtherOrders = 0x02 | 0x04 | 0x08;  // reverse keys, several values of a key, integers as keys
  if ((table_.flags & kOtherOrders) != 0)
    refuse(fmt::format("its keys have an order that no picture data use, flags=0x{:x}", table_.flags));
  check_length();
}

void LmdbReader::check_length() const {
  const uint64_t expected = (table_.last_page + 1) * table_.page_bytes, seen = core::file_bytes(file_, file_name_);
  if (table_.last_page >= kNoPage / kMaxPageBytes || seen < expected)
    refuse(fmt::format("it is cut short: bytes={}, expected at least {}", seen, expected));
}

/// Nothing where no meta page lies.
std::optional<LmdbReader::Table> LmdbReader::read_meta(uint64_t offset) const {
  std::array<char, kPageHeader + kMetaBytes> bytes;
  const size_t got = core::read_at(file_, std::as_writable_bytes(std::span(bytes)), offset, file_name_);
  const std::string_view page(bytes.data(), bytes.size());
  if (got < page.size() || (number_at<uint16_t>(page, 10) & kMetaPage) == 0 ||
      number_at<uint32_t>(page, kPageHeader) != kMagic)
    return std::nullopt;
  const auto version = number_at<uint32_t>(page, kPageHeader + 4);
  if (version != kDataVersion)
    refuse(fmt::format("its data version is {}, expected {} (LMDB 0.9)", version, kDataVersion));
  const size_t free_table = kPageHeader + 24, main_table = free_table + kTableBytes, end = main_table + kTableBytes;
  return Table{.root = number_at<uint64_t>(page, main_table + 40),
               .num_entries = number_at<uint64_t>(page, main_table + 32),
               .last_page = number_at<uint64_t>(page, end),
               .transaction = number_at<uint64_t>(page, end + 8),
               .page_bytes = number_at<uint32_t>(page, free_table),
               .flags = number_at<uint16_t>(page, main_table + 4)};
}

/// As the last commit left it.
LmdbReader::Table LmdbReader::newest_table() const {
  const std::optional<Table> first = read_meta(0);
  if (!first) refuse(fmt::format("{} bytes that are no LMDB", num_bytes_));
  const uint32_t page_bytes = first->page_bytes;
  if (!std::has_single_bit(page_bytes) || page_bytes < kMinPageBytes || page_bytes > kMaxPageBytes)
    refuse(fmt::format("a page of {} bytes", page_bytes));
  const std::optional<Table> second = read_meta(page_bytes);
  if (!second) refuse("its second meta page is missing");
  Table newest = second->transaction > first->transaction ? *second : *first;
  newest.page_bytes = page_bytes;
  return newest;
}

void LmdbReader::check_unchanged() const {
  check_length();
  const uint64_t now = newest_table().transaction;
  if (now != table_.transaction)
    throw DataError(fmt::format("data: LMDB '{}' was written to while it was read: transaction={}, expected {}",
                                file_name_.string(), now, table_.transaction),
                    "let no program write to the data of a run; copy them first");
}

LmdbReader::Page LmdbReader::read_page(uint64_t number) const {
  if (number < 2 || number > table_.last_page)
    refuse(fmt::format("a link to page {}, expected 2 to {}", number, table_.last_page));
  Page page{.bytes = std::string(table_.page_bytes, '\0'), .number = number, .flags = 0, .num_nodes = 0};
  const auto out = std::as_writable_bytes(std::span(page.bytes));
  if (core::read_at(file_, out, number * table_.page_bytes, file_name_) < out.size())
    refuse(fmt::format("page {} is cut", number));
  page.flags = number_at<uint16_t>(page.bytes, 10);
  if ((page.flags & (kBranchPage | kLeafPage)) == 0) return page;
  const size_t lower = number_at<uint16_t>(page.bytes, 12);
  if (lower < kPageHeader || lower > page.bytes.size()) refuse(fmt::format("page {} has a broken header", number));
  page.num_nodes = (lower - kPageHeader) / 2;
  return page;
}

/// Read one by one when they are needed, each would wait for the disk behind the values. Only asks: a broken entry is
/// told by whoever needs it.
void LmdbReader::ask_for_children(const Page& page) const {
  if ((page.flags & kBranchPage) == 0) return;
  try {
    for (size_t i = 0; i < page.num_nodes; ++i)
      ::posix_fadvise(file_.get(), static_cast<off_t>(node_of(page, i).child * table_.page_bytes), table_.page_bytes,
                      POSIX_FADV_WILLNEED);
  } catch (const DataError&) {
    return;
  }
}

std::shared_ptr<const LmdbReader::Page> LmdbReader::kept_page(uint64_t number) const {
  {
    const std::shared_lock lock(cache_->mutex);
    const auto found = cache_->pages.find(number);
    if (found != cache_->pages.end()) return found->second;
  }
  auto page = std::make_shared<const Page>(read_page(number));
  check_unchanged();
  const auto keep = [&] {
    const std::unique_lock lock(cache_->mutex);
    return cache_->pages.size() < kMaxKeptBytes / table_.page_bytes && cache_->pages.emplace(number, page).second;
  };
  if (keep()) ask_for_children(*page);
  return page;
}

LmdbReader::Node LmdbReader::node_of(const Page& page, size_t index) const {
  const std::string_view bytes = page.bytes;
  const size_t at = number_at<uint16_t>(bytes, kPageHeader + 2 * index);
  const auto broken = [&] { refuse(fmt::format("page {} has a broken entry {}", page.number, index)); };
  if (at < kPageHeader || at + kNodeHeader > bytes.size()) broken();
  const uint64_t low = number_at<uint32_t>(bytes, at);
  const auto flags = number_at<uint16_t>(bytes, at + 4), key_bytes = number_at<uint16_t>(bytes, at + 6);
  const size_t data = at + kNodeHeader + key_bytes;
  if (data > bytes.size()) broken();
  Node node{.key = bytes.substr(at + kNodeHeader, key_bytes)};
  if ((page.flags & kBranchPage) != 0) {
    node.child = low | uint64_t{flags} << 32;
    return node;
  }
  node.value_bytes = low;
  node.is_big = (flags & kBigData) != 0;
  if ((flags & ~kBigData) != 0)
    refuse(fmt::format("key '{}' holds a table of its own, which no picture data do", node.key));
  if (data + (node.is_big ? sizeof(uint64_t) : node.value_bytes) > bytes.size()) broken();
  if (node.is_big)
    node.value_page = number_at<uint64_t>(bytes, data);
  else
    node.value = bytes.substr(data, node.value_bytes);
  return node;
}

void LmdbReader::check_big_value(const Node& node) const {
  const uint64_t num_pages = (kPageHeader + node.value_bytes + table_.page_bytes - 1) / table_.page_bytes;
  if (node.value_page < 2 || node.value_page > table_.last_page || num_pages > table_.last_page + 1 - node.value_page)
    refuse(fmt::format("the value of key '{}' lies at pages {} and {} more, expected 2 to {}", node.key,
                       node.value_page, num_pages - 1, table_.last_page));
}

void LmdbReader::refuse_big_value(const Node& node) const {
  refuse(fmt::format("the value of key '{}' is not at page {}", node.key, node.value_page));
}

void LmdbReader::read_big_value(const Node& node, std::string& value) const {
  check_big_value(node);
  std::array<char, kPageHeader> header;
  value.resize(node.value_bytes);
  const uint64_t begin = node.value_page * table_.page_bytes;
  const std::span<std::byte> header_bytes = std::as_writable_bytes(std::span(header)),
                             bytes = std::as_writable_bytes(std::span(value));
  if (core::read_at(file_, header_bytes, begin, file_name_) < header.size() ||
      core::read_at(file_, bytes, begin + kPageHeader, file_name_) < value.size() ||
      (number_at<uint16_t>({header.data(), header.size()}, 10) & kOverflowPage) == 0)
    refuse_big_value(node);
}

std::optional<LmdbReader::Found> LmdbReader::find(std::string_view key) const {
  uint64_t number = table_.root;
  for (int depth = 0; number != kNoPage; ++depth) {
    if (depth == kMaxTreeDepth) refuse("its tree does not end");
    const std::shared_ptr<const Page> page = kept_page(number);
    if ((page->flags & (kBranchPage | kLeafPage)) == 0) refuse(fmt::format("page {} is no page of keys", number));
    // The first node of a branch stands for all keys before the second.
    const bool is_branch = (page->flags & kBranchPage) != 0;
    size_t low = is_branch ? 1 : 0, high = page->num_nodes;
    if (is_branch && high == 0) refuse(fmt::format("page {} is empty", number));
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      if (node_of(*page, middle).key <= key)
        low = middle + 1;
      else
        high = middle;
    }
    if (is_branch) {
      number = node_of(*page, low - 1).child;
      continue;
    }
    if (low == 0) return std::nullopt;
    const Node node = node_of(*page, low - 1);
    return node.key == key ? std::optional(Found{page, node}) : std::nullopt;
  }
  return std::nullopt;
}

bool LmdbReader::get_into(std::string_view key, std::string& value) const {
  const std::optional<Found> found = find(key);
  if (found && found->node.is_big) read_big_value(found->node, value);
  if (found && !found->node.is_big) value = found->node.value;
  check_unchanged();
  return found.has_value();
}

std::optional<std::string> LmdbReader::get(std::string_view key) const {
  std::string value;
  return get_into(key, value) ? std::optional(std::move(value)) : std::nullopt;
}

std::optional<std::string_view> LmdbReader::get_ahead(std::string_view key, Ahead& ahead) const {
  const std::optional<Found> found = find(key);
  if (!found) return std::nullopt;
  const Node& node = found->node;
  if (!node.is_big) {
    ahead.leaf_ = found->page;
    return node.value;
  }
  check_big_value(node);
  const uint64_t begin = node.value_page * table_.page_bytes, size = kPageHeader + node.value_bytes;
  if (begin < ahead.begin_ || begin + size > ahead.begin_ + ahead.size_) {
    constexpr uint64_t kBlock = sizeof(Ahead::Block);
    const uint64_t wanted = (std::max(size, kAheadBytes) + kBlock - 1) / kBlock * kBlock;
    if (ahead.memory_.size() * kBlock < wanted) ahead.memory_.resize(wanted / kBlock);
    // What lies at the name may be another file by now.
    if (!ahead.file_.valid()) ahead.file_ = core::open_for_reading(fmt::format("/proc/self/fd/{}", file_.get()));
    ahead.begin_ = begin;
    ahead.size_ =
        core::read_at(ahead.file_, std::as_writable_bytes(std::span(ahead.memory_)).first(wanted), begin, file_name_);
    check_unchanged();
    if (ahead.size_ < size) refuse_big_value(node);
  }
  const std::string_view held(reinterpret_cast<const char*>(ahead.memory_.data()), ahead.size_);
  const std::string_view here = held.substr(begin - ahead.begin_, size);
  if ((number_at<uint16_t>(here, 10) & kOverflowPage) == 0) refuse_big_value(node);
  return here.substr(kPageHeader);
}

void LmdbReader::walk(uint64_t number, int depth, uint64_t& pages_left,
                      const std::function<void(std::string_view key)>& use) const {
  if (depth == kMaxTreeDepth || pages_left == 0) refuse("its tree does not end");
  --pages_left;
  const Page page = read_page(number);
  for (size_t i = 0; i < page.num_nodes; ++i) {
    const Node node = node_of(page, i);
    if ((page.flags & kBranchPage) != 0)
      walk(node.child, depth + 1, pages_left, use);
    else
      use(node.key);
  }
}

void LmdbReader::for_each_key(const std::function<void(std::string_view key)>& use) const {
  uint64_t num_keys = 0, pages_left = table_.last_page;
  const auto counted = [&](std::string_view key) {
    if (++num_keys > table_.num_entries) refuse(fmt::format("more than the {} keys it counts", table_.num_entries));
    use(key);
  };
  if (table_.root != kNoPage) walk(table_.root, 0, pages_left, counted);
  if (num_keys != table_.num_entries) refuse(fmt::format("{} keys, expected {}", num_keys, table_.num_entries));
  check_unchanged();
}

}  // namespace lockstep::data
