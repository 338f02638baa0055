#include "exit_code.hpp"

#include <algorithm>
#include <array>

#include "sealane/assert.hpp"

namespace sealane::cli {
namespace {

using enum ExitCode;

constexpr std::array<ExitCodeText, 21> kTexts = {{
    {kDone, "Done."},
    {kFailed, "Failed; the message says why."},
    {kUsage, "The command line is wrong."},
    {kConditionFalse, "A checked condition does not hold, for example migrations are pending."},
    {kNotFound, "What was asked for does not exist."},
    {kSetChanged, "What was planned is not what is there now."},
    {kNotPermitted, "The database, or a rule, does not permit it."},
    {kTimedOut, "It took too long."},
    {kHeld, "A consumer is paused, or holds: its circuit breaker is open, or too many events are parked."},
    {kStoreUnreachable, "The store cannot be reached, or its certificate is not trusted."},
    {kBrokerUnreachable, "The broker cannot be reached, or its certificate is not trusted."},
    {kSchemaMismatch, "The store's schema is newer or older than this program."},
    {kLoginRefused, "Wrong user or password."},
    {kStoreReadOnly, "The store is read-only."},
    {kStoreFull, "The disk is full."},
    {kConnectionLost, "The connection was lost in the middle; the message says whether anything was committed."},
    {kSchemaMissing, "The store has no Sealane tables yet."},
    {kDatabaseMissing, "The database or file does not exist."},
    {kEventRefused, "The event is at fault: too large, malformed, duplicate."},
    {kBadConfiguration, "The configuration is wrong."},
    {kInterrupted, "Interrupted."},
}};

struct CodeRow {
  std::string_view code;
  ExitCode exit;
};

constexpr std::array<CodeRow, 59> kByCode = {{
    {"bad_usage", kUsage},
    {"not_found", kNotFound},
    {"unknown_consumer", kNotFound},
    {"unknown_partition", kNotFound},
    {"unknown_route", kNotFound},
    {"unknown_target", kNotFound},
    {"route_exists", kNotPermitted},
    {"route_busy", kNotPermitted},
    {"consumer_attached", kNotPermitted},
    {"too_old", kNotPermitted},
    {"no_gap", kNotPermitted},
    {"not_first_gap", kNotPermitted},
    {"consumer_paused", kHeld},
    {"circuit_open", kHeld},
    {"parked_limit", kHeld},
    {"not_permitted", kNotPermitted},
    {"statement_timeout", kTimedOut},
    {"lock_timeout", kTimedOut},
    {"store_busy", kTimedOut},
    {"timed_out", kTimedOut},
    {"store_unreachable", kStoreUnreachable},
    {"store_tls_failed", kStoreUnreachable},
    {"schema_newer", kSchemaMismatch},
    {"schema_older", kSchemaMismatch},
    {"schema_changed", kSchemaMismatch},
    {"login_refused", kLoginRefused},
    {"store_read_only", kStoreReadOnly},
    {"store_full", kStoreFull},
    {"connection_lost", kConnectionLost},
    {"schema_missing", kSchemaMissing},
    {"database_missing", kDatabaseMissing},
    {"output_failed", kFailed},
    {"file_unreadable", kBadConfiguration},
    {"broker_unreachable", kBrokerUnreachable},
    {"unknown_topic", kBrokerUnreachable},
    {"tls_failed", kBrokerUnreachable},
    {"broker_silent", kBrokerUnreachable},
    {"broker_storage_error", kBrokerUnreachable},
    {"not_enough_replicas", kBrokerUnreachable},
    {"throttled", kBrokerUnreachable},
    {"receiver_unreachable", kBrokerUnreachable},
    {"receiver_not_trusted", kBrokerUnreachable},
    {"journal_io_error", kBrokerUnreachable},
    {"journal_full", kStoreFull},
    {"journal_busy", kTimedOut},
    {"approval_missing", kNotPermitted},
    {"not_drained", kTimedOut},
    {"not_caught_up", kTimedOut},
    {"unknown_parameter", kUsage},
    {"numbered_parameter", kUsage},
    {"script_empty", kUsage},
    {"script_unterminated", kUsage},
    {"transaction_in_script", kUsage},
    {"script_refused", kUsage},
    {"address_in_use", kFailed},
    {"cannot_listen", kFailed},
    {"folder_not_usable", kFailed},
    {"outage_failed", kFailed},
    {"relay_ended", kFailed},
}};

ExitCode ByKind(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUnavailable:
      return kStoreUnreachable;
    case ErrorKind::kInDoubt:
      return kConnectionLost;
    case ErrorKind::kRejected:
      return kEventRefused;
    case ErrorKind::kMisconfigured:
      return kBadConfiguration;
    case ErrorKind::kCancelled:
      return kInterrupted;
    case ErrorKind::kConflict:
    case ErrorKind::kFenced:
    case ErrorKind::kCorrupt:
    case ErrorKind::kMisuse:
      return kFailed;
  }
  SEALANE_ASSERT(false, "every kind of error ends the program in a known way");
}

}  // namespace

std::span<const ExitCodeText> ExitCodes() {
  return kTexts;
}

ExitCode ExitCodeOf(const Error& error) {
  const auto row =
      std::find_if(kByCode.begin(), kByCode.end(), [&](const CodeRow& r) { return r.code == error.code(); });
  if (row != kByCode.end()) return row->exit;
  // What an HTTP destination answered while it was away or busy, with the status in the code.
  if (error.kind() == ErrorKind::kUnavailable && error.code().starts_with("http_")) return kBrokerUnreachable;
  return ByKind(error.kind());
}

}  // namespace sealane::cli
