// Least privilege: what each role may do is listed here, and everything else on every object must be refused.

#include <functional>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sealane/outbox.hpp"

#include "postgres/postgres_store.hpp"
#include "support/inbox_fixture.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"
#include "support/sample_events.hpp"
#include "support/task_fixture.hpp"

namespace sealane {
namespace {

using testing::Migrate;
using testing::PgSession;
using testing::ScratchDatabase;

class PostgresRoles : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    database_ = std::make_unique<ScratchDatabase>();
    Migrate(database_->url());
    admin_ = std::make_unique<PgSession>(database_->url());
    for (const std::string role : {"writer", "relay", "operator", "consumer", "dispatcher"}) {
      user_.push_back(fmt::format("{}_{}", database_->name(), role));
      admin_->Exec(fmt::format("CREATE ROLE {} LOGIN; GRANT sealane_{} TO {}", user_.back(), role, user_.back()));
    }
    admin_->Exec("SELECT sealane.emit(topic => 't', key => 'k', type => 'T', payload => '{\"card\":4111}')");
  }
  static void TearDownTestSuite() {
    for (const std::string& user : user_) admin_->Exec(fmt::format("DROP OWNED BY {0}; DROP ROLE {0}", user));
    admin_.reset();
    database_.reset();
    user_.clear();
  }
  static std::string UrlOf(std::size_t role) { return database_->UrlAs(user_[role]); }

  static constexpr std::size_t kWriter = 0;
  static constexpr std::size_t kRelay = 1;
  static constexpr std::size_t kOperator = 2;
  static constexpr std::size_t kConsumer = 3;
  static constexpr std::size_t kDispatcher = 4;
  static std::unique_ptr<ScratchDatabase> database_;
  static std::unique_ptr<PgSession> admin_;
  static std::vector<std::string> user_;
};
std::unique_ptr<ScratchDatabase> PostgresRoles::database_;
std::unique_ptr<PgSession> PostgresRoles::admin_;
std::vector<std::string> PostgresRoles::user_;

TEST_F(PostgresRoles, WriterAppendsThroughTheLibraryAndThroughSql) {
  PgSession writer(UrlOf(kWriter));
  writer.Exec("BEGIN");
  const auto appended = Outbox().Append(writer.get(), {.topic = "t", .key = "k", .type = "T", .payload = "{}"});
  ASSERT_TRUE(appended) << appended.error().ToString();
  writer.Exec("SELECT sealane.emit(topic => 't', key => 'k', type => 'T', payload => '{}')");
  writer.Exec("SELECT sealane.next_version('t', 'order', 'o-1')");
  writer.Exec("SELECT * FROM sealane.idempotency_begin('t', 'k', 'h')");
  writer.Exec("ROLLBACK");
}

TEST_F(PostgresRoles, WriterCannotReadWhatOthersWrote) {
  PgSession writer(UrlOf(kWriter));
  EXPECT_EQ(writer.Try("SELECT * FROM sealane.outbox"), "42501");
  EXPECT_EQ(writer.Try("SELECT * FROM sealane.outbox_status"), "42501");
  EXPECT_EQ(writer.Try("SELECT * FROM sealane.idempotency"), "42501");
  writer.Exec("BEGIN");
  const auto appended =
      Outbox().Append({writer.get(), "sealane"}, {.topic = "t", .key = "k", .type = "T", .payload = "{}"});
  EXPECT_TRUE(appended);
  writer.Exec("ROLLBACK");
}

TEST_F(PostgresRoles, WriterCannotChooseItsPlaceInTheLog) {
  PgSession writer(UrlOf(kWriter));
  EXPECT_EQ(writer.Try("INSERT INTO sealane.outbox (seq) OVERRIDING SYSTEM VALUE VALUES (1)"), "42501");
  EXPECT_EQ(writer.Try("SELECT setval('sealane.outbox_seq_seq', 1)"), "42501");
}

// A writer that goes around the library can spoil its own events, but not the log for everybody else.
TEST_F(PostgresRoles, WriterCannotPutInWhatReadersCannotRead) {
  const auto call = [](const std::string& lane_hash, const std::string& headers, const std::string& occurred_at,
                       const std::string& hash, const std::string& payload) {
    return fmt::format(
        "SELECT sealane.append_one(gen_random_uuid(), {}, '', 'event', 't', 'k', 'T', 1, null, null, null, null, "
        "null, null, "
        "null, null, null, 'text/plain', {}, {}, null, {}, {})",
        lane_hash, headers, occurred_at, payload, hash);
  };
  const auto batch = [](const std::string& lane_hash, const std::string& headers, const std::string& occurred_at,
                        const std::string& hash, const std::string& payload) {
    return fmt::format(
        "SELECT * FROM sealane.append_batch(ARRAY[gen_random_uuid()], ARRAY[{}], ARRAY[''], ARRAY['event'], "
        "ARRAY['t'], "
        "ARRAY['k'], ARRAY['T'], ARRAY[1], null, null, null, null, null, null, null, null, null, "
        "ARRAY['text/plain'], "
        "ARRAY[{}], ARRAY[{}], null, ARRAY[{}], ARRAY[{}])",
        lane_hash, headers, occurred_at, payload, hash);
  };
  PgSession writer(UrlOf(kWriter));
  const std::string lane = "sealane.lane_hash('k')";
  const std::string good_hash = "sha256('x')";
  const std::string large = "convert_to(repeat('x', 16777217), 'UTF8')";
  const auto refused = ::testing::AnyOf("23514", "23502");
  for (const auto& make : {std::function(call), std::function(batch)}) {
    EXPECT_EQ(writer.Try("BEGIN; " + make(lane, "'{}'::json", "now()", good_hash, "'x'::bytea") + "; ROLLBACK"), "");
    EXPECT_THAT(writer.Try(make("-5", "'{}'::json", "now()", good_hash, "'x'::bytea")), refused)
        << "a lane nobody reads";
    EXPECT_THAT(writer.Try(make("65536", "'{}'::json", "now()", good_hash, "'x'::bytea")), refused);
    EXPECT_THAT(writer.Try(make(lane, "'[1]'::json", "now()", good_hash, "'x'::bytea")), refused);
    EXPECT_THAT(writer.Try(make(lane, "'{\"a\":1}'::json", "now()", good_hash, "'x'::bytea")), refused);
    EXPECT_THAT(writer.Try(make(lane, "'{}'::json", "'infinity'::timestamptz", good_hash, "'x'::bytea")), refused);
    EXPECT_THAT(writer.Try(make(lane, "'{}'::json", "now()", "'x'::bytea", "'x'::bytea")), refused) << "no SHA-256";
    EXPECT_THAT(writer.Try(make(lane, "'{}'::json", "now()", good_hash, large)), refused);
  }
}

TEST_F(PostgresRoles, WriterCannotReadAnotherRequestsResponse) {
  PgSession writer(UrlOf(kWriter));
  writer.Exec(
      "SELECT sealane.idempotency_begin('victim', 'k', 'h'); "
      "SELECT sealane.idempotency_complete('victim', 'k', 'h', 200, 'secret')");
  EXPECT_EQ(writer.Try("SELECT * FROM sealane.idempotency_begin('victim', 'k', null)"), "23514");
  EXPECT_EQ(writer.Try("SELECT * FROM sealane.idempotency_begin('victim', 'k', '')"), "23514");
  EXPECT_EQ(writer.Exec("SELECT state FROM sealane.idempotency_begin('victim', 'k', 'guess')"), "conflict");
  EXPECT_EQ(writer.Try("SELECT * FROM sealane.idempotency_begin('victim', 'n', 'h', '-1 day')"), "23514");
}

TEST_F(PostgresRoles, OperatorUsesTheStoreWithoutPayloads) {
  auto store = postgres::OpenOutboxStore({.url = UrlOf(kOperator)});
  ASSERT_TRUE(store) << store.error().ToString();
  const auto listed = (*store)->ListMessages({.key = "k"});
  ASSERT_TRUE(listed) << listed.error().ToString();
  ASSERT_FALSE(listed->empty());
  const auto found = (*store)->FindMessage(listed->front().envelope.id);
  ASSERT_TRUE(found && *found) << found.error().ToString();
  EXPECT_FALSE((*found)->payload_loaded);
  EXPECT_EQ((*found)->envelope.payload, "");
}

TEST_F(PostgresRoles, OperatorSeesTheLifeOfEventsButNoPayload) {
  PgSession op(UrlOf(kOperator));
  EXPECT_GE(op.Count("sealane.outbox_status"), 1);
  EXPECT_EQ(op.Exec("SELECT key FROM sealane.outbox LIMIT 1"), "k");
  EXPECT_EQ(op.Try("SELECT payload FROM sealane.outbox"), "42501");
  EXPECT_EQ(op.Try("SELECT sealane.emit(topic => 't', key => 'k', type => 'T', payload => '{}')"), "42501");
}

TEST_F(PostgresRoles, OperatorSeesHowFarTheRoutesAre) {
  const auto desk = ValueOrThrow(postgres::OpenRouteDesk({.url = UrlOf(kOperator)}));
  const RouteReport report = ValueOrThrow(desk->Look());
  ASSERT_FALSE(report.routes.empty());
  EXPECT_GT(report.seq_high, 0);
  const auto writer = postgres::OpenRouteDesk({.url = UrlOf(kWriter)});
  const auto refused = writer ? (*writer)->Look() : Result<RouteReport>(writer.error());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), "not_permitted");
}

TEST_F(PostgresRoles, RelayReadsTheLogAndWritesOnlyProgress) {
  PgSession relay(UrlOf(kRelay));
  EXPECT_GE(relay.Count("sealane.outbox"), 1);
  relay.Exec(
      "BEGIN; UPDATE sealane.lane_state SET owner = 'r', epoch = epoch + 1 WHERE lane = 0; "
      "INSERT INTO sealane.tick (seq_high, snapshot) VALUES (1, pg_current_snapshot()); ROLLBACK");
  EXPECT_EQ(relay.Try("UPDATE sealane.lane_state SET lane = 1"), "42501");
  EXPECT_EQ(relay.Try("DELETE FROM sealane.outbox"), "42501");
  EXPECT_EQ(relay.Try("SELECT sealane.emit(topic => 't', key => 'k', type => 'T', payload => '{}')"), "42501");
}

// Everything a relay does, as the role that migrations make for it.
TEST_F(PostgresRoles, RelayRoleIsEnoughForARelay) {
  const postgres::Options options{.url = UrlOf(kRelay)};
  const auto log = ValueOrThrow(postgres::OpenOutboxLog(options, "webhooks", "relay-1"));
  ValueOrThrow(log->Beat(std::chrono::seconds{10}));
  const std::vector<LaneGrant> grants = ValueOrThrow(log->Claim(1000, std::chrono::seconds{10}));
  ASSERT_EQ(grants.size(), 64U);
  std::vector<Lane> lanes;
  std::vector<LaneLease> leases;
  for (const LaneGrant& grant : grants) {
    lanes.push_back(grant.lease.lane);
    leases.push_back(grant.lease);
  }
  const Horizon horizon = ValueOrThrow(log->Look());
  const Position from = grants.front().positions.main;
  const Page page = ValueOrThrow(log->Read({.lanes = lanes, .from = &from, .horizon = &horizon}));
  ASSERT_FALSE(page.entries.empty());
  const LogEntry& entry = page.entries.front();
  SettleRequest request;
  for (const LaneLease& lease : leases)
    request.progress.push_back({.lease = lease, .positions = {.main = page.next}});
  const LaneLease lease = leases.at(static_cast<std::size_t>(entry.lane));
  ParkChange& park = request.park.emplace_back();
  park.lease = lease;
  park.seq = entry.seq;
  park.place = entry.place;
  park.id = entry.event.id;
  park.unit = "u";
  park.appended_at = entry.appended_at;
  EXPECT_TRUE(ValueOrThrow(log->Settle(request)).fenced.empty());
  EXPECT_EQ(ValueOrThrow(log->BlockedUnits(leases)).size(), 1U);
  const std::vector<DueUnit> due = {{lease, "u"}};
  EXPECT_EQ(ValueOrThrow(log->ReadParked(due, 10, 1'000'000)).page.entries.size(), 1U);
  EXPECT_TRUE(ValueOrThrow(log->TakeChanges(leases, 10)).empty());
  request.delay = {{.lease = lease,
                    .seq = entry.seq,
                    .place = entry.place,
                    .id = entry.event.id,
                    .tenant = {},
                    .appended_at = entry.appended_at,
                    .due_at = entry.appended_at}};
  ValueOrThrow(log->Settle(request));
  ValueOrThrow(log->ReadDelayed({.leases = leases}));
  request.delay.clear();
  request.undelay = {{.lease = lease, .seq = entry.seq}};
  request.park.clear();
  request.unpark = {{.lease = lease, .seq = entry.seq}};
  ValueOrThrow(log->Settle(request));
  ValueOrThrow(log->Tend());
  // A backlog is read in stretches, for which block ranges are summarised with the owner's rights.
  const Page small =
      ValueOrThrow(log->Read({.lanes = lanes, .from = &from, .horizon = &horizon, .entries_max = 1, .bytes_max = 1}));
  EXPECT_FALSE(small.caught_up && small.entries.size() > 1);
  EXPECT_TRUE(log->Leave());
}

// Everything a consumer does, as the role that migrations make for it, with an effect in a table of its own.
TEST_F(PostgresRoles, ConsumerRoleIsEnoughForAConsumer) {
  admin_->Exec(fmt::format("CREATE TABLE public.effect (what text); GRANT INSERT ON public.effect TO {}", user_[3]));
  const postgres::Options options{.url = UrlOf(kConsumer)};
  for (const InboxMode mode : {InboxMode::kRecord, InboxMode::kOffsets}) {
    const auto store = ValueOrThrow(postgres::OpenInboxStore(options, std::string(ToString(mode)), mode));
    const Partition partition{"orders", 0};
    const auto attached = ValueOrThrow(store->Attach({&partition, 1}, 10));
    ASSERT_EQ(attached.size(), 1U);
    ASSERT_TRUE(store->Suspect(attached.front(), 7));
    ASSERT_TRUE(store->Calm(attached.front()));

    const Envelope envelope = testing::SampleEntry("k").envelope;
    const ReceivedMessage message{
        .partition = partition, .offset = 7, .published_at = {}, .key = "k", .value = "v", .headers = {}};
    const Arrival arrival{&message, &envelope, envelope.id, envelope.payload_hash, SystemClock::Instance().Now(),
                          "k"};
    BatchRequest request{.arrivals = {&arrival, 1}, .guard_versions = true};
    if (mode == InboxMode::kOffsets) request.progress = {partition, attached.front().epoch, 7, 8, 6};
    auto batch = ValueOrThrow(store->Open(request));
    ValueOrThrow(batch->Execute("INSERT INTO public.effect VALUES ('x')"));
    ValueOrThrow(batch->EnsureOnce("payment", ToString(mode)));
    Outcome failed;
    failed.kind = Outcome::Kind::kParked;
    failed.park = {.state = InboxState::kFailed, .attempts = 1, .error_code = "e", .error_message = "m"};
    ValueOrThrow(batch->Finish({&failed, 1}));

    EXPECT_THAT(ValueOrThrow(store->DueUnits(false, 10)), ::testing::ElementsAre("k"));
    auto retry = ValueOrThrow(store->OpenRetry("k", false, std::chrono::seconds{1}));
    ASSERT_TRUE(retry);
    Outcome done;
    done.kind = Outcome::Kind::kProcessed;
    done.version_seen = 1;
    ValueOrThrow(retry->batch->Finish({&done, 1}));
    EXPECT_EQ(ValueOrThrow(store->Count()).parked, 0);
    ValueOrThrow(store->Tend());
    ValueOrThrow(store->Prune(SystemClock::Instance().Now(), 10));
    ValueOrThrow(store->Detach(attached));
  }
  PgSession consumer(UrlOf(kConsumer));
  EXPECT_EQ(consumer.Try("SELECT * FROM sealane.inbox_parked"), "42501");
  EXPECT_EQ(consumer.Try("DELETE FROM sealane.once"), "42501");
  EXPECT_EQ(consumer.Try("SELECT sealane.once_prune('payment', now(), 1)"), "42501");
  EXPECT_EQ(consumer.Try("UPDATE sealane.inbox SET state = 'PROCESSED'"), "42501");
  EXPECT_EQ(consumer.Try("SELECT sealane.emit(topic => 't', key => 'k', type => 'T', payload => '{}')"), "42501");
}

TEST_F(PostgresRoles, OperatorDecidesAboutTheInboxWithoutSeeingMessages) {
  PgSession op(UrlOf(kOperator));
  EXPECT_EQ(op.Try("SELECT event_id, state, error_message FROM sealane.inbox_parked"), "");
  EXPECT_EQ(op.Try("SELECT message_value FROM sealane.inbox_parked"), "42501");
  EXPECT_EQ(op.Try("DELETE FROM sealane.inbox"), "42501");
  EXPECT_EQ(op.Try("SELECT sealane.once_prune('payment', now(), 1)"), "");
}

TEST_F(PostgresRoles, OperatorWorksAtTheInboxDesk) {
  const auto store =
      ValueOrThrow(postgres::OpenInboxStore({.url = UrlOf(kConsumer)}, "desk_user", InboxMode::kRecord));
  const std::vector<testing::Delivery> deliveries = {testing::VersionOf("o", 1, 1), testing::VersionOf("o", 2, 2)};
  const std::vector<Arrival> arrivals = testing::ArrivalsOf(deliveries);
  const std::vector<Outcome> outcomes = {testing::Died(1), testing::Waits()};
  ValueOrThrow(ValueOrThrow(store->Open({.arrivals = arrivals, .guard_versions = true}))->Finish(outcomes));

  const auto desk = ValueOrThrow(postgres::OpenInboxDesk({.url = UrlOf(kOperator)}));
  EXPECT_FALSE(ValueOrThrow(desk->Summaries()).empty());
  EXPECT_EQ(ValueOrThrow(desk->List({.consumer = "desk_user"})).size(), 2U);
  EXPECT_EQ(ValueOrThrow(desk->Parked({.consumer = "desk_user"})).size(), 1U);
  EXPECT_EQ(ValueOrThrow(desk->Retry("desk_user", deliveries[0].id, {"ann", "because"})), 1);
  EXPECT_EQ(ValueOrThrow(desk->Skip("desk_user", deliveries[0].id, {"ann", "because"})), 1);
  const auto retry = ValueOrThrow(store->OpenRetry("o", true, std::chrono::seconds{60}));
  ASSERT_TRUE(retry.has_value());
  EXPECT_EQ(retry->version_seen, 1);
}

TEST_F(PostgresRoles, WritersAndConsumersEnqueueTasksAndCannotReadThem) {
  for (const std::size_t role : {kWriter, kConsumer}) {
    PgSession session(UrlOf(role));
    session.Exec("BEGIN");
    TransactionRef reference(session.get());
    const auto enqueued = reference->EnqueueTask(testing::ForTarget(testing::SampleTask(), "nobody"));
    ASSERT_TRUE(enqueued) << enqueued.error().ToString();
    session.Exec("SELECT sealane.enqueue_task('nobody', '/x', 'k', '{}'::text)");
    session.Exec("ROLLBACK");
    EXPECT_EQ(session.Try("SELECT * FROM sealane.task"), "42501");
    EXPECT_EQ(session.Try("SELECT * FROM sealane.task_attempt"), "42501");
    EXPECT_EQ(session.Try("SELECT * FROM sealane.task_claim('x', '{nobody}', '{1}', 1, 1000)"), "42501");
    EXPECT_EQ(session.Try("SELECT sealane.operator_task_pause('nobody', true, 'ann', 'because')"), "42501");
    EXPECT_EQ(session.Try("SELECT sealane.task_discard(gen_random_uuid())"), "42501");
  }
}

// Everything a dispatcher does, as the role that migrations make for it.
TEST_F(PostgresRoles, DispatcherRoleIsEnoughForADispatcherAndForNothingElse) {
  admin_->Exec(
      "SELECT sealane.enqueue_task('dispatched', '/x', 'a', '{}'::text), "
      "sealane.enqueue_task('dispatched', '/x', 'b', '{}'::text, order_key => 'o'), "
      "sealane.enqueue_task('dispatched', '/x', 'c', '{}'::text, order_key => 'o')");
  const auto store = ValueOrThrow(postgres::OpenTaskStore({.url = UrlOf(kDispatcher)}));
  const TaskClaim claim{.owner = "host-1", .targets = {"dispatched"}, .limit = 10, .lease = std::chrono::seconds{60}};
  ValueOrThrow(store->Release(ValueOrThrow(store->Claim(claim))));
  const std::vector<ClaimedTask> claimed = ValueOrThrow(store->Claim(claim));
  ASSERT_EQ(claimed.size(), 2U);
  for (const ClaimedTask& task : claimed) {
    TaskStep step = testing::Succeed();
    step.event = testing::SampleEntry("k");
    step.event->dedup_key = task.task.idempotency_key;
    ValueOrThrow(store->Finish(task, testing::SucceededReport(), step));
    EXPECT_EQ(store->Finish(task, testing::SucceededReport(), step).error().code(), "task_fenced");
  }
  EXPECT_TRUE(ValueOrThrow(store->Outlook(std::vector<std::string>{"dispatched"})).at(0).due_in.has_value());
  ValueOrThrow(store->ReportOutage("host-1", "dispatched", TargetOutage{.code = "down"}));
  ValueOrThrow(store->ReportOutage("host-1", "dispatched", std::nullopt));
  EXPECT_GE(ValueOrThrow(store->Count()).pending, 1);
  ValueOrThrow(store->Prune(std::vector<std::string>{"billing"}, std::chrono::milliseconds{0}, 1));

  PgSession dispatcher(UrlOf(kDispatcher));
  EXPECT_EQ(dispatcher.Try("SELECT * FROM sealane.task"), "42501");
  EXPECT_EQ(dispatcher.Try("SELECT sealane.enqueue_task('dispatched', '/x', 'k', '{}'::text)"), "42501");
  EXPECT_EQ(dispatcher.Try("SELECT sealane.task_discard(gen_random_uuid())"), "42501");
  EXPECT_EQ(dispatcher.Try("SELECT sealane.task_wake('', 'dispatched', 'o')"), "42501");
  EXPECT_EQ(dispatcher.Try("SELECT sealane.operator_task_pause('dispatched', true, 'ann', 'because')"), "42501");
  EXPECT_EQ(dispatcher.Try("DELETE FROM sealane.task_pause"), "42501");
}

TEST_F(PostgresRoles, OperatorWorksAtTheTaskDesk) {
  admin_->Exec("SELECT sealane.enqueue_task('desk', '/x', 'a', '{}'::text, order_key => 'o')");
  const auto store = ValueOrThrow(postgres::OpenTaskStore({.url = UrlOf(kDispatcher)}));
  const std::vector<ClaimedTask> claimed = ValueOrThrow(
      store->Claim({.owner = "host-1", .targets = {"desk"}, .limit = 1, .lease = std::chrono::seconds{60}}));
  ASSERT_EQ(claimed.size(), 1U);
  ValueOrThrow(store->Finish(claimed[0], testing::UnknownReport(), testing::Die()));

  const auto desk = ValueOrThrow(postgres::OpenTaskDesk({.url = UrlOf(kOperator)}));
  EXPECT_EQ(ValueOrThrow(desk->List({.target = "desk"})).size(), 1U);
  EXPECT_EQ(ValueOrThrow(desk->Find(claimed[0].id))->task.request, "{}");
  EXPECT_EQ(ValueOrThrow(desk->Retry(TaskFilter{.target = "desk"}, {"ann", "because"})), 1);
  EXPECT_EQ(ValueOrThrow(desk->Discard(claimed[0].id, {"ann", "because"})), 1);
  EXPECT_EQ(ValueOrThrow(desk->Pause("desk", false, {"ann", "because"})), PauseOutcome::kPaused);
  EXPECT_EQ(ValueOrThrow(desk->Targets()).at(0).state(), "paused");
  EXPECT_TRUE(ValueOrThrow(desk->Resume("desk", {"ann", "because"})));
  PgSession op(UrlOf(kOperator));
  EXPECT_EQ(op.Try("INSERT INTO sealane.task_pause (target, actor, reason) VALUES ('desk', 'x', 'x')"), "42501");
  EXPECT_EQ(op.Try("DELETE FROM sealane.task"), "42501");
  EXPECT_EQ(op.Try("UPDATE sealane.task SET request = ''"), "42501");
}

// Asks the server's own privilege tables for every role x object x verb and compares with the list of what is meant
// to be allowed; a grant that nobody wrote down here fails the test.
TEST_F(PostgresRoles, NothingIsAllowedThatIsNotListed) {
  const std::set<std::string> allowed = {"writer SELECT migration",
                                         "relay SELECT outbox",
                                         "relay SELECT tick",
                                         "relay SELECT route",
                                         "relay SELECT lane_state",
                                         "relay SELECT log_server",
                                         "relay SELECT settlement",
                                         "relay SELECT parked",
                                         "relay SELECT rerouted",
                                         "relay SELECT outbox_status",
                                         "relay SELECT setting",
                                         "relay SELECT migration",
                                         "relay INSERT tick",
                                         "relay INSERT settlement",
                                         "relay INSERT parked",
                                         "relay UPDATE parked",
                                         "relay DELETE parked",
                                         "relay DELETE tick",
                                         "relay DELETE settlement",
                                         "operator SELECT outbox_status",
                                         "operator SELECT tick",
                                         "operator SELECT route",
                                         "operator SELECT lane_state",
                                         "operator SELECT log_server",
                                         "operator SELECT settlement",
                                         "operator SELECT parked",
                                         "operator SELECT rerouted",
                                         "operator SELECT setting",
                                         "operator SELECT migration",
                                         "relay SELECT relay_member",
                                         "relay INSERT relay_member",
                                         "relay UPDATE relay_member",
                                         "relay DELETE relay_member",
                                         "relay SELECT tenant_rule",
                                         "operator SELECT relay_member",
                                         "operator SELECT tenant_rule",
                                         "operator SELECT audit",
                                         "operator SELECT inbox",
                                         "operator SELECT inbox_consumer",
                                         "operator SELECT consumer_grant",
                                         "operator SELECT inbox_version",
                                         "operator SELECT inbox_progress",
                                         "operator SELECT task",
                                         "operator SELECT task_attempt",
                                         "operator SELECT task_outage",
                                         "operator SELECT task_pause",
                                         "operator SELECT delayed",
                                         "operator SELECT inbox_order_key",
                                         "relay SELECT delayed",
                                         "relay INSERT delayed",
                                         "relay DELETE delayed",
                                         "relay SELECT parked_change",
                                         "relay UPDATE parked_change",
                                         "relay DELETE parked_change",
                                         "consumer SELECT migration",
                                         "dispatcher SELECT migration"};
  std::set<std::string> found;
  const auto rows = admin_->Query(
      "SELECT role, verb, c.relname FROM unnest(ARRAY['writer','relay','operator','consumer','dispatcher','nobody']) "
      "role, "
      "unnest(ARRAY['SELECT','INSERT','UPDATE','DELETE','TRUNCATE','REFERENCES','TRIGGER']) verb, pg_class c "
      "WHERE c.relnamespace = 'sealane'::regnamespace AND c.relkind IN ('r','p','v') "
      "AND CASE WHEN role = 'nobody' THEN EXISTS (SELECT FROM aclexplode(c.relacl) a WHERE a.grantee = 0 "
      "AND a.privilege_type = verb) ELSE has_table_privilege('sealane_' || role, c.oid, verb) END");
  for (const auto& row : rows) found.insert(row[0] + " " + row[1] + " " + row[2]);
  EXPECT_EQ(found, allowed);

  const int checks =
      std::stoi(admin_->Exec("SELECT 6 * 7 * count(*) FROM pg_class c WHERE c.relnamespace = 'sealane'::regnamespace "
                             "AND c.relkind IN ('r','p','v')"));
  EXPECT_GE(checks, 300);
}

TEST_F(PostgresRoles, FunctionsAreNotOpenToThePublic) {
  EXPECT_EQ(admin_->Exec("SELECT count(*) FROM pg_proc p WHERE p.pronamespace = 'sealane'::regnamespace AND "
                         "(p.proacl IS NULL OR EXISTS (SELECT FROM aclexplode(p.proacl) a WHERE a.grantee = 0))"),
            "0");
  // A function with its owner's rights and an open search path can be made to run somebody else's code.
  EXPECT_EQ(
      admin_->Exec("SELECT count(*) FROM pg_proc p WHERE p.pronamespace = 'sealane'::regnamespace AND p.prosecdef "
                   "AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (p.proconfig), false)"),
      "0");
}

TEST_F(PostgresRoles, MigrationWithoutRolesMakesNone) {
  const std::string schema = "no_roles_" + database_->name();
  auto migrator = postgres::OpenMigrator({.url = database_->url(), .schema = schema, .create_roles = false});
  ASSERT_TRUE(migrator);
  ASSERT_TRUE((*migrator)->Up());
  EXPECT_EQ(admin_->Count(fmt::format("pg_roles WHERE rolname LIKE '{}%'", schema)), 0);
}

}  // namespace
}  // namespace sealane
