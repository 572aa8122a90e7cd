#pragma once
#include <functional>
#include <string>
#include <string_view>

namespace lockstep::cli {

/// Cuts the bytes of one stream of one rank into lines.
class LineSplitter {
 public:
  /// `follows_carriage_return`: what a line overwrote with '\r' is left out, as on a terminal.
  explicit LineSplitter(bool follows_carriage_return) : follows_carriage_return_(follows_carriage_return) {}

  /// Calls `on_line` for each line that these bytes complete, without its end.
  void feed(std::string_view bytes, const std::function<void(std::string_view)>& on_line);
  /// The last line when it has no end.
  void finish(const std::function<void(std::string_view)>& on_line);
  /// Text after a '\r' that waits to be overwritten: a progress line. Empty when there is none.
  std::string_view progress() const;

 private:
  void emit(const std::function<void(std::string_view)>& on_line);

  bool follows_carriage_return_;
  std::string pending_;
};

/// The standard output and error of the launcher, shared by all ranks: whole lines in one write each, and one progress
/// line at the bottom of a terminal that is cleared before and shown again after other lines.
class SharedOutput {
 public:
  SharedOutput();
  ~SharedOutput();
  void write_line(int fd, std::string_view prefix, std::string_view line);
  /// Empty: none. Shown on a terminal only.
  void set_progress(std::string_view text);
  bool is_terminal() const { return is_terminal_; }

 private:
  void clear();
  void show();

  bool is_terminal_;
  std::string progress_;
  bool is_shown_ = false;
};

}  // namespace lockstep::cli
