#include "data/tokens/token_prefetch.h"

#include "core/error.h"

namespace lockstep::data {

TokenPrefetch::TokenPrefetch(GptStream stream, size_t depth)
    : stream_(std::move(stream)), position_(stream_.position()), queue_(depth), reader_([this] { read_ahead(); }) {}

TokenPrefetch::~TokenPrefetch() {
  queue_.close();
  reader_.join();
}

void TokenPrefetch::read_ahead() {
  try {
    read_to_the_end();
  } catch (...) {  // no memory for a place in the queue
    failure_ = std::current_exception();
    queue_.close();
  }
}

/// Ends with what there is nothing behind: the end of the data or an error. That stays in the queue for good.
void TokenPrefetch::read_to_the_end() {
  for (bool is_last = false; !is_last;) {
    Read read;
    try {
      stream_.next(read.batch);
      read.consumed_samples = stream_.consumed_samples();
      is_last = read.batch.num_samples == 0;
    } catch (...) {
      read.error = std::current_exception();
      is_last = true;
    }
    if (is_last) {
      while (queue_.push(read)) {
      }
    } else if (!queue_.push(std::move(read))) {
      return;
    }
  }
}

void TokenPrefetch::next(TokenBatch& batch) {
  std::optional<Read> read = queue_.pop();
  if (!read && failure_) std::rethrow_exception(failure_);
  LOCKSTEP_CHECK(read.has_value(), "the queue of token batches is closed");
  if (read->error) std::rethrow_exception(read->error);
  std::swap(batch, read->batch);
  position_["consumed_samples"] = read->consumed_samples;
}

}  // namespace lockstep::data
