// Protects the output for people and scripts: whole lines that a JSON reader understands, patience with a slow
// reader, and a reader that went away is reported instead of ending the process.

#include "stdio/stdout_publisher.hpp"

#include <algorithm>
#include <array>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/hex.hpp"
#include "support/courier.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;
using std::chrono::milliseconds;

class StdoutPublisher : public ::testing::Test {
 protected:
  ~StdoutPublisher() override {
    CloseReader();
    ::close(ends_[1]);
  }
  void CloseReader() {
    if (ends_[0] >= 0) ::close(ends_[0]);
    ends_[0] = -1;
  }
  /// What is in the pipe now.
  std::string ReadAvailable() {
    ::fcntl(ends_[0], F_SETFL, O_NONBLOCK);
    std::string text;
    std::array<char, 4096> block{};
    while (true) {
      const ssize_t count = ::read(ends_[0], block.data(), block.size());
      if (count <= 0) return text;
      text.append(block.data(), static_cast<std::size_t>(count));
    }
  }

  static std::array<int, 2> Pipe() {
    std::array<int, 2> ends = {-1, -1};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    return ends;
  }

  std::array<int, 2> ends_ = Pipe();
  std::unique_ptr<Publisher> publisher_ = MakeStdoutPublisher({.descriptor = ends_[1]}, SystemClock::Instance());
  Courier courier_{*publisher_};
};

TEST_F(StdoutPublisher, WritesOneLineOfJsonPerMessage) {
  courier_.Send("orders", "o-1", "{\"id\":1}\n", {{"tenant-id", "t1"}});
  courier_.Send("orders", "key\n2", std::string("\xff\0", 2));
  courier_.CollectAll();
  const std::string output = ReadAvailable();
  const std::size_t end = output.find('\n');
  const auto first = nlohmann::json::parse(output.substr(0, end));
  EXPECT_EQ(first["topic"], "orders");
  EXPECT_EQ(first["key"], "o-1");
  EXPECT_EQ(first["value"], "{\"id\":1}\n");
  EXPECT_EQ(first["headers"]["tenant-id"], "t1");
  EXPECT_EQ(first["id"].get<std::string>().size(), 36U);
  const auto second = nlohmann::json::parse(output.substr(end + 1));
  EXPECT_EQ(second["key"], "key\n2");
  EXPECT_EQ(FromBase64(second["value_base64"].get<std::string>()), std::string("\xff\0", 2));
  EXPECT_FALSE(second.contains("headers"));
}

TEST_F(StdoutPublisher, WaitsForASlowReader) {
  const std::string large(50'000, 'x');
  for (int i = 0; i < 10; ++i) courier_.Send("orders", "o-1", large);
  courier_.Collect(milliseconds{0});
  EXPECT_LT(courier_.deliveries().size(), 10U);
  EXPECT_EQ(publisher_->health().state, PublisherHealth::State::kReady) << "slow is not broken";
  std::string output;
  while (courier_.deliveries().size() < 10) {
    output += ReadAvailable();
    courier_.Collect(milliseconds{10});
  }
  output += ReadAvailable();
  EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 10);
}

TEST_F(StdoutPublisher, FinishesTheLineItHasBegun) {
  courier_.Send("orders", "o-1", std::string(100'000, 'x'));
  courier_.Send("orders", "o-1", "never sent");
  courier_.Collect(milliseconds{0});
  publisher_->Abandon();
  publisher_->Abandon();
  courier_.Send("orders", "o-1", "later");
  std::string output;
  while (courier_.deliveries().size() < 3) {
    courier_.Collect(milliseconds{10});
    output += ReadAvailable();
  }
  EXPECT_EQ(courier_.DeliveryOf(1).status, DeliveryStatus::kPossiblyPersisted);
  EXPECT_EQ(courier_.DeliveryOf(2).status, DeliveryStatus::kNotPersisted);
  EXPECT_EQ(courier_.DeliveryOf(2).code, "abandoned");
  EXPECT_EQ(courier_.DeliveryOf(3).status, DeliveryStatus::kPersisted);
  EXPECT_EQ(output.find("never sent"), std::string::npos);
  const std::size_t end = output.find('\n');
  EXPECT_EQ(nlohmann::json::parse(output.substr(0, end))["value"].get<std::string>().size(), 100'000U);
  EXPECT_EQ(nlohmann::json::parse(output.substr(end + 1))["value"], "later");
}

TEST_F(StdoutPublisher, SurvivesAReaderThatWentAway) {
  CloseReader();
  courier_.Send("orders", "o-1", "x");
  courier_.Collect(milliseconds{1});
  EXPECT_TRUE(courier_.deliveries().empty());
  ASSERT_EQ(publisher_->health().state, PublisherHealth::State::kMisconfigured);
  EXPECT_EQ(publisher_->health().problem->code(), "output_failed");
  EXPECT_FALSE(publisher_->health().problem->hint().empty());
  publisher_->Abandon();
  courier_.CollectAll();
  EXPECT_EQ(courier_.DeliveryOf(1).status, DeliveryStatus::kNotPersisted);
}

TEST(StdoutPublisherOnADisk, WaitsWhileItIsFull) {
  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  const auto publisher = MakeStdoutPublisher({.descriptor = full}, SystemClock::Instance());
  Courier courier(*publisher);
  courier.Send("orders", "o-1", "x");
  courier.Collect(milliseconds{1});
  EXPECT_TRUE(courier.deliveries().empty());
  EXPECT_EQ(publisher->health().state, PublisherHealth::State::kUnreachable);
  ::close(full);
}

}  // namespace
}  // namespace sealane
