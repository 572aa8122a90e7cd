#include "core/hashed_file.h"

#include <algorithm>
#include <future>
#include <new>
#include <vector>

#include "core/files.h"
#include "core/hash.h"

namespace lockstep::core {

HashedFile hash_file(const std::filesystem::path& path, FileContent content) {
  constexpr size_t kPieceBytes = size_t{4} << 20;
  const Fd file = open_for_reading(path);
  const size_t size = file_bytes(file, path);
  HashedFile out;
  if (content == FileContent::kKept) out.content.reset(new (std::nothrow) std::byte[size]);  // NOLINT: no zeros first
  std::vector<std::byte> two_pieces(out.content ? 0 : 2 * kPieceBytes);
  Xxh3 hash;
  size_t num_read = 0;
  std::future<void> hashing;
  for (bool is_odd = false;; is_odd = !is_odd) {
    const std::span<std::byte> piece =
        out.content ? std::span(out.content.get() + num_read, std::min(kPieceBytes, size - num_read))
                    : std::span(two_pieces).subspan(is_odd ? kPieceBytes : 0, kPieceBytes);
    const size_t count = read_at(file, piece, num_read, path);
    num_read += count;
    if (hashing.valid()) hashing.get();
    if (count < kPieceBytes) {  // the last
      hash.update(piece.first(count));
      break;
    }
    hashing = std::async([&hash, piece] { hash.update(piece); });  // in this thread, later, where there is no other
  }
  out.num_bytes = static_cast<int64_t>(num_read);
  out.xxh3 = hash.hex();
  return out;
}

}  // namespace lockstep::core
