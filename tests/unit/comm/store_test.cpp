#include "comm/store.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "comm/local_address.h"
#include "comm/recorder.h"
#include "comm/store_progress.h"
#include "core/error.h"
#include "support/ranks/store_stranger.h"

namespace lockstep::comm {
namespace {

constexpr std::chrono::seconds kTimeout{20};

TEST(Store, PrefixesKeepNamesApart) {
  for (const bool is_tcp : {false, true}) {
    const Store store = is_tcp ? Store::serve(0, kTimeout) : Store::in_process();
    Store a = store.under("a"), b = store.under("b"), other = a.another_connection();
    a.set("key", "of a");
    b.set("key", "of b");
    EXPECT_EQ(other.get("key", kTimeout), "of a");
    EXPECT_EQ(b.get("key", kTimeout), "of b");
    EXPECT_FALSE(a.has("nothing"));
    EXPECT_EQ(a.add("count", 2), 2);
    EXPECT_EQ(other.add("count", 3), 5);
    a.set("second", "");
    EXPECT_EQ(a.get_all({"key", "second"}), (std::vector<std::string>{"of a", ""}));
    EXPECT_THROW(a.get("nothing", std::chrono::milliseconds(20)), std::exception);
  }
}

TEST(Store, ConnectsToAServedOneAndNamesTheOwnerOfItsPort) {
  const Store served = Store::serve(0, kTimeout);
  ASSERT_NE(served.port(), 0);
  Store client = Store::connect({.host = "127.0.0.1", .port = served.port()}, kTimeout);
  client.set("x", "1");
  EXPECT_TRUE(served.another_connection().has("x"));
  EXPECT_EQ(port_owner(served.port()).find(fmt::format("pid {} (", getpid())), 0u) << port_owner(served.port());
  try {
    Store::serve(served.port(), kTimeout);
    FAIL() << "a port in use was opened";
  } catch (const EnvironmentError& error) {
    EXPECT_NE(std::string(error.what()).find(fmt::format("in use by pid {}", getpid())), std::string::npos)
        << error.what();
    EXPECT_NE(error.hint().find("--master-port"), std::string::npos);
  }
}

TEST(Store, AServerThatDoesNotAnswerIsToldWithoutAStack) {
  uint16_t port = 0;
  { port = Store::serve(0, kTimeout).port(); }  // closed again
  testing::internal::CaptureStderr();
  std::string told;
  try {
    Store::connect({.host = "127.0.0.1", .port = port}, std::chrono::milliseconds(200));
  } catch (const std::exception& error) {
    told = error.what();
  }
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_NE(told, "") << "a closed port was opened";
  EXPECT_EQ(printed.find("frame #"), std::string::npos) << printed;
}

/// Is there somebody who takes a connection?
bool answers(const char* address, uint16_t port) {
  sockaddr_in target{};
  target.sin_family = AF_INET;
  target.sin_port = htons(port);
  inet_pton(AF_INET, address, &target.sin_addr);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  const bool is_there = connect(fd, reinterpret_cast<const sockaddr*>(&target), sizeof target) == 0;
  close(fd);
  return is_there;
}

TEST(Store, OfOneNodeListensOnTheLoopbackAddressOnly) {
  const Store everywhere = Store::serve(0, kTimeout);
  EXPECT_TRUE(answers("127.0.0.2", everywhere.port())) << "an address of this machine that is not 127.0.0.1";
  Store here = Store::serve(0, kTimeout, "127.0.0.1");
  EXPECT_TRUE(answers("127.0.0.1", here.port()));
  EXPECT_FALSE(answers("127.0.0.2", here.port()));
  Store client = Store::connect({.host = "127.0.0.1", .port = here.port()}, kTimeout);
  client.set("x", "1");
  EXPECT_EQ(here.get("x", kTimeout), "1");
  EXPECT_THROW(Store::serve(here.port(), kTimeout, "127.0.0.1"), EnvironmentError);
}

TEST(Store, StrangersSeeNoNameOfASealedOneAndWhatTheyWriteIsRefused) {
  Store store = Store::serve(0, kTimeout, "127.0.0.1");
  Store ours = store.sealed_by("swordfish").under("attempt_0");
  ours.set("world_size", "2");
  EXPECT_EQ(ours.add("claims/0", 1), 1);
  EXPECT_EQ(ours.add("claims/0", 1), 2);
  ours.set("empty", "");
  EXPECT_EQ(ours.another_connection().get("world_size", kTimeout), "2");
  EXPECT_EQ(ours.get_all({"world_size", "empty"}), (std::vector<std::string>{"2", ""}));
  EXPECT_TRUE(ours.has("empty"));
  EXPECT_FALSE(ours.has("nothing"));
  EXPECT_THROW(ours.get("nothing", std::chrono::milliseconds(20)), std::exception);
  EXPECT_FALSE(store.sealed_by("another").under("attempt_0").has("world_size"));

  const std::vector<std::string> listed = tests::keys_for_a_stranger(store.port());
  ASSERT_EQ(listed.size(), 3u);
  Store stranger = Store::connect({.host = "127.0.0.1", .port = store.port()}, kTimeout);
  const std::string stolen = stranger.get(listed[0].substr(1), kTimeout);  // of TCPStore's names begins each with '/'
  for (const std::string& key : listed) {
    EXPECT_EQ(key.size(), 65u) << key;
    for (const char* word : {"swordfish", "attempt", "world", "claims", "empty"})
      EXPECT_EQ(key.find(word), std::string::npos) << key;
    stranger.set(key.substr(1), "3");
  }
  EXPECT_THROW(ours.get("world_size", kTimeout), CommError);
  EXPECT_THROW(ours.get_all({"world_size"}), CommError);
  for (const std::string& key : listed) stranger.set(key.substr(1), stolen + stolen);
  EXPECT_THROW(ours.get("empty", kTimeout), CommError) << "a code holds for one name and value only";
}

TEST(Store, AnOwnAddressIsANumberOfThisMachine) {
  EXPECT_TRUE(is_own_address("127.0.0.1"));
  for (const char* other : {"", "localhost", "192.0.2.1", "::1", "127.0.0.1 "}) EXPECT_FALSE(is_own_address(other));
}

TEST(Store, AFreePortHasNoOwner) {
  const uint16_t port = Store::serve(0, kTimeout).port();  // closed again
  EXPECT_EQ(port_owner(port), "");
}

TEST(Progress, OneFailureIsHeardByAll) {
  const Store store = Store::in_process();
  StoreProgress::Config config{.rank = 0, .host = "a", .store_name = "here", .interval = std::chrono::milliseconds(20)};
  StoreProgress first(store.another_connection(), config);
  config.rank = 1;
  config.host = "b";
  StoreProgress second(store.another_connection(), config);
  const CallMark mark{.axis = "dp", .kind = "all_gather", .sequence = 1, .bytes = 8};
  first.begin(mark);
  const std::string behind = first.diagnose(mark, {0, 1});
  EXPECT_NE(behind.find("rank 1 (pid"), std::string::npos) << behind;
  EXPECT_EQ(first.failure_elsewhere(), "");
  EXPECT_TRUE(second.close("failed", "data: shard 7 is short"));
  Store reader = store.another_connection();
  EXPECT_NE(reader.get("first_failure", kTimeout).find("rank 1"), std::string::npos);
  const std::string failed = first.diagnose(mark, {0, 1});
  EXPECT_NE(failed.find("failed: data: shard 7 is short"), std::string::npos) << failed;
  for (int i = 0; i < 1000 && first.failure_elsewhere().empty(); ++i) std::this_thread::sleep_for(config.interval);
  EXPECT_NE(first.failure_elsewhere().find("rank 1 (pid"), std::string::npos);
}

/// The store knows who was first, also of those that this rank does not read of; and where it knows none, this rank
/// may.
TEST(Progress, WhoFailedFirstIsKnownToThoseThatNoticedIt) {
  const auto config_of = [](int rank) {
    return StoreProgress::Config{
        .rank = rank, .host = "a", .store_name = "here", .interval = std::chrono::milliseconds(20)};
  };
  const CallMark mark{.axis = "dp", .kind = "all_gather", .sequence = 1, .bytes = 8};
  {
    const Store store = Store::in_process();
    StoreProgress first(store.another_connection(), config_of(0)), second(store.another_connection(), config_of(1)),
        third(store.another_connection(), config_of(2));
    ASSERT_TRUE(third.close("failed", "data: shard 7 is short"));
    EXPECT_EQ(third.first_failing_rank(), std::nullopt) << "its own failure is all that it knows";
    ASSERT_TRUE(second.close("failed", "comm: it gives up"));
    first.begin(mark);
    first.diagnose(mark, {0, 1});
    ASSERT_TRUE(first.close("failed", "comm: it gives up"));
    EXPECT_EQ(first.first_failing_rank(), 2);
  }
  const Store store = Store::in_process();
  RankReport silent_one;
  silent_one.host = "b";
  silent_one.pid = 7;
  store.another_connection().set(StoreProgress::report_name(1), silent_one.to_json());
  StoreProgress first(store.another_connection(), config_of(0)), other(store.another_connection(), config_of(2));
  for (StoreProgress* rank : {&other, &first}) {
    rank->begin(mark);
    const std::string silent = rank->diagnose(mark, {0, 1, 2});
    EXPECT_NE(silent.find("rank 1 (pid 7 on b) does not answer"), std::string::npos) << silent;
  }
  ASSERT_TRUE(other.close("failed", ""));
  ASSERT_TRUE(first.close("failed", ""));
  EXPECT_EQ(first.first_failing_rank(), 1) << "none of those that gave up";
  EXPECT_EQ(other.first_failing_rank(), 1);
}

TEST(Progress, ARankTellsWhatItIsAt) {
  const Store store = Store::in_process();
  StoreProgress::Config config{.rank = 0, .host = "a", .store_name = "here", .interval = std::chrono::milliseconds(20)};
  StoreProgress first(store.another_connection(), config);
  EXPECT_EQ(first.work_of(1), "") << "no report yet";
  config.rank = 1;
  StoreProgress second(store.another_connection(), config);
  for (const std::string work : {"a checkpoint", ""}) {
    second.tell_work(work);
    for (int i = 0; i < 1000 && first.work_of(1) != work; ++i) std::this_thread::sleep_for(config.interval);
    EXPECT_EQ(first.work_of(1), work);
  }
}

TEST(LocalAddress, IsNoLoopbackAddress) {
  std::string address;
  try {
    address = address_towards("127.0.0.1", 29500);
  } catch (const EnvironmentError& error) {
    GTEST_SKIP() << "no network interface besides the loopback: " << error.what();
  }
  in6_addr parsed{};
  EXPECT_TRUE(inet_pton(AF_INET, address.c_str(), &parsed) == 1 || inet_pton(AF_INET6, address.c_str(), &parsed) == 1)
      << address;
  EXPECT_NE(address.substr(0, 4), "127.");
  EXPECT_NE(address, "::1");
  EXPECT_EQ(address_towards("no.such.host.invalid", 1), address);
}

TEST(Recorder, AddsUpByAxisKindAndSize) {
  Recorder recorder;
  recorder.add_call("dp", 4, "all_reduce", 100);
  recorder.add_call("dp", 4, "all_reduce", 100);
  recorder.add_call("tp", 2, "all_gather", 50);
  recorder.add_time("dp", 4, "all_reduce", 100, 3.0, 1.0);
  const auto entries = recorder.snapshot();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].axis, "dp");
  EXPECT_EQ(entries[0].group_size, 4);
  EXPECT_EQ(entries[1].group_size, 2);
  EXPECT_EQ(entries[0].count, 2);
  EXPECT_EQ(entries[0].num_waited, 1);
  EXPECT_EQ(entries[0].total_ms, 3.0);
  EXPECT_EQ(entries[1].kind, "all_gather");
  EXPECT_EQ(recorder.blocked_ms(), 1.0);
  recorder.clear();
  EXPECT_TRUE(recorder.snapshot().empty());
}

}  // namespace
}  // namespace lockstep::comm
