#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "sealane/result.hpp"

#include "inbox/sql_script.hpp"

namespace sealane {

/// Line and column of an offset, counted from 1, columns in characters as editors count.
std::size_t LineAt(std::string_view text, std::size_t offset);
std::size_t ColumnAt(std::string_view text, std::size_t offset);

/// Reads a script from front to back, piece by piece, as the database's own lexer cuts it. Used once.
class SqlScriptReader {
 public:
  SqlScriptReader(std::string_view text, Placeholder style) : text_(text), style_(style) {}
  Result<std::vector<SqlScript::Statement>> Read();

 private:
  Status CheckText() const;
  Status ReadPiece();
  Status BeginStatement();
  /// A piece that is not a comment, space or the end of a statement.
  Status ReadToken();
  Status ReadWord();
  Status ReadColon();
  Status ReadDollar();
  Status ReadQuoted(char quote, char closing, bool backslashes, std::string_view what);
  Status ReadBlockComment();
  void ReadLineComment();
  void EndStatement();

  std::size_t ContinuationOf(std::size_t end) const;
  bool BehindOperand() const;
  bool At(std::string_view piece) const { return text_.substr(at_).starts_with(piece); }
  char Ahead(std::size_t by) const { return at_ + by < text_.size() ? text_[at_ + by] : '\0'; }
  void Copy(std::size_t count);
  Error Refused(std::string code, std::size_t offset, std::string_view what) const;

  std::string_view text_;
  Placeholder style_;
  std::size_t at_ = 0;
  int brackets_ = 0;
  bool begun_ = false;  // the current statement has a word
  SqlScript::Statement current_;
  std::vector<SqlScript::Statement> statements_;
};

}  // namespace sealane
