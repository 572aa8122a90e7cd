#include "logs/batch_names.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/strings.h"
#include "logs/speed_names.h"

namespace lockstep::logs {
namespace {

/// What one word says of a batch.
enum class Word { kBatch, kAll, kDevice, kNode, kMicro, kPer, kStep, kSamples, kTokens, kFiller, kOther };

Word meaning_of(std::string_view word) {
  if (holds_word("batch batchsize bs bsz bsize minibatch", word)) return Word::kBatch;
  if (holds_word("global total effective overall aggregate aggregated", word)) return Word::kAll;
  if (holds_word("gpu gpus device devices gcd rank card chip accelerator tpu npu hpu worker process proc local", word))
    return Word::kDevice;
  if (holds_word("node nodes server host machine instance", word)) return Word::kNode;
  if (word == "micro" || word == "microbatch" || word == "mbs") return Word::kMicro;
  if (word == "per") return Word::kPer;
  if (holds_word("step iteration iter update", word)) return Word::kStep;
  if (holds_word("samples images imgs sequences seqs pairs examples sentences", word)) return Word::kSamples;
  if (holds_word("tokens token tok toks", word)) return Word::kTokens;
  if (holds_word("size sizes mini train training of in a and the each on number num no count used", word))
    return Word::kFiller;
  return Word::kOther;
}

/// "gbs" and "Mtokens" are two words in one.
std::vector<HeaderWord> parted(const std::vector<HeaderWord>& words) {
  std::vector<HeaderWord> parts;
  for (const HeaderWord& word : words) {
    const auto add = [&](const char* text) { parts.push_back({text, word.is_in_brackets}); };
    const bool has_prefix = word.text.size() > 3 && (word.text.front() == 'k' || word.text.front() == 'm') &&
                            meaning_of(std::string_view(word.text).substr(1)) == Word::kTokens;
    if (word.text == "gbs" || word.text == "globalbatchsize") {
      add("global"), add("batch");
    } else if (word.text == "lbs") {
      add("local"), add("batch");
    } else if (has_prefix) {
      add(word.text.front() == 'k' ? "k" : "m"), add("tokens");
    } else {
      parts.push_back(word);
    }
  }
  return parts;
}

double scale_of(const std::vector<HeaderWord>& words, size_t at) {
  const std::string& word = words[at].text;
  if (holds_word("thousand thousands", word)) return 1e3;
  if (holds_word("million millions", word)) return 1e6;
  const bool is_before_tokens = at + 1 < words.size() && meaning_of(words[at + 1].text) == Word::kTokens;
  if (!words[at].is_in_brackets && !is_before_tokens) return 0;
  return word == "k" ? 1e3 : word == "m" ? 1e6 : 0;
}
}  // namespace

BatchName read_batch_name(std::string_view header) {
  BatchName batch;
  const std::vector<HeaderWord> words = parted(header_words(header));
  bool has_batch = false, has_things = false, is_of_all = false, is_of_device = false, is_of_node = false,
       is_micro = false, is_of_step = false;
  for (size_t at = 0; at < words.size(); ++at) {
    if (const double scale = scale_of(words, at); scale > 0) {
      batch.scale *= scale;
      continue;
    }
    const bool is_behind_per = at > 0 && meaning_of(words[at - 1].text) == Word::kPer;
    switch (meaning_of(words[at].text)) {
      case Word::kBatch: has_batch = true; break;
      case Word::kAll: is_of_all = true; break;
      case Word::kDevice: is_of_device = true; break;
      case Word::kNode: is_of_node = true; break;
      case Word::kMicro: is_micro = true, has_batch = has_batch || words[at].text != "micro"; break;
      case Word::kStep:
        if (!is_behind_per || !has_things) return {};  // "batch step"
        is_of_step = true;
        break;
      case Word::kSamples: has_things = true; break;
      case Word::kTokens: has_things = batch.is_in_tokens = true; break;
      case Word::kPer:
      case Word::kFiller: break;
      case Word::kOther: return {};
    }
  }
  const bool is_share = has_things && !batch.is_in_tokens && is_of_device && !is_of_all;  // "samples/GPU"
  if (!has_batch && !is_of_step && !is_share) return {};
  if (is_of_all && (is_of_device || is_of_node)) return {};  // "total batch of GPUs": whose?
  batch.of = is_micro                  ? BatchOf::kMicro
             : is_of_device            ? BatchOf::kDevice
             : is_of_node              ? BatchOf::kNode
             : is_of_all || is_of_step ? BatchOf::kAll
                                       : BatchOf::kUnsaid;
  return batch;
}

}  // namespace lockstep::logs
