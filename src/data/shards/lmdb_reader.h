#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/files.h"

namespace lockstep::data {

/// A folder with a data.mdb, or a file that ends with .lmdb or .mdb.
bool is_lmdb(const std::string& path);
/// The file with the pages: `path` itself, or its data.mdb.
std::filesystem::path lmdb_data_file(const std::filesystem::path& path);

/// Reads the main table of an LMDB as it was when it was opened.
///
/// Not by liblmdb, which maps the file and trusts it: here every page and every value is one positioned read, and
/// whatever does not fit throws DataError with the page instead of ending the process. Pages of keys are kept, up to
/// 64 MiB of them. Format: data version 1 of LMDB 0.9, little-endian. No lock is taken or looked at; a commit by
/// another process is noticed and refused, because pages may then be reused while they are read.
class LmdbReader {
 private:
  struct Page;

 public:
  /// DataError unless `path` holds a whole LMDB: no such file, other bytes, another version, cut short.
  explicit LmdbReader(const std::filesystem::path& path);
  LmdbReader(LmdbReader&&) noexcept;
  ~LmdbReader();

  const std::filesystem::path& path() const { return path_; }  ///< As it was given.
  uint64_t num_entries() const { return table_.num_entries; }
  uint64_t num_bytes() const { return num_bytes_; }  ///< Of the file.
  /// Of its pages: a file that is written through a map may be as large as that.
  uint64_t used_bytes() const { return std::min(num_bytes_, (table_.last_page + 1) * table_.page_bytes); }
  /// The value of `key`; nothing where there is none. Thread safe.
  std::optional<std::string> get(std::string_view key) const;
  /// The same into `value`, whose memory is reused; false where there is no such key.
  bool get_into(std::string_view key, std::string& value) const;
  /// Memory of one thread that gets values in the order in which they were written.
  class Ahead {
   private:
    friend class LmdbReader;
    struct alignas(4096) Block {  // the kernel copies to whole pages at twice the speed
      std::byte bytes[4096];
    };
    core::Fd file_;  // its own, since the kernel reads ahead of each opened file's last read
    std::vector<Block> memory_;
    uint64_t begin_ = 0, size_ = 0;     // the part of the file that it holds
    std::shared_ptr<const Page> leaf_;  // of a small value
  };
  /// As get, but reads 1 MiB of the file at a time. What it gives is a view of `ahead`, which the next call with it
  /// ends; a commit is noticed when the file is read next.
  std::optional<std::string_view> get_ahead(std::string_view key, Ahead& ahead) const;
  /// Calls use(key) for each key in byte order; reads no values.
  void for_each_key(const std::function<void(std::string_view key)>& use) const;

 private:
  struct Table {
    uint64_t root = 0, num_entries = 0, last_page = 0, transaction = 0;
    uint32_t page_bytes = 0;
    uint16_t flags = 0;
  };
  /// A page in memory and what its header says.
  struct Page {
    std::string bytes;
    uint64_t number = 0;
    uint16_t flags = 0;
    size_t num_nodes = 0;
  };
  /// Of a branch: key and child; of a leaf: key and value, or the page where the value lies.
  struct Node {
    std::string_view key;
    uint64_t child = 0;
    uint64_t value_bytes = 0;
    std::string_view value = {};  ///< Empty where is_big; a view of the page.
    uint64_t value_page = 0;
    bool is_big = false;
  };

  struct PageCache;
  /// The node of a key, and the page that it is a view of.
  struct Found {
    std::shared_ptr<const Page> page;
    Node node;
  };

  [[noreturn]] void refuse(const std::string& what) const;
  std::optional<Table> read_meta(uint64_t offset) const;
  Table newest_table() const;
  void check_unchanged() const;
  void check_length() const;
  Page read_page(uint64_t number) const;
  void ask_for_children(const Page& page) const;
  std::shared_ptr<const Page> kept_page(uint64_t number) const;
  std::optional<Found> find(std::string_view key) const;
  Node node_of(const Page& page, size_t index) const;
  void check_big_value(const Node& node) const;
  [[noreturn]] void refuse_big_value(const Node& node) const;
  void read_big_value(const Node& node, std::string& value) const;
  /// `pages_left`: a damaged tree may lead to the same pages again and again.
  void walk(uint64_t page, int depth, uint64_t& pages_left, const std::function<void(std::string_view key)>& use) const;

  std::filesystem::path path_, file_name_;
  core::Fd file_;
  uint64_t num_bytes_ = 0;
  Table table_;
  std::unique_ptr<PageCache> cache_;
};

}  // namespace lockstep::data
