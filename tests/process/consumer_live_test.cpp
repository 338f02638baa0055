// Protects what `sealane consume` does with what brokers really bring: repetitions, long queues of one key, events
// that cannot be applied, wrong options, and being asked to stop. Real stores, real brokers, the real program.

#include <algorithm>
#include <csignal>
#include <random>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "../apps/sealane/exit_code.hpp"
#include "base/hex.hpp"
#include "base/sha256.hpp"
#include "core/wire.hpp"
#include "support/consume_place.hpp"
#include "support/eventually.hpp"
#include "support/kafka_cluster.hpp"

namespace sealane::testing {
namespace {

using cli::ExitCode;
using nlohmann::json;
using ::testing::AnyOf;
using ::testing::HasSubstr;

std::string Hex(const std::string& text) {
  return ToHex({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

class ConsumerLive : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "postgres_kafka") SEALANE_REQUIRE_KAFKA();
    place_ = std::make_unique<ConsumePlace>(GetParam());
    // The tests share a Kafka: a group belongs to one.
    consumer_ = place_->topic() + "-billing";
  }

  /// The report of a run that must end well.
  json CatchUp(const std::vector<std::string>& more = {}) const {
    const CommandResult run = place_->CatchUp(consumer_, more);
    EXPECT_EQ(run.code, 0) << run.err;
    const json report = json::parse(run.out, nullptr, false);
    EXPECT_TRUE(report.is_object()) << run.out << run.err;
    return report;
  }

  std::unique_ptr<ConsumePlace> place_;
  std::string consumer_;
};

TEST_P(ConsumerLive, AnEventThatComesTenTimesTakesEffectOnce) {
  const Envelope event = ChangeOf("k0", 1);
  place_->Publish(std::vector<Envelope>(10, event));
  for (const std::string mode : {"record", "offsets"}) {
    consumer_ = place_->topic() + "-" + mode;
    const json report = CatchUp({"--mode", mode});
    EXPECT_EQ(report["received"], 10) << mode;
    EXPECT_EQ(report["effects"], 1) << mode;
    EXPECT_EQ(report["duplicates"], 9) << mode;
    EXPECT_EQ(place_->Complaint(consumer_, {event}, mode == "record"), "") << mode;
  }
}

TEST_P(ConsumerLive, TheSameIdWithOtherBytesIsSetAsideOnceAndItsKeyGoesOn) {
  const Envelope event = ChangeOf("k0", 1);
  Envelope other = event;
  other.payload = "{\"version\":1,\"total\":2}";
  other.payload_hash = Sha256(other.payload);
  const Envelope next = ChangeOf("k0", 2);
  place_->Publish({event, other, other, next});
  const json report = CatchUp({"--dead-letter-topic", "dead"});
  EXPECT_EQ(report["effects"], 2);
  EXPECT_EQ(report["hash_mismatches"], 1);
  EXPECT_EQ(place_->CountEffects(consumer_), 2);
  EXPECT_EQ(place_->Query(fmt::format("SELECT state, error_code FROM {} WHERE consumer = '{}'",
                                      place_->Table("inbox_parked"), consumer_)),
            (std::vector<std::vector<std::string>>{{"DEAD", "payload_hash_mismatch"}}));
  EXPECT_EQ(place_->Number(fmt::format("SELECT count(*) FROM {} WHERE topic = 'dead'", place_->Table("outbox"))), 1);
}

TEST_P(ConsumerLive, AThousandEventsOfOneKeyTakeEffectInOrder) {
  const std::vector<Envelope> events = ChangesOf(1, 1'000);
  place_->Publish(events);
  EXPECT_EQ(CatchUp({"--workers", "8"})["effects"], 1'000);
  EXPECT_EQ(place_->Complaint(consumer_, events, true), "");
}

TEST_P(ConsumerLive, WhatARelaySendsAgainAfterItsDeathsChangesNothing) {
  constexpr int kKeys = 50;
  constexpr int kVersions = 200;
  std::string lines;
  for (int version = 1; version <= kVersions; ++version) {
    for (int key = 0; key < kKeys; ++key) {
      lines += fmt::format(
          "{{\"topic\":\"{}\",\"key\":\"k{}\",\"type\":\"OrderChanged\",\"aggregate_type\":\"order\","
          "\"aggregate_id\":\"k{}\",\"aggregate_version\":{},\"payload\":{{}}}}\n",
          place_->topic(), key, key, version);
    }
  }
  const CommandResult emitted = RunSealane({"emit", "--jsonl", "-", "--store", place_->store_url()}, lines);
  ASSERT_EQ(emitted.code, 0) << emitted.err;

  // Each relay dies between delivering and writing down that it has.
  const std::vector<std::string> relay = {
      "relay",   "--store", place_->store_url(), "--broker", place_->broker_url(), "--listen", "off",
      "--until", "drained", "--timeout",         "60s"};
  std::vector<std::string> victim = {SEALANE_TEST_RELAY_VICTIM};
  victim.insert(victim.end(), relay.begin(), relay.end());
  std::mt19937 random(20'261);
  for (int death = 0; death < 3; ++death) {
    const std::string point = fmt::format("relay.before_settle:{}", std::uniform_int_distribution<int>(1, 3)(random));
    ChildProcess(victim, {{"SEALANE_TEST_CRASH_AT", point}, {"SEALANE_RELAY__LEASE", "400ms"}}, place_->folder())
        .Finish();
  }
  const CommandResult drained = RunSealane(relay, {}, {{"SEALANE_RELAY__LEASE", "400ms"}});
  ASSERT_EQ(drained.code, 0) << drained.err;

  for (const std::string mode : {"record", "offsets"}) {
    consumer_ = place_->topic() + "-" + mode;
    const json report = CatchUp({"--mode", mode});
    EXPECT_EQ(report["effects"], kKeys * kVersions) << mode;
    EXPECT_GT(report["duplicates"], 0) << mode << ": no relay repeated anything";
    EXPECT_EQ(place_->CountEffects(consumer_), kKeys * kVersions) << mode;
    EXPECT_EQ(place_->Number(fmt::format("SELECT count(DISTINCT event_id) FROM effects WHERE consumer = '{}' "
                                         "AND version = before + 1",
                                         consumer_)),
              kKeys * kVersions)
        << mode;
    EXPECT_EQ(place_->Number(fmt::format("SELECT count(*) FROM counters WHERE consumer = '{}' AND effects = {}",
                                         consumer_, kVersions)),
              kKeys)
        << mode;
  }
}

TEST_P(ConsumerLive, WhatCannotBeAppliedStopsItsOwnKeyOnly) {
  place_->Execute("CREATE TABLE strict (version BIGINT CHECK (version < 600))");
  place_->AddToScript("INSERT INTO strict (version) VALUES (:aggregate_version);\n");
  std::vector<Envelope> good = ChangesOf(5, 20);
  Envelope newer = ChangeOf("newer", 1);
  newer.schema_version = 7;
  const Envelope odd = ChangeOf("odd", 666);
  place_->PublishBytes("broken", "{\"id\": nonsense");
  place_->Publish({newer, odd});
  place_->Publish(good);
  place_->Publish({ChangeOf("broken", 1), ChangeOf("newer", 2), ChangeOf("odd", 2)});

  const json report = CatchUp({"--dead-letter-topic", "dead"});
  EXPECT_EQ(report["effects"], 100);
  EXPECT_EQ(report["dead"], 3);
  EXPECT_EQ(report["parked"], 6);
  EXPECT_EQ(place_->CountEffects(consumer_), 100);
  EXPECT_EQ(place_->Number("SELECT count(*) FROM strict"), 100) << "what a failed script wrote is undone";
  EXPECT_EQ(place_->Number("SELECT count(*) FROM effects WHERE key NOT LIKE 'k%'"), 0);
  EXPECT_EQ(place_->Number(fmt::format("SELECT count(*) FROM {} WHERE consumer = '{}' AND state = 'RECEIVED'",
                                       place_->Table("inbox_parked"), consumer_)),
            3);

  // The letters carry what came, byte for byte.
  std::vector<std::vector<std::string>> wanted;
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::string>>{{"broken", "{\"id\": nonsense"},
                                                        {"newer", ToWire(newer, WireProfile::kEnvelope).value},
                                                        {"odd", ToWire(odd, WireProfile::kEnvelope).value}}) {
    wanted.push_back({key, Hex(value)});
  }
  const std::string hex = place_->is_kafka() ? "encode(payload, 'hex')" : "lower(hex(payload))";
  EXPECT_EQ(place_->Query(
                fmt::format("SELECT key, {} FROM {} WHERE topic = 'dead' ORDER BY 1", hex, place_->Table("outbox"))),
            wanted);

  // Again from the beginning: nothing is done twice, and no letter is written twice.
  EXPECT_EQ(CatchUp({"--dead-letter-topic", "dead"})["effects"], 0);
  EXPECT_EQ(place_->Number(fmt::format("SELECT count(*) FROM {} WHERE topic = 'dead'", place_->Table("outbox"))), 3);
}

// A bad deploy: every event is refused. It must not make a person's work of each of them.
TEST_P(ConsumerLive, AScriptThatIsRefusedForEveryEventIsStoppedAndGoesOnWhenItIsMended) {
  const std::vector<Envelope> events = ChangesOf(1'000, 5);
  place_->Publish(events);
  place_->Execute("CREATE TABLE strict (version BIGINT CHECK (version < 0))");
  place_->AddToScript("INSERT INTO strict (version) VALUES (:aggregate_version);\n");
  const auto parked = [&](const std::string& condition) {
    return place_->Number(fmt::format("SELECT count(*) FROM {} WHERE consumer = '{}' AND {}",
                                      place_->Table("inbox_parked"), consumer_, condition));
  };
  std::int64_t dead = 0;
  for (int start = 0; start < 3; ++start) {
    const CommandResult run = place_->CatchUp(consumer_);
    EXPECT_EQ(run.code, static_cast<int>(ExitCode::kHeld)) << run.err;
    EXPECT_THAT(run.err, HasSubstr("circuit_open"));
    EXPECT_THAT(run.err, HasSubstr("sealane inbox unpause --consumer " + consumer_));
    if (start == 0) dead = parked("state = 'DEAD'");
  }
  EXPECT_LE(dead, 10) << "those before the breaker could know, of 1,000 keys";
  EXPECT_EQ(parked("state = 'DEAD'"), dead) << "however often it is started";
  EXPECT_LE(parked("state <> 'DEAD'"), 200) << "the others, what followed them at once, and the probes";
  EXPECT_EQ(place_->CountEffects(consumer_), 0);

  place_->AddToScript("");
  EXPECT_EQ(place_->CatchUp(consumer_).code, 0);
  if (dead > 0) {
    const CommandResult retried = RunSealane(
        {"inbox", "retry", "--consumer", consumer_, "--reason", "mended", "--yes", "--store", place_->store_url()});
    EXPECT_EQ(retried.code, 0) << retried.err;
    EXPECT_EQ(place_->CatchUp(consumer_).code, 0);
  }
  EXPECT_EQ(place_->Complaint(consumer_, events, true), "");
}

TEST_P(ConsumerLive, OneThatIsPausedSaysSoAndGoesOnWhenItIsUnpaused) {
  std::vector<Envelope> events = {ChangeOf("first", 1)};
  place_->Publish(events);
  EXPECT_EQ(place_->CatchUp(consumer_).code, 0);
  const auto sealane = [&](const std::string& verb) {
    return RunSealane(
        {"inbox", verb, "--consumer", consumer_, "--reason", "upgrade", "--store", place_->store_url()});
  };
  ASSERT_EQ(sealane("pause").code, 0);
  const std::vector<Envelope> later = ChangesOf(10, 10);
  place_->Publish(later);
  events.insert(events.end(), later.begin(), later.end());
  const CommandResult held = place_->CatchUp(consumer_);
  EXPECT_EQ(held.code, static_cast<int>(ExitCode::kHeld)) << held.err;
  EXPECT_THAT(held.err, HasSubstr("consumer_paused"));
  const auto running = place_->Start("paused", consumer_);
  std::this_thread::sleep_for(std::chrono::seconds{3});
  EXPECT_EQ(place_->CountEffects(consumer_), 1);
  ASSERT_EQ(sealane("unpause").code, 0);
  EXPECT_TRUE(Eventually([&] { return place_->CountEffects(consumer_) == 101; })) << place_->ReadLog("paused");
  running->Signal(SIGTERM);
  EXPECT_EQ(running->Finish().code, 0) << place_->ReadLog("paused");
  EXPECT_EQ(place_->Complaint(consumer_, events, true), "");
}

TEST_P(ConsumerLive, OneThatIsStoppedEndsWellAndItsHeirGoesOn) {
  for (const std::string mode : {"record", "offsets"}) {
    ConsumePlace place(GetParam());
    const std::string consumer = place.topic() + "-" + mode;
    const std::vector<Envelope> events = ChangesOf(20, 200);
    place.Publish(events);
    std::uint64_t seen = 0;
    for (int stop = 0; stop < 3; ++stop) {
      const std::string name = fmt::format("{}-{}", mode, stop);
      const auto first = place.Start(name, consumer, {"--mode", mode, "--batch", "5"});
      ASSERT_TRUE(Eventually([&] { return static_cast<std::uint64_t>(place.CountEffects(consumer)) > seen; }))
          << place.ReadLog(name);
      first->Signal(SIGTERM);
      EXPECT_EQ(first->Finish().code, 0) << place.ReadLog(name);
      EXPECT_EQ(place.AheadComplaint(consumer), "");
      seen = static_cast<std::uint64_t>(place.CountEffects(consumer));
      if (seen == events.size()) break;
    }
    const CommandResult last = place.CatchUp(consumer, {"--mode", mode});
    ASSERT_EQ(last.code, 0) << last.err;
    const json report = json::parse(last.out);
    EXPECT_EQ(report["effects"], events.size() - seen) << mode;
    EXPECT_EQ(place.Complaint(consumer, events, mode == "record"), "") << mode;
    std::cout << fmt::format("{}: {} effects before the last, which met {} duplicates\n", mode, seen,
                             report["duplicates"].get<int>());
    // Without receipts the position is in the store, so nothing at all comes again. With them, other workers may have
    // been further than the oldest event that was dropped.
    if (mode == "offsets") {
      EXPECT_EQ(report["duplicates"], 0);
    }
  }
}

void ExpectError(const CommandResult& result, ExitCode exit_code, const std::string& text) {
  EXPECT_EQ(result.code, static_cast<int>(exit_code)) << result.err;
  EXPECT_EQ(result.out, "") << "nothing but the error";
  EXPECT_THAT(result.err, HasSubstr(text));
  EXPECT_THAT(result.err, HasSubstr("\"hint\"")) << "every failure says what to do next";
}

TEST_P(ConsumerLive, AWrongScriptIsNamedBeforeAnythingIsRead) {
  place_->Publish(ChangesOf(1, 1));
  place_->WriteScript("INSERT INTO effects (key) VALUES (:kee);\n");
  ExpectError(place_->CatchUp(consumer_), ExitCode::kUsage, ":kee");
  place_->WriteScript("INSERT INTO effects (key) VALUES (:key); COMMIT;\n");
  ExpectError(place_->CatchUp(consumer_), ExitCode::kUsage, "commit");
  place_->WriteScript("INSERT INTO effects (key) VALUES (:key);\n  INSRT INTO effects (key) VALUES (:key);\n");
  ExpectError(place_->CatchUp(consumer_), ExitCode::kUsage, "script line 2, column 3");
  place_->WriteScript("INSERT INTO effects (key) VALUES (:aggregate_type, :key);\n");
  ExpectError(place_->CatchUp(consumer_), ExitCode::kUsage, "script line 1, column ");
  place_->WriteScript("INSERT INTO effects (key) VALUES (:key);\nINSERT INTO nowhere VALUES (:key);\n");
  ExpectError(place_->CatchUp(consumer_), ExitCode::kUsage, "script line 2, column ");
  EXPECT_THAT(place_->CatchUp(consumer_).err, HasSubstr("nowhere"));
  std::vector<std::string> arguments = place_->Arguments(consumer_, {"-o", "json"});
  std::replace(arguments.begin(), arguments.end(), place_->folder() + "/effect.sql", std::string("missing.sql"));
  ExpectError(RunSealane(arguments, {}, {}, place_->folder()), ExitCode::kUsage, "missing.sql");
  EXPECT_EQ(place_->Number("SELECT count(*) FROM effects"), 0);
}

TEST_P(ConsumerLive, AScriptMayNameWhatItMakesItself) {
  place_->Publish(ChangesOf(1, 2));
  place_->WriteScript(
      "DROP TABLE IF EXISTS scratch;\nCREATE TABLE scratch (key TEXT);\nINSERT INTO scratch (key) VALUES (:key);\n"
      "INSERT INTO effects (key, consumer) SELECT key, :consumer FROM scratch;\n");
  const CommandResult result = place_->CatchUp(consumer_);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(place_->CountEffects(consumer_), 2) << result.out;
  place_->WriteScript(
      "DROP TABLE IF EXISTS scratch;\nCREATE TABLE scratch (key TEXT);\nINSRT INTO scratch VALUES (1);\n");
  ExpectError(place_->CatchUp(consumer_), ExitCode::kUsage, "script line 3, column 1");
}

TEST_P(ConsumerLive, ATopicThatIsMissingIsToldAndWaitedFor) {
  std::vector<std::string> arguments = place_->Arguments(consumer_);
  std::replace(arguments.begin(), arguments.end(), place_->topic(), place_->topic() + "-mistyped");
  std::vector<std::string> command = {"/bin/sh", "-c", "exec \"$@\" 2>\"$LOG\"", "sh", SEALANE_TEST_BINARY};
  command.insert(command.end(), arguments.begin(), arguments.end());
  ChildProcess waiting(command, {{"LOG", place_->LogOf("waiting")}}, place_->folder());
  const auto told = [&] { return place_->ReadLog("waiting").find("no partitions yet") != std::string::npos; };
  EXPECT_TRUE(Eventually(told)) << place_->ReadLog("waiting");
  waiting.Signal(SIGTERM);
  EXPECT_EQ(waiting.Finish().code, 0) << place_->ReadLog("waiting");

  arguments.insert(arguments.end(), {"--until", "caught-up", "--timeout", "1s", "-o", "json"});
  const CommandResult ended = RunSealane(arguments);
  ExpectError(ended, ExitCode::kTimedOut, "not_caught_up");
  // Kafka says which one, once it has answered.
  EXPECT_THAT(ended.err, AnyOf(HasSubstr("does every --topic exist?"), HasSubstr("there is no topic")));
}

TEST_P(ConsumerLive, AWrongStoreOrBrokerIsNamedAtOnce) {
  std::vector<std::string> arguments = place_->Arguments(consumer_, {"-o", "json"});
  std::replace(arguments.begin(), arguments.end(), place_->broker_url(), std::string("stdout:"));
  ExpectError(RunSealane(arguments), ExitCode::kBadConfiguration, "broker_not_readable");

  arguments = place_->Arguments(consumer_, {"-o", "json"});
  const ScratchDatabase empty;
  std::replace(arguments.begin(), arguments.end(), place_->store_url(), empty.url());
  ExpectError(RunSealane(arguments), ExitCode::kSchemaMissing, "schema_missing");
}

INSTANTIATE_TEST_SUITE_P(Places, ConsumerLive, ::testing::Values("sqlite_journal", "postgres_kafka"),
                         [](const auto& place) { return place.param; });

}  // namespace
}  // namespace sealane::testing
