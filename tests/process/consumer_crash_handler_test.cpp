// Protects a consumer whose handler ends the process: after a few deaths the event is set aside, complete and with
// its dead letter; only its key waits; and with a mended handler everything is applied, once and in order.

#include <csignal>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/wire.hpp"
#include "postgres/postgres_store.hpp"
#include "sqlite/sqlite_store.hpp"
#include "support/consume_place.hpp"
#include "support/eventually.hpp"
#include "support/kafka_cluster.hpp"

namespace sealane::testing {
namespace {

using ::testing::IsSupersetOf;

constexpr int kKeys = 6;
constexpr int kVersions = 50;
constexpr std::int64_t kPoisonVersion = 40;  // far enough to be well in between
constexpr int kAborted = 128 + SIGABRT;

struct Setup {
  std::string place;
  std::string mode;
};

class ConsumerCrashHandler : public ::testing::TestWithParam<Setup> {
 protected:
  void SetUp() override {
    if (is_kafka()) SEALANE_REQUIRE_KAFKA();
    place_ = std::make_unique<ConsumePlace>(GetParam().place);
    consumer_ = place_->topic() + "-billing";
    events_ = ChangesOf(kKeys, kVersions);
    for (const Envelope& event : events_) {
      if (event.key == "k3" && event.aggregate.version == kPoisonVersion) poison_ = event;
    }
    place_->Publish(events_);
  }

  static bool is_kafka() { return GetParam().place == "postgres_kafka"; }

  std::unique_ptr<ChildProcess> Start(const std::string& poison, bool stays) const {
    std::vector<std::string> command = {SEALANE_TEST_CONSUME_VICTIM,
                                        place_->store_url(),
                                        place_->broker_url(),
                                        consumer_,
                                        place_->topic(),
                                        GetParam().mode,
                                        poison};
    if (stays) command.emplace_back("stay");
    return std::make_unique<ChildProcess>(command, std::map<std::string, std::string>{}, place_->folder());
  }

  /// Starts it again and again, as a service manager does, until one ends by itself; returns how many died.
  int Deaths() const {
    for (int deaths = 0; deaths < 20; ++deaths) {
      const CommandResult run = Start(poison_.id.ToString(), false)->Finish();
      if (run.code == 0) return deaths;
      EXPECT_EQ(run.code, kAborted) << run.err;
      if (run.code != kAborted) return -1;
    }
    ADD_FAILURE() << "it never learns";
    return -1;
  }

  std::int64_t CountParked(const std::string& condition) const {
    return place_->Number(fmt::format("SELECT count(*) FROM {} WHERE consumer = '{}' AND {}",
                                      place_->Table("inbox_parked"), consumer_, condition));
  }
  std::int64_t EffectsOf(const std::string& condition) const {
    return place_->Number(
        fmt::format("SELECT count(*) FROM effects WHERE consumer = '{}' AND {}", consumer_, condition));
  }

  std::vector<StoredMessage> DeadLettersInTheOutbox() const {
    MessageFilter filter;
    filter.topic = "dead-letters";
    const auto store = is_kafka() ? ValueOrThrow(postgres::OpenOutboxStore({.url = place_->store_url()}))
                                  : ValueOrThrow(sqlite::OpenOutboxStore(
                                        {.path = place_->store_url().substr(std::string("sqlite:").size())}));
    std::vector<StoredMessage> letters;
    for (const StoredMessage& listed : ValueOrThrow(store->ListMessages(filter))) {
      letters.push_back(ValueOrThrow(store->FindMessage(listed.envelope.id)).value());
    }
    return letters;
  }

  std::unique_ptr<ConsumePlace> place_;
  std::string consumer_;
  std::vector<Envelope> events_;
  Envelope poison_;
};

TEST_P(ConsumerCrashHandler, IsSetAsideAfterItsBudgetAndAppliedInOrderOnceItIsMended) {
  // Two deaths make the next ones careful, and three of those are the budget of the event.
  const int deaths = Deaths();
  EXPECT_GE(deaths, 3);
  EXPECT_LE(deaths, 8);

  // Only its key waits.
  EXPECT_EQ(EffectsOf("key <> 'k3'"), (kKeys - 1) * kVersions);
  EXPECT_EQ(EffectsOf("key = 'k3'"), kPoisonVersion - 1);
  EXPECT_EQ(CountParked(fmt::format("event_id = '{}' AND state = 'DEAD' AND error_code = 'handler_crashed'",
                                    poison_.id.ToString())),
            1);
  EXPECT_EQ(CountParked("state = 'RECEIVED'"), kVersions - kPoisonVersion);
  EXPECT_EQ(CountParked("1 = 1"), kVersions - kPoisonVersion + 1);

  const std::vector<StoredMessage> letters = DeadLettersInTheOutbox();
  ASSERT_EQ(letters.size(), 1U);
  const Envelope& letter = letters.front().envelope;
  EXPECT_EQ(letter.type, "sealane.DeadLetter");
  EXPECT_EQ(letter.key, "k3");
  EXPECT_EQ(letter.payload, ToWire(poison_, WireProfile::kEnvelope).value);
  EXPECT_EQ(letter.causation_id, poison_.id.ToString());
  EXPECT_EQ(letter.correlation_id, poison_.correlation_id);
  EXPECT_THAT(letter.headers,
              IsSupersetOf({Header{"dlq-event-id", poison_.id.ToString()}, Header{"dlq-consumer", consumer_},
                            Header{"dlq-code", "handler_crashed"}, Header{"dlq-topic", place_->topic()},
                            Header{"dlq-owner", "billing"}, Header{"dlq-criticality", "high"},
                            Header{"dlq-event-type", "OrderChanged"}}));

  // A person decides, with a handler that can take it.
  const CommandResult retry = RunSealane({"inbox", "retry", poison_.id.ToString(), "--consumer", consumer_, "--store",
                                          place_->store_url(), "--reason", "the handler is mended"},
                                         {}, {}, place_->folder());
  ASSERT_EQ(retry.code, 0) << retry.err;
  const auto mended = Start("none", true);
  EXPECT_TRUE(
      Eventually([&] { return static_cast<std::size_t>(place_->CountEffects(consumer_)) >= events_.size(); }));
  mended->Signal(SIGTERM);
  const CommandResult end = mended->Finish();
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(place_->Complaint(consumer_, events_, GetParam().mode == "record"), "") << end.err;
}

INSTANTIATE_TEST_SUITE_P(Setups, ConsumerCrashHandler,
                         ::testing::Values(Setup{"sqlite_journal", "record"}, Setup{"sqlite_journal", "offsets"},
                                           Setup{"postgres_kafka", "record"}, Setup{"postgres_kafka", "offsets"}),
                         [](const auto& setup) { return setup.param.place + "_" + setup.param.mode; });

}  // namespace
}  // namespace sealane::testing
