#include "data/text/byte_bpe.h"

#include <fstream>
#include <random>
#include <thread>

#include "core/error.h"
#include "core/files.h"
#include "data/text/roberta_tokenizer.h"
#include "data/text/text_pattern.h"
#include "data/text/text_utf8.h"
#include "text_golden.h"

namespace lockstep::data {
namespace {

using nlohmann::json;

/// The folder that ref/make_bpe_goldens.py wrote.
std::string golden_bpe(const std::string& name) {
  return core::env("LOCKSTEP_BPE_GOLDEN").value_or(std::string(LOCKSTEP_GOLDEN_DIR) + "/bpe") + "/" + name;
}

ByteBpe open_json(const std::string& name) { return ByteBpe(read_tokenizer_json(golden_bpe(name + ".json"))); }

class ByteBpeModels : public testing::TestWithParam<const char*> {};

TEST_P(ByteBpeModels, IdsEqualHuggingFaceOnAwkwardStrings) {
  const std::string name = GetParam();
  const ByteBpe bpe = open_json(name);
  size_t num_wrong = 0, num_ids = 0, num_cases = 0;
  for (const json& one : read_golden_lines(golden_bpe("cases.jsonl.gz"))) {
    const std::string text = one.at("text");
    const auto want = one.at(name).get<std::vector<int32_t>>(), got = bpe.encode(text);
    ++num_cases;
    num_ids += want.size();
    if (got == want || ++num_wrong > 10) continue;
    ADD_FAILURE() << "text  " << escaped(text) << "\nwant  " << fmt::format("{}", fmt::join(want, " ")) << "\ngot   "
                  << fmt::format("{}", fmt::join(got, " "));
  }
  EXPECT_EQ(num_wrong, 0u);
  EXPECT_GT(num_cases, 1500u);
  EXPECT_GT(num_ids, 20000u);
}

INSTANTIATE_TEST_SUITE_P(Goldens, ByteBpeModels, testing::Values("gpt2", "prefix", "llama3", "qwen2"),
                         [](const auto& one) { return std::string(one.param); });

TEST(ByteBpe, DecodesAsHuggingFaceDoes) {
  const ByteBpe bpe = open_json("gpt2");
  size_t num_cases = 0;
  for (const json& one : read_golden_lines(golden_bpe("cases.jsonl.gz"))) {
    const auto ids = one.at("gpt2").get<std::vector<int32_t>>();
    ASSERT_EQ(repair_utf8(bpe.decode(ids)), one.at("decoded").get<std::string>()) << escaped(one.at("text"));
    ++num_cases;
  }
  EXPECT_GT(num_cases, 1500u);
  const int32_t end = bpe.token_id("<|endoftext|>").value();
  EXPECT_EQ(bpe.decode(std::vector<int32_t>{end}), "<|endoftext|>");
  EXPECT_EQ(bpe.decode(std::vector<int32_t>{end}, true), "");
  EXPECT_THROW(bpe.decode(std::vector<int32_t>{static_cast<int32_t>(bpe.vocab_size())}), DataError);
  EXPECT_THROW(bpe.decode(std::vector<int32_t>{-1}), DataError);
}

TEST(ByteBpe, AnyBytesComeBack) {
  const ByteBpe gpt2 = open_json("gpt2"), llama3 = open_json("llama3");
  std::mt19937 random(5);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes;
    const size_t size = random() % 40;
    for (size_t i = 0; i < size; ++i) {
      const uint32_t kind = random() % 4;
      if (kind == 0) bytes += static_cast<char>(random() % 256);
      if (kind == 1) bytes += " a1'\n.s"[random() % 7];
      if (kind == 2) append_utf8(bytes, random() % 0xD800);
      if (kind == 3) bytes += "\xF0\x9F\x98\x80" + random() % 5;  // whole or cut
    }
    ASSERT_EQ(gpt2.decode(gpt2.encode(bytes)), bytes) << escaped(bytes);
    ASSERT_EQ(llama3.decode(llama3.encode(bytes)), bytes) << escaped(bytes);
  }
}

TEST(ByteBpe, EveryCharacterHasTheClassOfTheReference) {
  std::vector<char> want(0x110000, 'O');
  size_t num_letters = 0;
  for (const json& run : read_golden_lines(golden_bpe("classes.jsonl.gz"))) {
    const char kind = run.at(2).get<std::string>()[0];
    for (size_t c = run.at(0); c <= run.at(1); ++c) want[c] = kind;
    if (kind == 'L') num_letters += run.at(1).get<size_t>() - run.at(0).get<size_t>() + 1;
  }
  EXPECT_GT(num_letters, 130000u);
  const TextPattern pattern(pattern_from_oniguruma(kGpt2Pattern), TextPattern::Case::kSensitive,
                            TextPattern::Input::kBytes);
  const auto is_one_word = [&](char before, char32_t c) {
    std::string text(1, before);
    append_utf8(text, c);
    TextPattern::Match match;
    return TextPattern::Scan(pattern, text).next(match) && match.end == text.size();
  };
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    const char got = is_one_word('a', c) ? 'L' : is_one_word('1', c) ? 'N' : is_one_word('!', c) ? 'O' : 'S';
    ASSERT_EQ(got, want[c]) << fmt::format("U+{:04X}", static_cast<uint32_t>(c));
  }
}

TEST(ByteBpe, ThreadsShareOneTokenizer) {
  const ByteBpe bpe = open_json("llama3");
  const std::vector<json> cases = read_golden_lines(golden_bpe("cases.jsonl.gz"));
  std::vector<size_t> num_wrong(4);
  {
    std::vector<std::jthread> threads;
    for (size_t thread = 0; thread < num_wrong.size(); ++thread) {
      threads.emplace_back([&, thread] {
        for (size_t i = 0; i < cases.size(); ++i) {
          const json& one = cases[(i * (2 * thread + 1)) % cases.size()];
          num_wrong[thread] +=
              bpe.encode(one.at("text").get<std::string>()) != one.at("llama3").get<std::vector<int32_t>>();
        }
      });
    }
  }
  EXPECT_EQ(num_wrong, std::vector<size_t>(4, 0));
}

TEST(ByteBpe, LongWordsTakeNoQuadraticTime) {
  const ByteBpe bpe = open_json("gpt2");
  const std::string text = std::string(300000, 'a') + std::string(300000, ' ') + std::string(300000, '!');
  EXPECT_EQ(bpe.decode(bpe.encode(text)), text);
}

/// One change to a whole tokenizer.json, and what the refusal must name.
struct Damage {
  const char* pointer;
  const char* value;
  const char* named;
};

TEST(ByteBpe, RefusesFilesThatItCannotFollow) {
  const json whole = json::parse(core::read_file(golden_bpe("gpt2.json")));
  core::TempDir folder;
  const auto path = folder.path() / "tokenizer.json";
  const auto message_of = [&](const std::string& content) {
    core::write_file_atomic(path, content);
    try {
      read_tokenizer_json(path);
    } catch (const DataError& error) {
      EXPECT_NE(error.text().find(path.string()), std::string::npos) << error.text();
      return error.text();
    }
    return std::string("accepted");
  };
  EXPECT_EQ(message_of(whole.dump()), "accepted");
  EXPECT_NE(message_of(whole.dump().substr(0, 4000)).find("cut or damaged"), std::string::npos);
  for (const Damage& one :
       {Damage{"/model/type", "\"WordPiece\"", "WordPiece"}, Damage{"/model/vocab/a", "-1", "'a' has id -1"},
        Damage{"/model/vocab/a", "5", "two tokens have id 5"}, Damage{"/model/vocab/a", "1e30", "1e+30"},
        Damage{"/model/vocab", "7", "vocabulary"}, Damage{"/model/merges/3", "[\"zzz\",\"b\"]", "merge 3"},
        Damage{"/model/merges/3", "\"noblank\"", "merge 3"}, Damage{"/model/merges/3", "{}", "merges"},
        Damage{"/model/dropout", "0.5", "dropout"}, Damage{"/model/byte_fallback", "true", "byte_fallback"},
        Damage{"/model/unk_token", "\"what\"", "what"}, Damage{"/normalizer", "{\"type\":\"Lowercase\"}", "Lowercase"},
        Damage{"/pre_tokenizer", "null", "ByteLevel"}, Damage{"/pre_tokenizer/type", "\"Metaspace\"", "Metaspace"},
        Damage{"/added_tokens/0/id", "9", "<|endoftext|>"}, Damage{"/added_tokens/0/content", "\"\"", "empty"},
        Damage{"/added_tokens/0/id", "99999999999", "99999999999"}}) {
    json damaged = whole;
    damaged[json::json_pointer(one.pointer)] = json::parse(one.value);
    const std::string message = message_of(damaged.dump());
    EXPECT_NE(message.find(one.named), std::string::npos) << one.pointer << " " << one.value << ": " << message;
  }
  const std::string deep = R"({"model":{"vocab":{"a":0},"merges":[]},"normalizer":)" + std::string(200'000, '[') +
                           std::string(200'000, ']') + "}";
  EXPECT_NE(message_of(deep).find("nested deeper than 200 levels"), std::string::npos);
  json split = json::parse(core::read_file(golden_bpe("llama3.json")));
  for (const auto& [pattern, named] : {std::pair{"\\w+", "\\w"},
                                       {"\\p{L}{1,2}+", "}+"},
                                       {"^a", "anchor"},
                                       {"(", "cannot be used"},
                                       {"[[:alpha:]]", "class inside"}}) {
    split["/pre_tokenizer/pretokenizers/0/pattern/Regex"_json_pointer] = pattern;
    core::write_file_atomic(path, split.dump());
    try {
      const ByteBpe bpe(read_tokenizer_json(path));
      ADD_FAILURE() << pattern << " was accepted";
    } catch (const DataError& error) {
      EXPECT_NE(error.text().find(named), std::string::npos) << error.text();
    }
  }
}

TEST(ByteBpe, RandomDamageNeverCrashes) {
  core::TempDir folder;
  const auto path = folder.path() / "tokenizer.json";
  std::mt19937 random(13);
  size_t num_refused = 0, num_used = 0;
  for (int round = 0; round < 600; ++round) {
    std::string bytes = core::read_file(golden_bpe(round % 2 == 0 ? "llama3.json" : "qwen2.json"));
    const uint32_t changes = 1 + random() % 4;
    for (uint32_t i = 0; i < changes; ++i) {
      const size_t at = random() % bytes.size();
      if (random() % 2 == 0) bytes[at] = static_cast<char>(random());
      if (random() % 4 == 0) bytes.erase(at, random() % 50);
      if (random() % 4 == 0) bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 50));
    }
    std::ofstream(path, std::ios::binary) << bytes;
    try {
      const ByteBpe bpe(read_tokenizer_json(path));
      bpe.decode(bpe.encode("A d\xff og's 12345 \xC3\xA9 [L] <|endoftext|>\n\n x"));
      ++num_used;
    } catch (const DataError&) {
      ++num_refused;
    }
  }
  EXPECT_GT(num_refused, 100u);
  EXPECT_GT(num_used, 10u);
}

TEST(ByteBpe, RefusesDamagedMerges) {
  core::TempDir folder;
  const std::string vocab = core::read_file(golden_bpe("roberta/vocab.json")),
                    merges = core::read_file(golden_bpe("roberta/merges.txt"));
  core::write_file_atomic(folder.path() / "vocab.json", vocab);
  const auto message_of = [&](const std::string& content) {
    core::write_file_atomic(folder.path() / "merges.txt", content);
    try {
      open_bpe_model(folder.path(), {});
    } catch (const DataError& error) {
      return error.text();
    }
    return std::string("accepted");
  };
  EXPECT_EQ(message_of(merges), "accepted");
  const size_t second = merges.find('\n', merges.find('\n') + 1) + 1;
  EXPECT_NE(message_of(merges.substr(0, second) + "one\n" + merges.substr(second)).find("line 3"), std::string::npos);
  EXPECT_NE(
      message_of(merges.substr(0, second) + "zzz yyy\n" + merges.substr(second)).find("'zzz' is not in the vocabulary"),
      std::string::npos);
  std::filesystem::remove(folder.path() / "vocab.json");
  EXPECT_THROW(open_bpe_model(folder.path(), {}), UsageError);
  EXPECT_THROW(open_bpe_model(folder.path() / "absent.json", {}), UsageError);
}

TEST(ByteBpe, BytesWithoutTokenAreAnErrorOrTheUnknownToken) {
  json model = json::parse(core::read_file(golden_bpe("gpt2.json")));
  model["/model/vocab"_json_pointer] = {{"a", 0}, {"b", 1}, {"ab", 2}, {"?", 3}};
  model["/model/merges"_json_pointer] = {"a b"};
  model["/added_tokens"_json_pointer] = json::array();
  core::TempDir folder;
  const auto open = [&] {
    core::write_file_atomic(folder.path() / "t.json", model.dump());
    return ByteBpe(read_tokenizer_json(folder.path() / "t.json"));
  };
  EXPECT_EQ(open().encode("aab"), (std::vector<int32_t>{0, 2}));
  EXPECT_THROW(open().encode("ac"), DataError);
  model["/model/unk_token"_json_pointer] = "?";
  EXPECT_EQ(open().encode("accb"), (std::vector<int32_t>{0, 3, 3, 1}));
  model["/model/fuse_unk"_json_pointer] = true;
  EXPECT_EQ(open().encode("accb"), (std::vector<int32_t>{0, 3, 1}));
}

TEST(RobertaTokenizer, EncodesAndCutsAsHuggingFaceDoes) {
  const RobertaTokenizer tokenizer(golden_bpe("roberta"));
  EXPECT_EQ(tokenizer.padding_id(), 1);
  size_t num_cut = 0, num_short = 0;
  for (const json& one : read_golden_lines(golden_bpe("roberta.jsonl.gz"))) {
    const auto want = one.at("ids").get<std::vector<int32_t>>();
    std::vector<int32_t> out(one.at("context_length").get<size_t>(), -7);
    ASSERT_EQ(tokenizer.encode(one.at("text").get<std::string>(), out), want.size()) << escaped(one.at("text"));
    ASSERT_TRUE(std::equal(want.begin(), want.end(), out.begin())) << escaped(one.at("text"));
    for (size_t i = want.size(); i < out.size(); ++i) ASSERT_EQ(out[i], 1);
    ASSERT_EQ(tokenizer.decode(out), one.at("decoded").get<std::string>()) << escaped(one.at("text"));
    (want.size() == out.size() ? num_cut : num_short) += 1;
  }
  EXPECT_GT(num_cut, 200u);
  EXPECT_GT(num_short, 1000u);
}

TEST(RobertaTokenizer, CleansAsOpenClipWhenAsked) {
  const RobertaTokenizer plain(golden_bpe("roberta")), cleaning(golden_bpe("roberta"), TextCleaning::kWhiteSpace);
  EXPECT_EQ(cleaning.ids("  A &amp;amp; B \n c\xC3\x83\xC2\xA9 "), plain.ids("A & B c\xC3\xA9"));
  EXPECT_NE(plain.ids("  A &amp;amp; B \n c\xC3\x83\xC2\xA9 "), plain.ids("A & B c\xC3\xA9"));
  EXPECT_NE(cleaning.ids("Abc"), cleaning.ids("abc"));
}

TEST(RobertaTokenizer, NeedsItsSpecialTokens) {
  try {
    const RobertaTokenizer refused(golden_bpe("gpt2.json"));
    ADD_FAILURE() << "accepted";
  } catch (const DataError& error) {
    EXPECT_NE(error.text().find("no token <s>"), std::string::npos) << error.text();
  }
}

}  // namespace
}  // namespace lockstep::data
