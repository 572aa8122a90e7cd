#pragma once
#include <exception>
#include <thread>

#include "core/json.h"
#include "data/bounded_queue.h"
#include "data/tokens/gpt_stream.h"

namespace lockstep::data {

/// The micro-batches of a stream, read ahead by a thread: who computes waits for no file. One caller thread.
class TokenPrefetch {
 public:
  /// Reads at most `depth` micro-batches ahead.
  TokenPrefetch(GptStream stream, size_t depth);
  ~TokenPrefetch();
  TokenPrefetch(const TokenPrefetch&) = delete;
  TokenPrefetch& operator=(const TokenPrefetch&) = delete;

  /// As GptStream::next: errors come with the micro-batch that could not be read.
  void next(TokenBatch& batch);
  /// Behind the last micro-batch handed out, whatever was read ahead.
  const core::Json& position() const { return position_; }

 private:
  struct Read {
    TokenBatch batch;
    int64_t consumed_samples = 0;
    std::exception_ptr error;
  };
  void read_ahead();
  void read_to_the_end();

  GptStream stream_;  // of the thread
  core::Json position_;
  BoundedQueue<Read> queue_;
  std::exception_ptr failure_;  // of the thread itself, set before it closes the queue
  std::thread reader_;          // last: it begins with all of the above there
};

}  // namespace lockstep::data
