#include "data/tokens/token_corpus.h"

#include "data/order/numpy_random.h"

namespace lockstep::data {
namespace {

class IndexedCorpus final : public TokenCorpus {
 public:
  IndexedCorpus(const std::filesystem::path& prefix, int64_t vocab_size, const std::optional<TokenIdCheck>& check)
      : files_(prefix), vocab_size_(vocab_size) {
    if (check) check_token_ids(files_, vocab_size, *check);
  }
  int64_t num_sequences() const override { return files_.num_sequences(); }
  int32_t length(int64_t sequence) const override { return files_.length(sequence); }
  void read(int64_t sequence, int64_t offset, std::span<int32_t> out) const override {
    files_.read(sequence, offset, out, vocab_size_);
  }
  std::string name() const override { return files_.prefix().string(); }

 private:
  IndexedDataset files_;
  int64_t vocab_size_;
};

class MockCorpus final : public TokenCorpus {
 public:
  MockCorpus(int64_t vocab_size, int32_t eod)
      : lengths_(numpy_default_integers(1, 4096, 100000)), vocab_size_(vocab_size), eod_(eod) {}
  int64_t num_sequences() const override { return static_cast<int64_t>(lengths_.size()); }
  int32_t length(int64_t sequence) const override { return lengths_[static_cast<size_t>(sequence)]; }
  void read(int64_t sequence, int64_t offset, std::span<int32_t> out) const override {
    for (size_t i = 0; i < out.size(); ++i) {
      const int64_t token = offset + static_cast<int64_t>(i) + 1;
      out[i] = token == length(sequence) ? eod_ : static_cast<int32_t>(token % vocab_size_);
    }
  }
  std::string name() const override { return "mock data"; }

 private:
  std::vector<int32_t> lengths_;
  int64_t vocab_size_;
  int32_t eod_;
};

}  // namespace

std::unique_ptr<TokenCorpus> open_indexed_corpus(const std::filesystem::path& prefix, int64_t vocab_size,
                                                 const std::optional<TokenIdCheck>& check) {
  return std::make_unique<IndexedCorpus>(prefix, vocab_size, check);
}

std::unique_ptr<TokenCorpus> make_mock_corpus(int64_t vocab_size, int32_t eod) {
  return std::make_unique<MockCorpus>(vocab_size, eod);
}

}  // namespace lockstep::data
