#include "inbox/sql_script.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "inbox/sql_script_reader.hpp"

namespace sealane {
namespace {

bool ChangesRowsOnly(std::string_view statement) {
  constexpr std::array<std::string_view, 6> kWords = {"insert", "update", "delete", "merge", "replace", "with"};
  std::string word(FirstWordOf(statement));
  std::transform(word.begin(), word.end(), word.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return std::find(kWords.begin(), kWords.end(), word) != kWords.end();
}

}  // namespace

Result<SqlScript> SqlScript::Parse(std::string_view text, Placeholder style) {
  SEALANE_ASSIGN_OR_RETURN(auto statements, SqlScriptReader(text, style).Read());
  return SqlScript(text, std::move(statements));
}

std::string SqlScript::PlaceOf(const Statement& statement, std::optional<std::size_t> offset) const {
  auto [begin, origin] = statement.origins.front();
  const std::size_t wanted = std::max(offset.value_or(begin), begin);
  for (const auto& [in_text, in_source] : statement.origins) {
    if (in_text <= wanted) begin = in_text, origin = in_source;
  }
  const std::size_t at = std::min(origin + (wanted - begin), source_.size());
  return fmt::format("line {}, column {}", LineAt(source_, at), ColumnAt(source_, at));
}

std::vector<SqlValue> Bind(const SqlScript::Statement& statement, const Envelope& event,
                           const MessageContext& context) {
  std::vector<SqlValue> values;
  values.reserve(statement.parameters.size());
  for (const SqlParameter parameter : statement.parameters) values.push_back(ValueOf(parameter, event, context));
  return values;
}

Decision RunScript(const SqlScript& script, const Envelope& event, const MessageContext& context,
                   HandlerTransaction& transaction) {
  for (const SqlScript::Statement& statement : script.statements()) {
    const Status posted = transaction.Post(statement.text, Bind(statement, event, context));
    if (posted) continue;
    const Error& error = posted.error();
    const std::string place = fmt::format("in the statement at line {} of the script", statement.line);
    const std::string message = fmt::format("{} ({})", error.message(), place);
    if (error.kind() == ErrorKind::kRejected) return Decision::Reject(error.code(), message);
    if (error.kind() == ErrorKind::kMisconfigured) return Decision::RetryLater(error.code(), message);
    throw SealaneException(Error(error).WithContext(place));
  }
  return Decision::Done();
}

Status CheckScript(const SqlScript& script, InboxStore& store) {
  // An event that has everything: the types of its values are those that usually come.
  Envelope event;
  event.aggregate = {.type = "a", .id = "a", .version = 1};
  event.payload = "{}";
  bool names_are_known = true;
  for (const SqlScript::Statement& statement : script.statements()) {
    SEALANE_ASSIGN_OR_RETURN(const auto fault, store.Examine(statement.text, Bind(statement, event, {})));
    if (fault && (names_are_known || fault->is_syntax)) {
      return Error(ErrorKind::kRejected, "script_refused",
                   fmt::format("script {}: {}", script.PlaceOf(statement, fault->offset), fault->error.message()))
          .WithNative(fault->error.native())
          .WithHint("the store cannot run this statement: is it written right, and are its tables there?");
    }
    names_are_known = names_are_known && ChangesRowsOnly(statement.text);
  }
  return Ok();
}

}  // namespace sealane
