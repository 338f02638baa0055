// What every store promises to operators: they see every event that was set aside and why, what they do happens to
// those events alone, and nothing happens without a name and a reason on record.

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "postgres/postgres_store.hpp"
#include "support/log_fixture.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"
#include "support/sample_events.hpp"
#include "support/store_fixture.hpp"

namespace sealane {
namespace {

using namespace sealane::testing;
using namespace std::chrono_literals;
using enum ParkedState;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const OperatorAction kWhy{"ann", "because"};

/// An entry with another topic and type.
NewEntry Mail(NewEntry entry) {
  entry.envelope.topic = "mails";
  entry.envelope.type = "MailSent";
  return entry;
}

/// Six events: of key a FAILED and two that wait behind it, of key b DEAD, of key c (tenant t, topic mails) FAILED,
/// and one of key d that was never set aside.
class DeadLettersContract : public ::testing::TestWithParam<std::string> {
 protected:
  DeadLettersContract() {
    const auto store = fixture_->OpenStore();
    AppendAndCommit(*store, {a1_, a2_, a3_, b_, c_, d_});
    fixture_->Park(
        {{a1_.envelope.id, kFailed, 2, "refused"}, {a2_.envelope.id, kWaiting}, {a3_.envelope.id, kWaiting}});
    fixture_->LetTimePass(10s);
    fixture_->Park({{b_.envelope.id, kDead, 10, "too_large"}});
    fixture_->LetTimePass(10s);
    fixture_->Park({{c_.envelope.id, kFailed, 1, "refused"}});
  }

  LogFixture& fixture() { return *fixture_; }
  DeadLetters& letters() { return *letters_; }
  std::vector<std::string> KeysOf(const DeadLetterFilter& filter) {
    std::vector<std::string> keys;
    for (const DeadLetter& letter : ValueOrThrow(letters_->List(filter))) keys.push_back(letter.key);
    return keys;
  }
  DeadLetter Find(const NewEntry& entry) {
    const auto found = ValueOrThrow(letters_->Find(entry.envelope.id));
    EXPECT_THAT(found, SizeIs(1));
    return found.empty() ? DeadLetter{} : found.front();
  }
  /// What the newest record says: who did what to what, and why.
  std::string LastRecord() {
    const auto records = ValueOrThrow(letters_->Audit(1));
    if (records.empty()) return "";
    return records[0].actor + " " + records[0].action + " " + records[0].target + ": " + records[0].reason;
  }

  const NewEntry a1_ = SampleEntry("a");
  const NewEntry a2_ = SampleEntry("a");
  const NewEntry a3_ = SampleEntry("a");
  const NewEntry b_ = SampleEntry("b");
  const NewEntry c_ = Mail(OfTenant(SampleEntry("c"), "t"));
  const NewEntry d_ = SampleEntry("d");

 private:
  std::unique_ptr<LogFixture> fixture_ = MakeLogFixture(GetParam());
  std::unique_ptr<DeadLetters> letters_ = fixture_->OpenDeadLetters();
};

INSTANTIATE_TEST_SUITE_P(Store, DeadLettersContract, ::testing::Values("memory", "sqlite", "postgres"),
                         [](const auto& test) { return test.param; });

TEST_P(DeadLettersContract, ListsWhatFailedLongestWaitingFirst) {
  EXPECT_THAT(KeysOf({}), ElementsAre("a", "b", "c"));
  EXPECT_THAT(KeysOf({.limit = 2}), ElementsAre("a", "b"));
}

TEST_P(DeadLettersContract, TellsEverythingAboutAnEvent) {
  const DeadLetter letter = Find(c_);
  EXPECT_EQ(letter.route, "main");
  EXPECT_GE(letter.seq, 5);
  EXPECT_EQ(letter.id, c_.envelope.id);
  EXPECT_EQ(letter.unit, "c");
  EXPECT_EQ(letter.tenant, "t");
  EXPECT_EQ(letter.topic, "mails");
  EXPECT_EQ(letter.key, "c");
  EXPECT_EQ(letter.type, "MailSent");
  EXPECT_EQ(letter.state, kFailed);
  EXPECT_FALSE(letter.skipped);
  EXPECT_EQ(letter.attempts, 1);
  EXPECT_TRUE(letter.first_failed_at.has_value());
  EXPECT_TRUE(letter.last_failed_at.has_value());
  EXPECT_EQ(letter.error_code, "refused");
  EXPECT_EQ(letter.error_message, "said refused");
  EXPECT_THAT(ValueOrThrow(letters().Find(d_.envelope.id)), IsEmpty());
}

TEST_P(DeadLettersContract, CountsWhoWaitsBehind) {
  EXPECT_EQ(Find(a1_).followers, 2);
  EXPECT_EQ(Find(a2_).followers, 1);
  EXPECT_EQ(Find(a3_).followers, 0);
  EXPECT_EQ(Find(b_).followers, 0);
  ValueOrThrow(letters().Discard(a2_.envelope.id, {}, kWhy));
  EXPECT_EQ(Find(a1_).followers, 1) << "what was given up waits for nothing";
  ValueOrThrow(letters().Discard(a1_.envelope.id, {}, kWhy));
  EXPECT_EQ(Find(a1_).followers, 0) << "and nobody waits for it";
}

TEST_P(DeadLettersContract, FiltersByEveryField) {
  EXPECT_THAT(KeysOf({.tenant = "t"}), ElementsAre("c"));
  EXPECT_THAT(KeysOf({.tenant = ""}), ElementsAre("a", "b"));
  EXPECT_THAT(KeysOf({.topic = "mails"}), ElementsAre("c"));
  EXPECT_THAT(KeysOf({.key = "b"}), ElementsAre("b"));
  EXPECT_THAT(KeysOf({.error_code = "refused"}), ElementsAre("a", "c"));
  EXPECT_THAT(KeysOf({.state = kDead}), ElementsAre("b"));
  EXPECT_THAT(KeysOf({.state = kWaiting}), ElementsAre("a", "a"));
  EXPECT_THAT(KeysOf({.state = kDiscarded}), IsEmpty());
  EXPECT_THAT(KeysOf({.route = "main", .tenant = "t", .topic = "mails", .key = "c", .error_code = "refused"}),
              ElementsAre("c"));
  EXPECT_THAT(KeysOf({.route = "elsewhere"}), IsEmpty());
  EXPECT_THAT(KeysOf({.key = "b' OR 1=1 --"}), IsEmpty());
}

TEST_P(DeadLettersContract, AnEventOnTwoRoutesIsTwoLetters) {
  fixture().Park({{b_.envelope.id, kDead, 1, "refused"}}, "hooks");
  EXPECT_THAT(ValueOrThrow(letters().Find(b_.envelope.id)), SizeIs(2));
  EXPECT_EQ(ValueOrThrow(letters().Retry(b_.envelope.id, "hooks", kWhy)), 1);
  EXPECT_THAT(KeysOf({.route = "main", .state = kDead}), ElementsAre("b")) << "the other route is left alone";
  EXPECT_EQ(LastRecord(), "ann dead.retry " + b_.envelope.id.ToString() + " on hooks: because");
  EXPECT_EQ(ValueOrThrow(letters().Discard(b_.envelope.id, std::nullopt, kWhy)), 2);
}

TEST_P(DeadLettersContract, RetryStartsOver) {
  EXPECT_EQ(ValueOrThrow(letters().Retry(b_.envelope.id, "main", {"ann", "limit raised"})), 1);
  const DeadLetter letter = Find(b_);
  EXPECT_EQ(letter.state, kFailed);
  EXPECT_EQ(letter.attempts, 0);
  EXPECT_TRUE(letter.next_attempt_at.has_value());
  EXPECT_EQ(letter.error_code, "too_large") << "why it was set aside is still known";
  EXPECT_EQ(LastRecord(), "ann dead.retry " + b_.envelope.id.ToString() + " on main: limit raised");
}

TEST_P(DeadLettersContract, RetryTakesAFilterAndALimit) {
  EXPECT_EQ(ValueOrThrow(letters().Retry(DeadLetterFilter{.error_code = "refused", .limit = 1}, kWhy)), 1);
  EXPECT_EQ(Find(a1_).attempts, 0);
  EXPECT_EQ(Find(c_).attempts, 1);
  EXPECT_EQ(ValueOrThrow(letters().Retry(DeadLetterFilter{}, kWhy)), 3);
  EXPECT_EQ(ValueOrThrow(letters().Retry(DeadLetterFilter{.state = kWaiting}, kWhy)), 0) << "they did not fail";
  EXPECT_EQ(Find(a2_).state, kWaiting);
  EXPECT_THAT(ValueOrThrow(letters().Audit(100)), SizeIs(4)) << "one record for each event";
}

TEST_P(DeadLettersContract, DiscardIsForGood) {
  EXPECT_EQ(ValueOrThrow(letters().Discard(b_.envelope.id, {}, kWhy)), 1);
  EXPECT_EQ(Find(b_).state, kDiscarded);
  EXPECT_FALSE(Find(b_).next_attempt_at.has_value());
  EXPECT_THAT(KeysOf({}), ElementsAre("a", "c"));
  EXPECT_THAT(KeysOf({.state = kDiscarded}), ElementsAre("b"));
  EXPECT_EQ(ValueOrThrow(letters().Discard(b_.envelope.id, {}, kWhy)), 0);
  EXPECT_EQ(ValueOrThrow(letters().Retry(b_.envelope.id, {}, kWhy)), 0);
  EXPECT_EQ(ValueOrThrow(letters().Skip(b_.envelope.id, {}, kWhy)), 0);
}

TEST_P(DeadLettersContract, SkipIsForTheDeadAndCanBeTakenBack) {
  EXPECT_EQ(ValueOrThrow(letters().Skip(a1_.envelope.id, {}, kWhy)), 0) << "it is still tried";
  EXPECT_EQ(ValueOrThrow(letters().Skip(b_.envelope.id, {}, kWhy)), 1);
  EXPECT_TRUE(Find(b_).skipped);
  EXPECT_EQ(Find(b_).state, kDead);
  EXPECT_EQ(ValueOrThrow(letters().Retry(b_.envelope.id, {}, kWhy)), 1);
  EXPECT_FALSE(Find(b_).skipped);
}

TEST_P(DeadLettersContract, WhatIsNotSetAsideIsNotTouched) {
  EXPECT_EQ(ValueOrThrow(letters().Retry(d_.envelope.id, {}, kWhy)), 0);
  EXPECT_EQ(ValueOrThrow(letters().Discard(d_.envelope.id, {}, kWhy)), 0);
  EXPECT_EQ(ValueOrThrow(letters().Skip(FreshId(), {}, kWhy)), 0);
  EXPECT_EQ(ValueOrThrow(letters().Retry(b_.envelope.id, "elsewhere", kWhy)), 0);
  EXPECT_THAT(ValueOrThrow(letters().Audit(10)), IsEmpty());
}

TEST_P(DeadLettersContract, NothingHappensWithoutANameAndAReason) {
  EXPECT_EQ(letters().Retry(b_.envelope.id, {}, {"", "because"}).error().code(), "actor_required");
  EXPECT_EQ(letters().Retry(DeadLetterFilter{}, {"ann", ""}).error().code(), "reason_required");
  EXPECT_EQ(letters().Discard(b_.envelope.id, {}, {"ann", ""}).error().code(), "reason_required");
  EXPECT_EQ(letters().Skip(b_.envelope.id, {}, {"", ""}).error().code(), "actor_required");
  EXPECT_EQ(letters().SetTenant("main", {.tenant = "t"}, {"ann", ""}).error().code(), "reason_required");
  EXPECT_EQ(letters().SetPaused("main", true, {"", "x"}).error().kind(), ErrorKind::kRejected);
  EXPECT_EQ(Find(b_).state, kDead);
  EXPECT_THAT(ValueOrThrow(letters().Audit(10)), IsEmpty());
}

TEST_P(DeadLettersContract, TypeIsEmptyWhenTheLogHasForgottenTheEvent) {
  fixture().Erase(b_.envelope.id);
  EXPECT_EQ(Find(b_).type, "");
  EXPECT_EQ(Find(b_).key, "b");
}

TEST_P(DeadLettersContract, TenantsHaveRules) {
  EXPECT_THAT(ValueOrThrow(letters().Tenants("main")), IsEmpty());
  const TenantRule slow{.tenant = "t", .paused = false, .rate_max = 100, .weight = 2};
  ValueOrThrow(letters().SetTenant("main", slow, {"ann", "noisy"}));
  EXPECT_THAT(ValueOrThrow(letters().Tenants("main")), ElementsAre(slow));
  EXPECT_EQ(LastRecord(), "ann tenant.change t on main: noisy");
  TenantRule paused = slow;
  paused.paused = true;
  ValueOrThrow(letters().SetTenant("main", paused, {"bob", "too noisy"}));
  EXPECT_EQ(LastRecord(), "bob tenant.pause t on main: too noisy");
  EXPECT_THAT(ValueOrThrow(letters().Tenants("main")), ElementsAre(paused)) << "replaced";
  ValueOrThrow(letters().SetTenant("main", slow, {"bob", "quiet again"}));
  EXPECT_EQ(LastRecord(), "bob tenant.resume t on main: quiet again");
  const auto unknown = letters().Tenants("elsewhere");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code(), "unknown_route") << "no rules and no route are told apart";
}

TEST_P(DeadLettersContract, RefusesRulesThatMakeNoSense) {
  EXPECT_EQ(letters().SetTenant("main", {.tenant = "t", .rate_max = -1}, kWhy).error().code(), "invalid_tenant_rule");
  EXPECT_EQ(letters().SetTenant("main", {.tenant = "t", .weight = 0}, kWhy).error().code(), "invalid_tenant_rule");
  EXPECT_EQ(letters().SetTenant("main", {.tenant = "t", .weight = 1001}, kWhy).error().code(), "invalid_tenant_rule");
  EXPECT_EQ(letters().SetTenant("elsewhere", {.tenant = "t"}, kWhy).error().code(), "unknown_route");
  EXPECT_EQ(letters().SetPaused("elsewhere", true, kWhy).error().code(), "unknown_route");
  EXPECT_THAT(ValueOrThrow(letters().Audit(10)), IsEmpty());
}

TEST_P(DeadLettersContract, TheTrailIsNewestFirst) {
  ValueOrThrow(letters().SetPaused("main", true, {"ann", "maintenance"}));
  ValueOrThrow(letters().SetPaused("main", false, {"bob", "done"}));
  const auto records = ValueOrThrow(letters().Audit(10));
  ASSERT_THAT(records, SizeIs(2));
  EXPECT_EQ(records[0].action, "route.resume");
  EXPECT_EQ(records[0].actor, "bob");
  EXPECT_EQ(records[1].action, "route.pause");
  EXPECT_EQ(records[1].target, "main");
  EXPECT_EQ(records[1].reason, "maintenance");
  EXPECT_GT(records[0].id, records[1].id);
  EXPECT_GE(records[0].at, records[1].at);
  EXPECT_GT(records[1].at, Timestamp{});
  for (const AuditRecord& record : records) {
    EXPECT_NE(record.login, "") << "where it came from is recorded beside what the caller says";
    EXPECT_NE(record.application, "");
  }
  EXPECT_THAT(ValueOrThrow(letters().Audit(1)), SizeIs(1));
}

/// In PostgreSQL operators have a role of their own, which may do all of this and may not see payloads.
TEST(DeadLettersOfPostgres, NeedNoMoreThanTheOperatorsRights) {
  const ScratchDatabase database;
  Migrate(database.url());
  PgSession admin(database.url());
  const std::string user = database.name() + "_operator";
  admin.Exec("CREATE ROLE " + user + " LOGIN; GRANT sealane_operator TO " + user);
  const std::string id = admin.Exec("SELECT sealane.emit(topic => 't', key => 'k', type => 'T', payload => '{}')");
  admin.Exec(
      "INSERT INTO sealane.parked (route, lane, seq, xid, event_id, unit, key, state)"
      " SELECT 'main', lane, seq, xid, event_id, key, key, 'DEAD' FROM sealane.outbox");
  {
    postgres::Options options;
    options.url = database.UrlAs(user);
    const auto letters = ValueOrThrow(postgres::OpenDeadLetters(options));
    EXPECT_EQ(ValueOrThrow(letters->List({})).at(0).type, "T");
    const EventId event = EventId::Parse(id).value();
    EXPECT_EQ(ValueOrThrow(letters->Skip(event, {}, kWhy)), 1);
    EXPECT_EQ(ValueOrThrow(letters->Retry(event, {}, kWhy)), 1);
    EXPECT_EQ(ValueOrThrow(letters->Discard(event, {}, kWhy)), 1);
    ValueOrThrow(letters->SetTenant("main", {.tenant = "t", .paused = true}, kWhy));
    ValueOrThrow(letters->SetPaused("main", true, kWhy));
    EXPECT_THAT(ValueOrThrow(letters->Tenants("main")), SizeIs(1));
    EXPECT_THAT(ValueOrThrow(letters->Audit(10)), SizeIs(5));
  }
  admin.Exec("DROP OWNED BY " + user + "; DROP ROLE " + user);
}

}  // namespace
}  // namespace sealane
