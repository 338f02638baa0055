#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sealane/envelope.hpp"
#include "sealane/result.hpp"
#include "sealane/transaction.hpp"

namespace sealane {

/// What a handler says became of an event. Whatever it wrote commits with Done and Ignore, and is rolled back with
/// the other two.
struct Decision {
  enum class Kind : std::uint8_t {
    kDone,        ///< the effect is in the transaction
    kIgnore,      ///< nothing to do; the event counts as seen
    kRetryLater,  ///< not now: tried again by the retry policy, its key waits
    kReject,      ///< never: set aside for a person, its key waits
  };
  Kind kind = Kind::kDone;
  std::string code = {};     ///< a stable snake_case word, for example `unknown_currency`
  std::string message = {};  ///< for people; no secrets
  std::optional<std::chrono::milliseconds> retry_after = {};  ///< with kRetryLater: instead of the policy's wait

  static Decision Done() { return {}; }
  static Decision Ignore(std::string code = "ignored", std::string message = {}) {
    return {Kind::kIgnore, std::move(code), std::move(message), {}};
  }
  static Decision RetryLater(std::string code, std::string message,
                             std::optional<std::chrono::milliseconds> after = {}) {
    return {Kind::kRetryLater, std::move(code), std::move(message), after};
  }
  static Decision Reject(std::string code, std::string message) {
    return {Kind::kReject, std::move(code), std::move(message), {}};
  }
};

/// A value for a statement: nothing, a text that the database reads as the type it needs there, a whole number, or
/// bytes.
struct SqlBytes {
  std::string bytes;
  friend bool operator==(const SqlBytes&, const SqlBytes&) = default;
};
using SqlValue = std::variant<std::monostate, std::string, std::int64_t, SqlBytes>;

/// The transaction in which a handler works: what it writes here commits together with the record that the event was
/// seen, or not at all. A handler neither commits nor rolls back, and runs again from the start when the transaction
/// collides with another one: it has no effect but in here.
class HandlerTransaction : public Transaction {
 public:
  /// Runs one statement with parameters by number ($1 or ?1, as the database writes them) and returns how many rows
  /// it changed. After an error the transaction is lost: return it, or throw.
  virtual Result<std::int64_t> Execute(const std::string& sql, std::span<const SqlValue> values = {}) = 0;
  /// The same for a statement whose answer the handler has no use for. It is sent on with what follows instead of
  /// waiting for each answer, which makes a batch of them several times faster; other calls still see what it did.
  /// When one fails, the transaction is rolled back and its handlers run again, this time with every answer awaited:
  /// then the error comes from here, as from Execute().
  virtual Status Post(const std::string& sql, std::span<const SqlValue> values = {}) {
    if (auto changed = Execute(sql, values); !changed) return std::move(changed).error();
    return Ok();
  }
  /// The same for a statement that returns rows, at most `rows_max`, in text form.
  virtual Result<std::vector<std::vector<std::optional<std::string>>>> Query(const std::string& sql,
                                                                             std::span<const SqlValue> values = {},
                                                                             std::size_t rows_max = 1'000) = 0;
  /// The connection underneath, for code that has its own ways with it: one of the two is set, if any. After a Post()
  /// it is busy with that: call native() again, which waits for the answers, before using it again.
  struct Native {
    pg_conn* postgres = nullptr;
    sqlite3* lite = nullptr;
  };
  virtual Native native() { return {}; }
  /// Whether what was written can still be committed: kMisuse after an error that the database does not forget, also
  /// one on native(). Asks nobody.
  virtual Status Check() { return Ok(); }
};

/// The effect of one event. May throw: a SealaneException counts as its error, anything else as kRetryLater.
using Handler = std::function<Decision(const Envelope&, HandlerTransaction&)>;

/// Which versions of an event type's schema a handler understands, both ends included.
struct VersionRange {
  std::int32_t from = 1;
  std::int32_t to = 1;
  static VersionRange Any() { return {1, std::numeric_limits<std::int32_t>::max()}; }
};

/// Handlers by event type and schema version.
///
///     sealane::Handlers handlers;
///     handlers.On("OrderPlaced", [](const sealane::Envelope& event, sealane::HandlerTransaction& tx) {
///       const sealane::SqlValue id = event.aggregate.id;
///       ValueOrThrow(tx.Execute("INSERT INTO open_orders VALUES ($1)", {&id, 1}));
///       return sealane::Decision::Done();
///     });
///
/// Filled before it is used; then any number of threads may read it.
class Handlers {
 public:
  /// kMisuse (`handler_doubled`) through SEALANE_ASSERT when a version of the type has one already.
  void On(std::string type, VersionRange versions, Handler handler);
  void On(std::string type, Handler handler) { On(std::move(type), VersionRange{}, std::move(handler)); }
  /// For every type that has no handler of its own, in any version.
  void OnAny(Handler handler) { any_ = std::move(handler); }

  enum class Missing : std::uint8_t { kNothing, kType, kVersion };
  struct Found {
    const Handler* handler = nullptr;  ///< null: see missing
    Missing missing = Missing::kNothing;
  };
  Found Find(std::string_view type, std::int32_t schema_version) const;

 private:
  std::map<std::string, std::vector<std::pair<VersionRange, Handler>>, std::less<>> by_type_;
  Handler any_;
};

}  // namespace sealane
