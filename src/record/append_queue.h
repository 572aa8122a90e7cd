#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/files.h"

namespace lockstep::record {

/// Appends to files from one background thread, so that a stalled or full file system never delays the caller.
///
/// append() only queues. What does not fit into the bounded queue is dropped and counted. A piece that cannot be
/// written whole is taken back (the file is cut to its length before) and waits with all behind it until its file can
/// be written again, or until drop_unwritten(). Nothing throws after open_file(): what the tick throws and memory that
/// the thread does not get count as write errors. Thread safe.
class AppendQueue {
 public:
  struct Config {
    std::chrono::milliseconds flush_every{1000};
    size_t max_queued_bytes = size_t{32} << 20;
  };
  struct Health {
    int64_t dropped = 0;       ///< Pieces lost: queue full, or not writable to the end.
    int64_t write_errors = 0;  ///< Attempts that failed.
    std::string last_error;
  };

  AppendQueue() : AppendQueue(Config()) {}
  explicit AppendQueue(const Config& config);
  AppendQueue(const AppendQueue&) = delete;
  AppendQueue& operator=(const AppendQueue&) = delete;
  ~AppendQueue();  ///< Tries to write what is queued, then ends the thread.

  /// Opens (creates) a file for appending; returns its number. `ends_cut_line`: a last line without its end gets one
  /// first, so that what a crash left does not swallow the next line. Throws EnvironmentError when the file cannot be
  /// opened.
  int open_file(const std::filesystem::path& path, bool ends_cut_line);
  void append(int file, std::string bytes);
  /// Called by the background thread after each flush, and never while another call of it runs.
  void set_tick(std::function<void()> tick);
  /// Blocks until each file that something was queued for before has been written to, or could not be.
  void flush();
  /// As flush(), then drops and counts what could not be written.
  void drop_unwritten();
  Health health() const;

 private:
  struct File {
    std::filesystem::path path;
    core::Fd fd;
    std::optional<uint64_t> torn_at = std::nullopt;  ///< Half a piece stands behind this length.
  };
  struct Piece {
    int file;
    std::string bytes;
    bool is_written = false;
  };

  void run();
  void pass(std::unique_lock<std::mutex>& lock, bool is_last);
  void write_pieces();
  static bool write_piece(File& file, const std::string& bytes);
  static bool take_back(File& file);
  void note_failure(const std::string& error);

  Config config_;
  mutable std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::deque<File> files_;             // stable addresses: the thread reads them without the lock
  std::deque<Piece> queue_, in_hand_;  // the latter is the thread's during a pass
  size_t queued_bytes_ = 0;
  uint64_t begun_ = 0, done_passes_ = 0;  // passes of the thread over the queue
  bool is_flush_wanted_ = false, is_closing_ = false;
  std::function<void()> tick_;
  Health health_;
  std::thread thread_;
};

}  // namespace lockstep::record
