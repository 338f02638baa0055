#include "inbox/sql_script.hpp"

#include <fmt/format.h>

#include "inbox/sql_script_reader.hpp"

namespace sealane {

Result<SqlScript> SqlScript::Parse(std::string_view text, Placeholder style) {
  SEALANE_ASSIGN_OR_RETURN(auto statements, SqlScriptReader(text, style).Read());
  return SqlScript(std::move(statements));
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

}  // namespace sealane
