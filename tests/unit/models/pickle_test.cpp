#include "models/pickle.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/files.h"
#include "core/rng.h"

namespace lockstep::models {
namespace {

using namespace std::string_literals;  // ""s keeps the zero bytes inside
using Kind = PickleValue::Kind;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }
PickleDocument parse(const std::string& bytes) { return PickleDocument(bytes_of(bytes), "test"); }

std::string every_value() {
  PickleWriter writer;
  writer.begin_dict(true);
  writer.string("ints");
  writer.begin_list();
  for (const int64_t value :
       {int64_t{0}, int64_t{255}, int64_t{256}, int64_t{-1}, int64_t{1} << 40, -(int64_t{1} << 62)})
    writer.integer(value);
  writer.end_list();
  writer.string("real");
  writer.real(-0.1);
  writer.string("nothing");
  writer.none();
  writer.string("flags");
  writer.begin_tuple();
  writer.boolean(true);
  writer.boolean(false);
  writer.end_tuple();
  writer.string("\xC3\xA4");
  writer.begin_dict(false);
  writer.end_dict();
  writer.end_dict();
  return writer.finish();
}

TEST(Pickle, ReadsWhatItWrites) {
  const std::string bytes = every_value();
  const auto document = parse(bytes);
  const auto& root = document.root();
  ASSERT_TRUE(root.is(Kind::kDict));
  const auto* ints = root.find("ints");
  ASSERT_EQ(ints->items.size(), 6u);
  const std::vector<int64_t> want = {0, 255, 256, -1, int64_t{1} << 40, -(int64_t{1} << 62)};
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(ints->items[i]->integer, want[i]);
  EXPECT_EQ(root.find("real")->real, -0.1);
  EXPECT_TRUE(root.find("nothing")->is(Kind::kNone));
  EXPECT_TRUE(root.find("flags")->items[0]->truth);
  EXPECT_FALSE(root.find("flags")->items[1]->truth);
  EXPECT_TRUE(root.find("\xC3\xA4")->is(Kind::kDict));
  EXPECT_EQ(root.find("absent"), nullptr);
}

TEST(Pickle, ShortIntegersKeepTheirSign) {
  EXPECT_EQ(parse(std::string("\x80\x02\x8a\x01\xff.")).root().integer, -1);
  EXPECT_EQ(parse(std::string("\x80\x02\x8a\x02\xff\x00.", 7)).root().integer, 255);
  EXPECT_EQ(parse(std::string("\x80\x02\x8a\x00.", 5)).root().integer, 0);
}

TEST(Pickle, CallsNothing) {
  const core::TempDir dir;
  const std::string command = "touch " + (dir.path() / "called").string();
  const auto document = parse(
      "\x80\x02"
      "cos\nsystem\nX"s +
      static_cast<char>(command.size()) + "\x00\x00\x00"s + command + "\x85R.");
  EXPECT_TRUE(document.root().is_object("os.system"));
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(Pickle, UnknownCallsBecomeObjects) {
  const std::string bytes =
      "\x80\x02"
      "cos\nsystem\nX\x04\x00\x00\x00"
      "true\x85R."s;
  const auto document = parse(bytes);
  EXPECT_TRUE(document.root().is_object("os.system"));
  ASSERT_EQ(document.root().arguments->items.size(), 1u);
  EXPECT_EQ(document.root().arguments->items[0]->text, "true");
}

TEST(Pickle, SelfContainingAndDeepValuesAreHarmless) {
  // A list that holds itself; a million nested tuples.
  EXPECT_EQ(parse("\x80\x02]q\x00h\x00"
                  "a."s)
                .root()
                .items.size(),
            1u);
  EXPECT_TRUE(parse("\x80\x02)" + std::string(1'000'000, '\x85') + ".").root().is(Kind::kTuple));
}

TEST(Pickle, ManyCallsShareOneTupleOfArguments) {
  // A tuple of 2,000 values and 50,000 calls with it: 800 MB where each call copies it.
  constexpr size_t kCalls = 50'000;
  std::string bytes = "\x80\x02](cos\nsystem\nq\x01("s + std::string(2000, 'N') + "tq\x00R"s;
  for (size_t call = 1; call < kCalls; ++call) bytes += "h\x01h\x00R"s;
  const auto document = parse(bytes + "e.");
  const auto& items = document.root().items;
  ASSERT_EQ(items.size(), kCalls);
  EXPECT_EQ(items.front()->arguments->items.size(), 2000u);
  EXPECT_EQ(items.front()->arguments, items.back()->arguments);
}

TEST(Pickle, ManyCallsShareTheNameOfWhatTheyCall) {
  // A name of 20,000 bytes called 50,000 times: 1 GB where each call copies it.
  constexpr size_t kCalls = 50'000;
  std::string bytes = "\x80\x02](c"s + std::string(20'000, 'm') + "\nf\nq\x01)q\x00R"s;
  for (size_t call = 1; call < kCalls; ++call) bytes += "h\x01h\x00R"s;
  const auto document = parse(bytes + "e.");
  const auto& items = document.root().items;
  ASSERT_EQ(items.size(), kCalls);
  size_t text_bytes = 0;
  for (const PickleValue* item : items) text_bytes += item->text.size();
  EXPECT_EQ(text_bytes, 0u);
  EXPECT_TRUE(items.back()->is_object(std::string(20'000, 'm') + ".f"));
}

TEST(Pickle, NamesJoinedFromRememberedTextsAreCounted) {
  const auto joined = [](size_t times) {
    std::string bytes = "\x80\x04](X\x20\x4e\x00\x00"s + std::string(20'000, 'm');
    bytes += "q\x01X\x01\x00\x00\x00"s + "fq\x02\x93"s;
    for (size_t i = 1; i < times; ++i) bytes += "h\x01h\x02\x93"s;
    return bytes + "e.";
  };
  EXPECT_EQ(parse(joined(40)).root().items.back()->text.size(), 20'002u);
  EXPECT_THROW(parse(joined(100)), DataError);  // 2 MB out of 21 kB, and so on to gigabytes
}

TEST(Pickle, AFileOfConstantsOrEmptyTuplesFillsNoMemory) {
  const auto document = parse("\x80\x02](" + std::string(3'000'000, 'N') + "e.");
  const auto& items = document.root().items;
  ASSERT_EQ(items.size(), 3'000'000u);
  EXPECT_EQ(items.front(), items.back()) << "one value for all";
  EXPECT_THROW(parse("\x80\x02](" + std::string(3'000'000, ')') + "e."), DataError);
}

TEST(Pickle, DamageNamesFileAndPlace) {
  struct Row {
    std::string bytes, want;
  };
  for (const auto& [bytes, want] :
       {Row{"", "bytes wanted"}, Row{"\x80\x02", "bytes wanted"}, Row{"\x80\x09N.", "protocol 9"},
        Row{"\x80\x02.", "stack has 0"}, Row{"\x80\x02NN.", "stack has 2"}, Row{"\x80\x02Nt.", "no mark"},
        Row{"\x80\x02(N.", "1 marks"}, Row{"\x80\x02h\x05.", "memo 5"},
        Row{"\x80\x02X\xff\xff\xff\x7f.", "bytes wanted"}, Row{"\x80\x02}(Nu.", "without a value"},
        Row{"\x80\x02NNa.", "no container"}, Row{"\x80\x02NNR.", "no tuple"}, Row{"\x80\x02i.", "opcode 0x69"},
        Row{"\x80\x02\x8a\x09.", "9 bytes"}}) {
    try {
      parse(bytes);
      ADD_FAILURE() << "accepted: expected " << want;
    } catch (const DataError& error) {
      EXPECT_NE(std::string(error.what()).find(want), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("'test'"), std::string::npos);
    }
  }
}

TEST(Pickle, MutantsAndTruncationsAreReadOrRefused) {
  const std::string whole = every_value();
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_THROW(parse(whole.substr(0, size)), DataError) << size;
  core::CounterRng rng(3);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = whole;
    for (int flips = 0; flips < 3; ++flips) bytes[rng.below(bytes.size())] = static_cast<char>(rng.below(256));
    try {
      parse(bytes);
    } catch (const DataError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 5000);
}

}  // namespace
}  // namespace lockstep::models
