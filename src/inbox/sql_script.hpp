#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sealane/envelope.hpp"
#include "sealane/handler.hpp"
#include "sealane/result.hpp"

#include "inbox/inbox_store.hpp"
#include "inbox/message_context.hpp"
#include "inbox/sql_parameter.hpp"

namespace sealane {

/// How a database writes a parameter by number. What else differs between the two is read accordingly.
enum class Placeholder : std::uint8_t {
  kDollar,    ///< `$1`; has E'...' strings, $tag$ quotes, nested comments and array slices
  kQuestion,  ///< `?1`; has `...` and [...] identifiers
};

/// The effect of an event as SQL: statements that name what they need of the event, for example
///
///     INSERT INTO open_orders (id, placed_at) VALUES (:aggregate_id, :occurred_at);
///     UPDATE customers SET orders = orders + 1 WHERE id = (:payload::jsonb)->>'customer';
///
/// Immutable, so any number of threads may run it.
class SqlScript {
 public:
  struct Statement {
    std::string text;                      ///< without the semicolon, with parameters by number
    std::vector<SqlParameter> parameters;  ///< what stands for number 1, 2, ...
    std::size_t line = 1;                  ///< of its first word in the script, for messages
    /// Where the text comes from: from an offset in it on it stands in the script from the other offset on. The first
    /// is its first word.
    std::vector<std::pair<std::size_t, std::size_t>> origins = {};
  };

  /// Splits at semicolons and numbers the parameters; everything else stays as it is, and nothing inside strings,
  /// quoted identifiers and comments is touched. Each place where a parameter stands gets a number of its own, so
  /// that the database finds the type of each by itself.
  ///
  /// kRejected with line and column: `unknown_parameter`, `script_empty`, `script_unterminated` (a string or comment
  /// that does not end), `transaction_in_script` (BEGIN, COMMIT, SAVEPOINT and the like: the transaction is ours),
  /// `numbered_parameter` (one that nobody would give a value), `invalid_utf8`, `nul_in_text`.
  static Result<SqlScript> Parse(std::string_view text, Placeholder style);

  const std::vector<Statement>& statements() const { return statements_; }
  /// `line 3, column 12` of the script, for an offset in a statement's text; without one, of its first word.
  std::string PlaceOf(const Statement& statement, std::optional<std::size_t> offset) const;

 private:
  SqlScript(std::string_view source, std::vector<Statement> statements)
      : source_(source), statements_(std::move(statements)) {}

  std::string source_;
  std::vector<Statement> statements_;
};

/// The values of a statement's parameters, in the order of their numbers.
std::vector<SqlValue> Bind(const SqlScript::Statement& statement, const Envelope& event,
                           const MessageContext& context);

/// Runs the script for one event, as a handler would.
///
/// Data that the database does not take rejects the event. What a change of the set-up heals (a missing table, a
/// statement that is no SQL) is tried again later. All other errors are thrown as SealaneException.
Decision RunScript(const SqlScript& script, const Envelope& event, const MessageContext& context,
                   HandlerTransaction& transaction);

/// Has the database read every statement before an event comes, and runs none. kRejected (`script_refused`) with line
/// and column for the first one that it cannot make ready. Behind a statement that may change what there is to be
/// named (all but INSERT, UPDATE, DELETE and the like) a name that is missing now may be there then: only what is no
/// SQL at all is refused there. Other errors are those of the store.
Status CheckScript(const SqlScript& script, InboxStore& store);

/// The first word of a statement, behind its comments.
std::string_view FirstWordOf(std::string_view statement);

/// Whether a statement begins, ends or divides a transaction, as its first word tells.
bool EndsTransaction(std::string_view statement);
/// Whether it is PostgreSQL's COPY, which speaks with the client in the middle of the statement.
bool IsCopy(std::string_view statement);

}  // namespace sealane
