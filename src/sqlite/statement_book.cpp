#include "sqlite/statement_book.hpp"

namespace sealane::sqlite {

Result<BookedStatement> StatementBook::Take(std::string_view sql) {
  auto found = statements_.find(sql);
  if (found == statements_.end()) {
    std::string_view rest;
    SEALANE_ASSIGN_OR_RETURN(Statement statement, Statement::Prepare(connection_, sql, &rest));
    if (statement.is_empty() || rest.find_first_not_of(" \t\r\n;") != std::string_view::npos) {
      return Error(ErrorKind::kMisuse, "one_statement", "the text is not exactly one SQL statement")
          .WithHint("run several statements one after the other");
    }
    if (statements_.size() >= statements_max_) statements_.clear();
    found = statements_.emplace(std::string(sql), std::move(statement)).first;
  }
  return BookedStatement(found->second);
}

}  // namespace sealane::sqlite
