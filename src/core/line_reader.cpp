#include "core/line_reader.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace lockstep::core {
namespace {
constexpr size_t kBlock = 1u << 18;

/// What is read at once: small files are not worth a large buffer, which takes longer to make than they take to read.
size_t block_for(const Fd& file) {
  struct stat info {};
  if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return kBlock;
  const size_t with_end = static_cast<size_t>(info.st_size) + 1;  // one more, so that reading the end needs no growth
  return std::clamp<size_t>(with_end, 1024, kBlock);
}
}  // namespace

LineReader::LineReader(const std::filesystem::path& path, bool ends_at_return)
    : path_(path), file_(core::open_for_reading(path)), ends_at_return_(ends_at_return), block_(block_for(file_)) {}

size_t LineReader::find_end(size_t from) const {
  const std::string_view bytes(buffer_.data(), end_);
  if (!ends_at_return_) return bytes.find('\n', from);
  constexpr size_t kStretch = 256;  // twice over a stretch is far quicker than once with two signs in view
  for (size_t at = from; at < bytes.size(); at += kStretch) {
    const std::string_view stretch = bytes.substr(at, kStretch);
    if (const size_t end = std::min(stretch.find('\n'), stretch.find('\r')); end != std::string_view::npos)
      return at + end;
  }
  return std::string_view::npos;
}

/// Reads more behind what is there, as far as the buffer goes; false at the end of the file.
bool LineReader::fill() {
  if (is_at_end_) return false;
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (buffer_.size() <= end_ + kPadding) buffer_.resize(end_ + block_ + kPadding);
  ssize_t got = -1;
  do {
    got = ::read(file_.get(), buffer_.data() + end_, buffer_.size() - kPadding - end_);
  } while (got < 0 && errno == EINTR);
  if (got < 0) core::throw_errno("cannot read", path_);
  if (got == 0) is_at_end_ = true;
  end_ += static_cast<size_t>(got);
  return got > 0;
}

bool LineReader::next(std::string_view& line) {
  size_t found = find_end(begin_);
  while (found == std::string_view::npos && end_ - begin_ < kMaxLine) {
    const size_t waiting = end_ - begin_;
    if (!fill()) break;
    found = find_end(begin_ + waiting);
  }
  if (found == std::string_view::npos && begin_ == end_) return false;
  is_cut_ = found == std::string_view::npos && is_at_end_;
  const size_t stop = found == std::string_view::npos ? std::min(end_, begin_ + kMaxLine) : found;
  line = std::string_view(buffer_).substr(begin_, stop - begin_);
  begin_ = found == std::string_view::npos ? stop : found + 1;
  if (is_line_new_) ++line_number_;
  is_line_new_ = found != std::string_view::npos && buffer_[found] == '\n';
  return true;
}

}  // namespace lockstep::core
