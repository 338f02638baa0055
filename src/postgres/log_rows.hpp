#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <libpq-fe.h>

#include "outbox/outbox_log.hpp"

namespace sealane::postgres {

/// The columns of the log in the order that LogRows reads them; `table` is put before each.
std::string LogColumns(std::string_view table);
/// How many.
inline constexpr int kLogColumns = 26;

/// Collects rows in PostgreSQL's binary form into a page, without copying what need not be copied.
class LogRows {
 public:
  LogRows();
  ~LogRows();
  LogRows(const LogRows&) = delete;
  LogRows& operator=(const LogRows&) = delete;

  /// A row as COPY sends it, in memory that libpq allocated; taken over. kCorrupt (`bad_row`) when it is not one.
  Status TakeCopied(char* row, std::size_t size);
  /// A row of a binary result, from `first_column` on; copied.
  Status Copy(const PGresult* result, int row, int first_column);

  std::size_t size() const { return entries_.size(); }
  std::size_t bytes() const;
  /// Sorted by seq.
  Page Finish() &&;
  /// In the order in which they were added.
  Page FinishAsRead() &&;

 private:
  struct Rows;
  Status Decode(const char* at, const char* end);

  std::vector<LogEntry> entries_;
  std::unique_ptr<Rows> rows_;
  std::size_t row_bytes_ = 0;
};

}  // namespace sealane::postgres
