// What C++ and SQL compute separately must be the same bytes, or a C++ service and a SQL client that append for one
// key would meet in different lanes, and uniqueness would have a hole.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "sealane/outbox.hpp"

#include "base/hex.hpp"
#include "core/fingerprint.hpp"
#include "core/lane.hpp"
#include "support/pg_session.hpp"
#include "support/postgres_cluster.hpp"

namespace sealane {
namespace {

using testing::Migrate;
using testing::PgSession;
using testing::ScratchDatabase;

/// Text without NUL from all planes of Unicode, with quotes, backslashes and controls in it.
rc::Gen<std::string> AnyText() {
  const auto code_point =
      rc::gen::oneOf(rc::gen::inRange<char32_t>(1, 0x80), rc::gen::inRange<char32_t>(0x80, 0xd800),
                     rc::gen::inRange<char32_t>(0xe000, 0x110000));
  return rc::gen::map(rc::gen::container<std::u32string>(code_point), [](const std::u32string& points) {
    std::string text;
    for (const char32_t point : points) {
      const auto put = [&](unsigned byte) { text.push_back(static_cast<char>(byte)); };
      if (point < 0x80) {
        put(point);
      } else if (point < 0x800) {
        put(0xc0U | point >> 6), put(0x80U | (point & 0x3fU));
      } else if (point < 0x10000) {
        put(0xe0U | point >> 12), put(0x80U | (point >> 6 & 0x3fU)), put(0x80U | (point & 0x3fU));
      } else {
        put(0xf0U | point >> 18), put(0x80U | (point >> 12 & 0x3fU)), put(0x80U | (point >> 6 & 0x3fU)),
            put(0x80U | (point & 0x3fU));
      }
    }
    return text;
  });
}

class PostgresAgreement : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    database_ = std::make_unique<ScratchDatabase>();
    Migrate(database_->url());
    session_ = std::make_unique<PgSession>(database_->url());
  }
  static void TearDownTestSuite() {
    session_.reset();
    database_.reset();
  }
  static std::string Ask(const std::string& sql, const std::vector<std::string>& parameters) {
    std::vector<const char*> values;
    for (const std::string& parameter : parameters) values.push_back(parameter.c_str());
    PGresult* const result = PQexecParams(session_->get(), sql.c_str(), static_cast<int>(values.size()), nullptr,
                                          values.data(), nullptr, nullptr, 0);
    std::string value =
        PQresultStatus(result) == PGRES_TUPLES_OK ? PQgetvalue(result, 0, 0) : PQresultErrorMessage(result);
    PQclear(result);
    return value;
  }
  static std::string Dashed(const Fingerprint& fingerprint) { return EventId(fingerprint).ToString(); }

  static std::unique_ptr<ScratchDatabase> database_;
  static std::unique_ptr<PgSession> session_;
};
std::unique_ptr<ScratchDatabase> PostgresAgreement::database_;
std::unique_ptr<PgSession> PostgresAgreement::session_;

TEST_F(PostgresAgreement, LaneHashIsTheSameForAnyKey) {
  EXPECT_TRUE(rc::check([] {
    const std::string key = *AnyText();
    RC_ASSERT(Ask("SELECT sealane.lane_hash($1)", {key}) == std::to_string(LaneHash(key)));
  }));
}

TEST_F(PostgresAgreement, FingerprintsAreTheSameForAnyParts) {
  EXPECT_TRUE(rc::check([] {
    Envelope envelope;
    envelope.tenant = *AnyText();
    envelope.type = *AnyText();
    envelope.aggregate = {*AnyText(), *AnyText(), *rc::gen::positive<std::int64_t>()};
    RC_ASSERT(Ask("SELECT sealane.fingerprint('v', $1, $2, $3, $4, $5)",
                  {envelope.tenant, envelope.aggregate.type, envelope.aggregate.id,
                   std::to_string(*envelope.aggregate.version), envelope.type}) ==
              Dashed(FingerprintOfVersion(envelope)));
    const std::string key = *AnyText();
    RC_ASSERT(Ask("SELECT sealane.fingerprint('d', $1, $2)", {envelope.tenant, key}) ==
              Dashed(FingerprintOfDedupKey(envelope.tenant, key)));
    const EventId id = EventIdGenerator::Instance().Next();
    RC_ASSERT(Ask("SELECT sealane.fingerprint('i', $1)", {id.ToString()}) == Dashed(FingerprintOfId(id)));
  }));
}

TEST_F(PostgresAgreement, DedupKeysMeetAcrossLanguages) {
  const Outbox outbox;
  session_->Exec("BEGIN");
  const auto first =
      outbox.Append(session_->get(),
                    {.topic = "t", .key = "k", .type = "T", .payload = "{}", .tenant = "ä\"\\", .dedup_key = "once"});
  ASSERT_TRUE(first) << first.error().ToString();
  EXPECT_EQ(Ask("SELECT sealane.emit(topic => 't', key => 'k', type => 'T', payload => '{}', tenant => $1, dedup_key "
                "=> $2)",
                {"ä\"\\", "once"}),
            first->id.ToString());
  session_->Exec("COMMIT");
  EXPECT_EQ(session_->Count("sealane.outbox"), 1);
}

TEST_F(PostgresAgreement, SqlMadeIdsAreVersionSevenAndGrow) {
  const auto rows = session_->Query("SELECT sealane.uuid_v7() FROM generate_series(1, 2000)");
  std::string last;
  for (const auto& row : rows) {
    const auto id = EventId::Parse(row[0]);
    ASSERT_TRUE(id);
    ASSERT_TRUE(id->CreatedAt()) << row[0];
    EXPECT_EQ(id->bytes()[8] >> 6, 2) << "not an RFC 9562 variant: " << row[0];
    EXPECT_LT(*id->CreatedAt() - SystemClock::Instance().Now(), std::chrono::hours{1});
    // Ordered to the microsecond: the random part decides only between ids of the same one.
    EXPECT_LE(last.substr(0, 18), row[0].substr(0, 18));
    last = row[0];
  }
}

}  // namespace
}  // namespace sealane
