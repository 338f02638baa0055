#include "doctor/judgement.hpp"

#include <charconv>
#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace sealane::cli {
namespace {

using enum Finding::Level;
using std::chrono::milliseconds;

constexpr std::int32_t kOldestServer = 130'000;

int NumberAt(std::string_view& text) {
  int number = 0;
  const auto [rest, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  if (text.starts_with('.')) text.remove_prefix(1);
  return failure == std::errc{} ? number : 0;
}

void JudgeServer(const std::string& subject, const postgres::DoctorFacts& facts, std::vector<Finding>& findings) {
  findings.push_back({kGood,
                      "reachable",
                      subject,
                      fmt::format("PostgreSQL {} answers", facts.server_version),
                      fmt::format("user {}", facts.user),
                      {}});
  if (facts.server_number < kOldestServer) {
    findings.push_back({kWrong, "server_too_old", subject, "this PostgreSQL is older than Sealane works with",
                        fmt::format("version {}", facts.server_version),
                        "upgrade the server to PostgreSQL 13 or newer"});
  }
  if (facts.in_recovery) {
    findings.push_back({kWrong, "store_read_only", subject, "this server is a standby: nothing can be written",
                        "pg_is_in_recovery() is true",
                        "name the primary in store.url, or add target_session_attrs=read-write"});
  }
  if (!facts.fsync) {
    findings.push_back({kWrong, "fsync_off", subject, "committed events can be lost when the machine crashes",
                        "fsync = off", "set fsync = on in postgresql.conf"});
  }
  if (!facts.synchronous_commit) {
    findings.push_back({kNotice, "commits_not_synchronous", subject,
                        "a crash of the server can undo the last commits, their events included",
                        fmt::format("synchronous_commit = off for user {}", facts.user),
                        "set synchronous_commit = on where a commit must be final"});
  }
  if (!facts.autovacuum) {
    findings.push_back({kNotice, "autovacuum_off", subject, "nobody clears the tables up, and they grow",
                        "autovacuum = off", "set autovacuum = on in postgresql.conf"});
  }
  if (facts.connections_max > 0 && facts.connections * 10 > facts.connections_max * 9) {
    findings.push_back({kNotice, "connections_run_out", subject, "the server has hardly any connections left",
                        fmt::format("{} of {} are taken", facts.connections, facts.connections_max),
                        "raise max_connections, or put a pooler in front of the applications"});
  }
  constexpr milliseconds kSmall{1'000};
  if (facts.clock_difference > kSmall || facts.clock_difference < -kSmall) {
    findings.push_back({kNotice, "clock_difference", subject, "the server's clock and this machine's disagree",
                        fmt::format("{} ms", facts.clock_difference.count()),
                        "let both follow NTP; leases run by the server's clock, latencies are shown wrong"});
  }
}

void JudgeLog(const std::string& subject, const postgres::DoctorFacts& facts, std::vector<Finding>& findings) {
  if (facts.sequence_cache != 1) {
    findings.push_back({kWrong, "sequence_cached", subject, "events of one key can be read in the wrong order",
                        fmt::format("the sequence of outbox.seq has CACHE {}", facts.sequence_cache),
                        fmt::format("alter sequence {}.outbox_seq_seq cache 1", facts.schema)});
  }
  if (!facts.xid_before_seq) {
    findings.push_back(
        {kWrong, "seq_default_changed", subject, "a relay that reads a backlog can miss events",
         "the default of outbox.seq does not take the transaction's number before it draws from the sequence",
         fmt::format("alter table {0}.outbox alter seq set default case when pg_current_xact_id() <> '0'::xid8 then "
                     "nextval('{0}.outbox_seq_seq') end",
                     facts.schema)});
  }
  if (facts.home != facts.here) {
    findings.push_back(
        {kWrong, "another_server", subject,
         "the outbox was moved here from another server, and nothing is published until its positions fit",
         fmt::format("positions of cluster {}, this is cluster {}", facts.home, facts.here),
         "sealane route rebase --dry-run --reason \"restored\""});
  } else if (facts.positions_ahead) {
    findings.push_back({kWrong, "position_ahead", subject, "the server went back behind what relays have published",
                        "a position of lane_state lies ahead of the server",
                        "sealane route rebase --dry-run --reason \"the server went back\""});
  }
  if (facts.sequence_behind) {
    findings.push_back(
        {kWrong, "sequence_behind", subject, "new events cannot be told from those that are published",
         fmt::format("the sequence {}.outbox_seq_seq stands before them", facts.schema),
         fmt::format("select setval('{0}.outbox_seq_seq', greatest((select max(seq) from {0}.outbox), "
                     "(select greatest(max(cursor_high), max(window_high)) from {0}.lane_state)) + 1000)",
                     facts.schema)});
  }
  if (facts.default_partition_used) {
    findings.push_back({kNotice, "default_partition_used", subject, "events lie in the partition of last resort",
                        "outbox_default has rows or had some", "keep a relay running: it makes partitions ahead"});
  } else if (facts.days_ahead < 2) {
    findings.push_back({facts.days_ahead < 1 ? kWrong : kNotice, "partitions_run_out", subject,
                        "there are hardly any partitions for the days to come",
                        fmt::format("{} days ahead", facts.days_ahead),
                        fmt::format("select {}.ensure_partitions()", facts.schema)});
  } else {
    findings.push_back(
        {kGood, "partitions", subject, fmt::format("partitions are ready for {} days", facts.days_ahead), {}, {}});
  }
  if (facts.has_events && facts.live_relays == 0) {
    findings.push_back({kNotice, "no_relay", subject, "no relay is running: events stay where they are",
                        "relay_member names nobody who lives", "sealane relay"});
  }
  if (facts.is_superuser || facts.owns_tables) {
    findings.push_back(
        {kNotice, "too_many_rights", subject, fmt::format("user {} may do more than a relay needs", facts.user),
         facts.is_superuser ? "it is a superuser" : "it owns the tables",
         fmt::format("create role relay login in role {}, and name it in store.url", facts.relay_role)});
  }
  if (!facts.missing_rights.empty()) {
    findings.push_back({kWrong, "rights_missing", subject, fmt::format("user {} may not run a relay", facts.user),
                        fmt::format("missing: {}", fmt::join(facts.missing_rights, ", ")),
                        fmt::format("grant {} to {}", facts.relay_role, facts.user)});
  }
}

void JudgeTransactions(const std::string& subject, const postgres::DoctorFacts& facts,
                       std::vector<Finding>& findings) {
  if (facts.long_transactions > 0) {
    findings.push_back({kNotice, "long_transactions", subject,
                        fmt::format("{} transactions are open for long; their events wait, and so does vacuum",
                                    facts.long_transactions),
                        fmt::format("the oldest since {} s: {}", facts.longest_transaction.count(), facts.longest_by),
                        "look at pg_stat_activity; set idle_in_transaction_session_timeout"});
  }
  if (facts.idle_timeout == milliseconds{0}) {
    findings.push_back({kNotice, "idle_without_limit", subject,
                        "a session that forgets to commit holds its events, and the vacuum, for ever",
                        "idle_in_transaction_session_timeout = 0",
                        "alter system set idle_in_transaction_session_timeout = '5min'"});
  }
  if (facts.prepared_transactions > 0) {
    findings.push_back({kNotice, "prepared_transactions", subject,
                        fmt::format("{} prepared transactions wait for a decision", facts.prepared_transactions),
                        fmt::format("the oldest since {} s", facts.oldest_prepared.count()),
                        "look at pg_prepared_xacts; COMMIT PREPARED or ROLLBACK PREPARED"});
  }
}

}  // namespace

bool IsOlderThan(std::string_view version, int major, int minor) {
  const int their_major = NumberAt(version);
  const int their_minor = NumberAt(version);
  return their_major != major ? their_major < major : their_minor < minor;
}

std::vector<Finding> JudgeSchema(const std::string& subject, const SchemaState& state) {
  if (state.installed == 0) {
    return {{kWrong, "schema_missing", subject, "the store has no Sealane tables yet",
             fmt::format("this program knows version {}", state.known), "sealane migrate up"}};
  }
  const std::string evidence =
      fmt::format("the store has version {}, this program knows {}", state.installed, state.known);
  if (state.installed > state.known) {
    return {{kWrong, "schema_newer", subject, "the store's tables are newer than this program", evidence,
             "install a newer sealane"}};
  }
  if (!state.pending.empty()) {
    return {{kWrong, "schema_older", subject, "the store's tables are older than this program", evidence,
             "sealane migrate up"}};
  }
  return {{kGood, "schema", subject, fmt::format("tables are at version {}", state.installed), {}, {}}};
}

std::vector<Finding> JudgePostgres(const std::string& subject, const postgres::DoctorFacts& facts) {
  std::vector<Finding> findings;
  JudgeServer(subject, facts, findings);
  JudgeLog(subject, facts, findings);
  JudgeTransactions(subject, facts, findings);
  return findings;
}

std::vector<Finding> JudgeKafka(const std::string& subject, const BrokerReport& report,
                                const std::string& mechanism) {
  std::vector<Finding> findings;
  if (report.problem) {
    findings.push_back(FindingFromError(subject, *report.problem));
  } else {
    std::vector<std::string> addresses;
    for (const BrokerReport::Broker& broker : report.brokers) addresses.push_back(broker.address);
    findings.push_back({kGood,
                        "reachable",
                        subject,
                        fmt::format("Kafka answers with {} brokers", report.brokers.size()),
                        fmt::format("cluster {}: {}", report.cluster_id, fmt::join(addresses, ", ")),
                        {}});
  }
  const std::string library = fmt::format("librdkafka {}", report.library_version);
  if (mechanism.starts_with("SCRAM") && IsOlderThan(report.library_version, 2, 11)) {
    findings.push_back({report.problem ? kWrong : kNotice, "scram_with_old_library", subject,
                        "this librdkafka cannot log in to Kafka 4 with SCRAM",
                        fmt::format("{}, {}", library, mechanism),
                        "build with -DSEALANE_RDKAFKA_ROOT=/path/to/librdkafka-2.11, or use SASL PLAIN over TLS"});
  }
  if (mechanism == "GSSAPI" && IsOlderThan(report.library_version, 2, 11)) {
    findings.push_back({kNotice, "kerberos_with_old_library", subject,
                        "this librdkafka cannot log in to Kafka 4.0.0 with Kerberos", library,
                        "use Kafka 4.0.1 or newer, or build with librdkafka 2.11 (-DSEALANE_RDKAFKA_ROOT)"});
  }
  if (IsOlderThan(report.library_version, 2, 3)) {
    findings.push_back({kNotice, "old_library", subject,
                        "after a long timeout this librdkafka may need a new producer; messages are then sent again",
                        library, "install librdkafka 2.3 or newer when you can"});
  }
  return findings;
}

}  // namespace sealane::cli
