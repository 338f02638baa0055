// Protects `sealane forward`: a receiver that counts by Idempotency-Key sees every event once, those of a key in
// order, whatever dies in between.

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/consume_place.hpp"
#include "support/eventually.hpp"
#include "support/http_receiver.hpp"
#include "support/kafka_cluster.hpp"

namespace sealane::testing {
namespace {

using Answer = HttpReceiver::Answer;
using Request = HttpReceiver::Request;

constexpr int kKeys = 6;
constexpr int kVersions = 15;

/// What a receiver that keeps keys remembers: the first arrival of each, in order.
class Ledger {
 public:
  void Note(const Request& request) {
    const std::lock_guard lock(mutex_);
    ++arrivals_;
    if (!seen_.insert(request.Header("idempotency-key")).second) return;
    by_key_[request.Header("sealane-key")].push_back(request.Header("idempotency-key"));
  }

  std::size_t count() const {
    const std::lock_guard lock(mutex_);
    return seen_.size();
  }
  std::size_t arrivals() const {
    const std::lock_guard lock(mutex_);
    return arrivals_;
  }

  /// Empty when every event arrived, and those of a key in the order they were published.
  std::string Complaint(const std::vector<Envelope>& events) const {
    const std::lock_guard lock(mutex_);
    std::map<std::string, std::vector<std::string>> expected;
    for (const Envelope& event : events) expected[event.key].push_back(event.id.ToString());
    std::string complaint;
    for (const auto& [key, ids] : expected) {
      const auto found = by_key_.find(key);
      if (found == by_key_.end()) {
        complaint += fmt::format("nothing of {} arrived; ", key);
      } else if (found->second != ids) {
        complaint +=
            fmt::format("{} of {} events of {} arrived, or not in order; ", found->second.size(), ids.size(), key);
      }
    }
    if (by_key_.size() > expected.size()) complaint += "something arrived that was not published";
    return complaint;
  }

 private:
  mutable std::mutex mutex_;
  std::size_t arrivals_ = 0;
  std::set<std::string> seen_;
  std::map<std::string, std::vector<std::string>> by_key_;
};

class Forward : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "postgres_kafka") SEALANE_REQUIRE_KAFKA();
    place_ = std::make_unique<ConsumePlace>(GetParam());
    events_ = ChangesOf(kKeys, kVersions);
    place_->Publish(events_);
    receiver_.SetHandler([this](const Request& request) {
      ledger_.Note(request);
      return Answer{};
    });
  }

  std::vector<std::string> Arguments(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"forward",
                                          "--consumer",
                                          "erp-" + place_->topic(),
                                          "--topic",
                                          place_->topic(),
                                          "--to",
                                          receiver_.url(),
                                          "--store",
                                          place_->store_url(),
                                          "--broker",
                                          place_->broker_url(),
                                          "--member",
                                          "m1",
                                          "--lease-margin",
                                          "1s",
                                          "--request-timeout",
                                          request_timeout_,
                                          "--batch",
                                          "7",
                                          "-o",
                                          "json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  CommandResult CatchUp(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = Arguments(more);
    arguments.insert(arguments.end(), {"--until", "caught-up"});
    return RunSealane(arguments);
  }

  std::unique_ptr<ChildProcess> Start(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> command = {SEALANE_TEST_BINARY};
    const std::vector<std::string> arguments = Arguments(more);
    command.insert(command.end(), arguments.begin(), arguments.end());
    return std::make_unique<ChildProcess>(command, std::map<std::string, std::string>{}, place_->folder());
  }

  /// Lets the ends of all tasks lie further back.
  void AgeTasks(std::chrono::hours age) const {
    const auto micros = std::chrono::microseconds(age).count();
    const std::string older =
        place_->is_kafka() ? fmt::format("interval '{} microseconds'", micros) : fmt::format("{}", micros);
    place_->Execute(fmt::format("UPDATE {} SET ended_at = ended_at - {}", place_->Table("task"), older));
  }

  std::unique_ptr<ConsumePlace> place_;
  // Long, so that a machine that stands still for a moment changes nothing.
  std::string request_timeout_ = "30s";
  std::vector<Envelope> events_;
  Ledger ledger_;
  HttpReceiver receiver_;
};

TEST_P(Forward, SendsEachEventOnceInTheOrderOfItsKey) {
  const CommandResult run = CatchUp();
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(ledger_.Complaint(events_), "");
  EXPECT_EQ(ledger_.arrivals(), events_.size());
  const auto report = nlohmann::json::parse(run.out);
  EXPECT_EQ(report.at("taken"), events_.size());
  EXPECT_EQ(report.at("sent"), events_.size());
  const Request request = receiver_.requests().front();
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.target, "/events");
  EXPECT_EQ(request.Header("ce-id"), request.Header("idempotency-key"));
  EXPECT_EQ(request.Header("sealane-topic"), events_.front().topic);
  EXPECT_EQ(request.Header("x-sealane-attempt"), "1");

  const CommandResult again = CatchUp();
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(ledger_.arrivals(), events_.size());
}

TEST_P(Forward, KilledUnderLoadTheReceiverStillSeesEachEventOnceInOrder) {
  // What a victim was sending is taken over after this and the margin.
  request_timeout_ = "5s";
  for (const std::size_t arrived : {5U, 25U, 45U, 65U}) {
    const auto victim = Start();
    ASSERT_TRUE(Eventually([&] { return ledger_.count() >= arrived; })) << arrived;
    victim->Signal(SIGKILL);
    EXPECT_EQ(victim->Finish().code, 128 + SIGKILL);
  }
  const CommandResult run = CatchUp();
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(ledger_.Complaint(events_), "");
}

TEST_P(Forward, AReceiverThatIsAwayLosesNothing) {
  receiver_.Stop();
  const auto forwarder = Start();
  const std::string attempted = fmt::format("SELECT count(*) FROM {} WHERE attempts > 1", place_->Table("task"));
  ASSERT_TRUE(Eventually([&] { return place_->Number(attempted) > 0; }));
  receiver_.Start();
  EXPECT_TRUE(Eventually([&] { return ledger_.count() == events_.size(); }));
  forwarder->Signal(SIGTERM);
  EXPECT_EQ(forwarder->Finish().code, 0);
  EXPECT_EQ(ledger_.Complaint(events_), "");
}

TEST_P(Forward, AFailingReceiverGetsTheSameKeyAgainAndTheOrderHolds) {
  // By event and not by call, so that no event can meet more failures than the policy has attempts.
  std::mutex mutex;
  struct Seen {
    std::size_t number;
    std::size_t attempts;
  };
  std::map<std::string, Seen> seen;
  receiver_.SetHandler([&](const Request& request) {
    const std::lock_guard lock(mutex);
    Seen& event = seen.try_emplace(request.Header("idempotency-key"), Seen{seen.size(), 0}).first->second;
    ++event.attempts;
    if (event.attempts <= event.number % 3) return Answer{.status = 503};
    ledger_.Note(request);
    // Some are taken and the answer says otherwise: the key is what saves the receiver.
    if (event.attempts <= event.number % 4) return Answer{.hang_up = true};
    return Answer{};
  });
  const CommandResult run = CatchUp({"--retry", "brief"});
  receiver_.Stop();  // its handler speaks of what is on this stack
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(ledger_.Complaint(events_), "");
  EXPECT_GT(ledger_.arrivals(), events_.size());
}

TEST_P(Forward, APoisonedEventHoldsUpItsKeyAlone) {
  // The third of k0.
  std::string poison;
  int version = 0;
  for (const Envelope& event : events_) {
    if (event.key == "k0" && ++version == 3) poison = event.id.ToString();
  }
  std::atomic<bool> refuse = true;
  receiver_.SetHandler([&](const Request& request) {
    if (refuse && request.Header("idempotency-key") == poison) return Answer{.status = 400};
    ledger_.Note(request);
    return Answer{};
  });
  const CommandResult run = CatchUp();
  receiver_.Stop();  // its handler speaks of what is on this stack
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(nlohmann::json::parse(run.out).at("dead"), 1);
  EXPECT_EQ(ledger_.count(), events_.size() - kVersions + 2);
}

TEST_P(Forward, WhatMayHaveArrivedIsHeldWhenItIsToldTo) {
  std::atomic<bool> first = true;
  receiver_.SetHandler([&](const Request& request) {
    ledger_.Note(request);
    return Answer{.hang_up = first.exchange(false)};
  });
  const CommandResult run = CatchUp({"--in-doubt", "hold"});
  receiver_.Stop();  // its handler speaks of what is on this stack
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(nlohmann::json::parse(run.out).at("dead"), 1);
  EXPECT_EQ(ledger_.arrivals(), ledger_.count());
}

TEST_P(Forward, WhatWasSentIsForgottenAfterTwoDaysAndNotSentAgain) {
  ASSERT_EQ(CatchUp().code, 0);
  const std::string tasks = fmt::format("SELECT count(*) FROM {}", place_->Table("task"));
  EXPECT_EQ(place_->Number(tasks), static_cast<std::int64_t>(events_.size()));
  AgeTasks(std::chrono::hours{47});
  ASSERT_EQ(CatchUp().code, 0);
  EXPECT_EQ(place_->Number(tasks), static_cast<std::int64_t>(events_.size()));
  AgeTasks(std::chrono::hours{2});
  ASSERT_EQ(CatchUp().code, 0);
  EXPECT_EQ(place_->Number(tasks), 0);
  EXPECT_EQ(ledger_.arrivals(), events_.size());
}

INSTANTIATE_TEST_SUITE_P(Places, Forward, ::testing::Values("sqlite_journal", "postgres_kafka"),
                         [](const auto& place) { return place.param; });

}  // namespace
}  // namespace sealane::testing
