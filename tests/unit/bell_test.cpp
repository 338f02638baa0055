// Protects the wake-up after a commit: it arrives, it never disturbs the writer, and it cleans up after the dead.

#include "outbox/bell.hpp"

#include <atomic>
#include <filesystem>
#include <future>

#include <gtest/gtest.h>
#include <sys/un.h>
#include <unistd.h>

#include "support/sqlite_file.hpp"

namespace sealane {
namespace {

class BellTest : public ::testing::Test {
 protected:
  std::string Address() const { return "unix:" + place_.folder() + "/wake"; }

  testing::SqliteFile place_;
};

TEST_F(BellTest, IsHeard) {
  std::atomic<int> heard{0};
  const auto listener = BellListener::Start(Address(), [&] {
    ++heard;
    heard.notify_all();
  });
  ASSERT_TRUE(listener) << listener.error().ToString();
  const auto bell = Bell::Open(Address());
  ASSERT_TRUE(bell) << bell.error().ToString();
  for (int i = 0; i < 100; ++i) bell->Ring();
  heard.wait(0);
  EXPECT_GE(heard.load(), 1);
}

TEST_F(BellTest, IsHeardOverUdp) {
  std::atomic<int> heard{0};
  const std::string address = "udp:127.0.0.1:" + std::to_string(20'000 + ::getpid() % 20'000);
  const auto listener = BellListener::Start(address, [&] {
    ++heard;
    heard.notify_all();
  });
  ASSERT_TRUE(listener) << listener.error().ToString();
  const auto bell = Bell::Open(address);
  ASSERT_TRUE(bell);
  bell->Ring();
  heard.wait(0);
  EXPECT_GE(heard.load(), 1);
}

TEST_F(BellTest, IsSilentWhenNobodyListensOrNobodyReads) {
  auto bell = Bell::Open(Address());
  ASSERT_TRUE(bell);
  bell->Ring();
  // A listener that is stuck has a full queue at some point; the writer must not notice.
  std::promise<void> entered;
  std::promise<void> leave;
  std::atomic<bool> first{true};
  {
    const auto listener = BellListener::Start(Address(), [&] {
      if (!first.exchange(false)) return;
      entered.set_value();
      leave.get_future().wait();
    });
    ASSERT_TRUE(listener);
    bell->Ring();
    entered.get_future().wait();
    for (int i = 0; i < 100'000; ++i) bell->Ring();
    leave.set_value();
  }
  const Bell moved = *std::move(bell);
  moved.Ring();
}

TEST_F(BellTest, ReplacesASocketThatADeadProcessLeftBehind) {
  const std::string path = place_.folder() + "/wake";
  {
    const int socket = ::socket(AF_UNIX, SOCK_DGRAM, 0);
    const auto address = ParseBellAddress(Address());
    ASSERT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address->address), address->size), 0);
    ::close(socket);
  }
  ASSERT_TRUE(std::filesystem::exists(path));
  const auto listener = BellListener::Start(Address(), [] {});
  ASSERT_TRUE(listener) << listener.error().ToString();
  const auto second = BellListener::Start(Address(), [] {});
  ASSERT_FALSE(second) << "a living listener keeps its address";
  EXPECT_EQ(second.error().code(), "wake_address_taken");
}

TEST_F(BellTest, LeavesNothingBehind) {
  {
    const auto listener = BellListener::Start(Address(), [] {});
  }
  EXPECT_FALSE(std::filesystem::exists(place_.folder() + "/wake"));
}

TEST_F(BellTest, RefusesWhatIsNoAddress) {
  for (const char* text : {"", "/run/wake", "unix:", "udp:", "udp:9465", "udp:host.example:1", "udp:127.0.0.1:0",
                           "udp:127.0.0.1:70000", "tcp:127.0.0.1:1"}) {
    const auto bell = Bell::Open(text);
    ASSERT_FALSE(bell) << text;
    EXPECT_EQ(bell.error().code(), "bad_wake_address");
    EXPECT_FALSE(bell.error().hint().empty());
  }
  EXPECT_FALSE(Bell::Open("unix:/" + std::string(200, 'x')));
}

}  // namespace
}  // namespace sealane
