// Protects the choice of a handler: by type and version of the schema, never two for one, and a clear word for what
// is missing, because a missing type and a missing version are treated differently.

#include <array>
#include <limits>

#include <gtest/gtest.h>

#include "sealane/handler.hpp"

#include "inbox/inbox_store.hpp"

namespace sealane {
namespace {

// A handler that is known by what it answers.
Handler Named(std::string name) {
  return [name = std::move(name)](const Envelope&, HandlerTransaction&) { return Decision::Ignore(name); };
}

// For handlers that write nothing.
class NoTransaction final : public HandlerTransaction {
 public:
  Result<std::int64_t> Execute(const std::string&, std::span<const SqlValue>) override { return Unasked(); }
  Result<std::vector<std::vector<std::optional<std::string>>>> Query(const std::string&, std::span<const SqlValue>,
                                                                     std::size_t) override {
    return Unasked();
  }
  Result<std::vector<Appended>> Append(std::span<const NewEntry>) override { return Unasked(); }
  Result<std::int64_t> NextVersion(const AggregateName&) override { return Unasked(); }
  Result<std::int64_t> AdvanceVersion(const AggregateName&, std::int64_t) override { return Unasked(); }
  Result<IdempotencyOutcome> BeginOnce(const IdempotencyClaim&) override { return Unasked(); }
  Status CompleteOnce(const IdempotencyClaim&, const StoredResponse&) override { return Unasked(); }
  Result<EnqueuedTask> EnqueueTask(const NewTask&) override { return Unasked(); }

 private:
  static Error Unasked() { return Error(ErrorKind::kMisuse, "unasked", "there is no transaction"); }
};

// The name of the handler that was found, or what is missing.
std::string Found(const Handlers& handlers, std::string_view type, std::int32_t version) {
  const auto found = handlers.Find(type, version);
  if (found.handler == nullptr) {
    EXPECT_NE(found.missing, Handlers::Missing::kNothing);
    return found.missing == Handlers::Missing::kType ? "no type" : "no version";
  }
  EXPECT_EQ(found.missing, Handlers::Missing::kNothing);
  NoTransaction transaction;
  return (*found.handler)(Envelope{}, transaction).code;
}

TEST(Handlers, FindsTheOneWhoseRangeHasTheVersion) {
  Handlers handlers;
  handlers.On("OrderPlaced", {2, 4}, Named("old"));
  handlers.On("OrderPlaced", {5, 5}, Named("new"));
  handlers.On("OrderPaid", {2, 2}, Named("paid"));
  for (const std::int32_t version : {2, 3, 4}) EXPECT_EQ(Found(handlers, "OrderPlaced", version), "old") << version;
  EXPECT_EQ(Found(handlers, "OrderPlaced", 5), "new");
  EXPECT_EQ(Found(handlers, "OrderPaid", 2), "paid");
}

TEST(Handlers, UnderstandsVersionOneUnlessTold) {
  Handlers handlers;
  handlers.On("OrderPlaced", Named("one"));
  EXPECT_EQ(Found(handlers, "OrderPlaced", 1), "one");
  EXPECT_EQ(Found(handlers, "OrderPlaced", 2), "no version");
}

TEST(Handlers, TakesEveryVersionWithAny) {
  Handlers handlers;
  handlers.On("OrderPlaced", VersionRange::Any(), Named("all"));
  for (const std::int32_t version : {1, 7, std::numeric_limits<std::int32_t>::max()}) {
    EXPECT_EQ(Found(handlers, "OrderPlaced", version), "all") << version;
  }
}

TEST(Handlers, SaysWhetherTheTypeOrTheVersionIsMissing) {
  Handlers handlers;
  EXPECT_EQ(Found(handlers, "OrderPlaced", 1), "no type");
  handlers.On("OrderPlaced", {2, 3}, Named("some"));
  handlers.On("OrderPlaced", {5, 6}, Named("others"));
  for (const std::int32_t version : {1, 4, 7}) EXPECT_EQ(Found(handlers, "OrderPlaced", version), "no version");
  for (const auto* type : {"orderplaced", "OrderPlace", "OrderPlaced2", ""}) {
    EXPECT_EQ(Found(handlers, type, 2), "no type") << type;
  }
}

// Who handles a type names the versions it understands; a new one is not guessed at.
TEST(Handlers, GivesOtherTypesButNoOtherVersionsToTheOneForAny) {
  Handlers handlers;
  handlers.On("OrderPlaced", {1, 2}, Named("placed"));
  handlers.OnAny(Named("any"));
  EXPECT_EQ(Found(handlers, "Unheard", 99), "any");
  EXPECT_EQ(Found(handlers, "OrderPlaced", 1), "placed");
  EXPECT_EQ(Found(handlers, "OrderPlaced", 3), "no version");
}

TEST(HandlersDeathTest, RefusesASecondHandlerForAVersion) {
  for (const VersionRange overlap : {VersionRange{3, 5}, {1, 3}, {5, 9}, {4, 4}, {1, 9}, VersionRange::Any()}) {
    EXPECT_DEATH(
        {
          Handlers handlers;
          handlers.On("OrderPlaced", {3, 5}, Named("first"));
          handlers.On("OrderPlaced", overlap, Named("second"));
        },
        "a version of a type has one handler")
        << overlap.from << " to " << overlap.to;
  }
}

TEST(HandlersDeathTest, RefusesARangeWithoutAVersion) {
  for (const VersionRange empty : {VersionRange{2, 1}, {0, 1}, {-1, -1}}) {
    EXPECT_DEATH(Handlers().On("OrderPlaced", empty, Named("none")), "a range of versions is not empty")
        << empty.from << " to " << empty.to;
  }
}

TEST(Handlers, MayStandSideBySideWithoutAGap) {
  Handlers handlers;
  handlers.On("OrderPlaced", {3, 5}, Named("middle"));
  handlers.On("OrderPlaced", {1, 2}, Named("before"));
  handlers.On("OrderPlaced", {6, std::numeric_limits<std::int32_t>::max()}, Named("after"));
  handlers.On("OrderPaid", {3, 5}, Named("another type"));
  EXPECT_EQ(Found(handlers, "OrderPlaced", 2), "before");
  EXPECT_EQ(Found(handlers, "OrderPlaced", 3), "middle");
  EXPECT_EQ(Found(handlers, "OrderPlaced", 5), "middle");
  EXPECT_EQ(Found(handlers, "OrderPlaced", 6), "after");
}

TEST(Decision, CarriesWhatItWasMadeWith) {
  EXPECT_EQ(Decision::Done().kind, Decision::Kind::kDone);
  EXPECT_EQ(Decision::Ignore().kind, Decision::Kind::kIgnore);
  EXPECT_EQ(Decision::Ignore().code, "ignored");
  const Decision later = Decision::RetryLater("closed", "the shop is closed", std::chrono::milliseconds{5});
  EXPECT_EQ(later.kind, Decision::Kind::kRetryLater);
  EXPECT_EQ(later.code, "closed");
  EXPECT_EQ(later.message, "the shop is closed");
  EXPECT_EQ(later.retry_after, std::chrono::milliseconds{5});
  EXPECT_FALSE(Decision::RetryLater("a", "b").retry_after);
  const Decision never = Decision::Reject("unknown_currency", "XXX");
  EXPECT_EQ(never.kind, Decision::Kind::kReject);
  EXPECT_EQ(never.code, "unknown_currency");
}

// ---- names that stand in tables and configurations ----

TEST(InboxMode, HasTheNamesOfTheConfiguration) {
  for (const auto& [mode, name] :
       {std::pair{InboxMode::kRecord, "record"}, std::pair{InboxMode::kOffsets, "offsets"}}) {
    EXPECT_EQ(ToString(mode), name);
    EXPECT_EQ(ParseInboxMode(name), mode);
  }
  for (const auto* other : {"", "Record", "offset", "record "}) EXPECT_FALSE(ParseInboxMode(other)) << other;
}

TEST(InboxState, HasTheNamesOfTheTables) {
  constexpr std::array<std::pair<InboxState, std::string_view>, 7> kNames = {{{InboxState::kProcessed, "PROCESSED"},
                                                                              {InboxState::kIgnored, "IGNORED"},
                                                                              {InboxState::kReceived, "RECEIVED"},
                                                                              {InboxState::kGap, "GAP"},
                                                                              {InboxState::kFailed, "FAILED"},
                                                                              {InboxState::kDead, "DEAD"},
                                                                              {InboxState::kSkipped, "SKIPPED"}}};
  for (const auto& [state, name] : kNames) {
    EXPECT_EQ(ToString(state), name);
    EXPECT_EQ(ParseInboxState(name), state);
  }
  for (const auto* other : {"", "processed", "DEAD ", "GAPS"}) EXPECT_FALSE(ParseInboxState(other)) << other;
}

}  // namespace
}  // namespace sealane
