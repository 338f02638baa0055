#include "sealane/projection.hpp"

#include <set>

#include <fmt/format.h>

#include "base/text.hpp"

namespace sealane {
namespace {

constexpr std::size_t kNameMax = 63;  // PostgreSQL would cut what is longer, and so meet another column
constexpr std::string_view kEventColumn = "source_event_id";
constexpr std::string_view kVersionColumn = "source_version";

Error Invalid(std::string message, std::string hint) {
  return Error(ErrorKind::kMisuse, "invalid_projection", std::move(message)).WithHint(std::move(hint));
}

/// The name between double quotes, where both databases take any text for a name.
Result<std::string> Quoted(std::string_view name) {
  if (name.empty() || name.size() > kNameMax || name.find('\0') != std::string_view::npos || !IsUtf8(name)) {
    return Invalid(fmt::format("`{}` is no name of a table or column", EscapeForTerminal(name)),
                   "use 1 to 63 bytes of UTF-8 without NUL");
  }
  std::string quoted = "\"";
  for (const char character : name) {
    if (character == '"') quoted += '"';
    quoted += character;
  }
  return quoted + '"';
}

/// `table` or `schema.table`.
Result<std::string> QuotedTable(std::string_view name) {
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) return Quoted(name);
  SEALANE_ASSIGN_OR_RETURN(const std::string schema, Quoted(name.substr(0, dot)));
  SEALANE_ASSIGN_OR_RETURN(const std::string table, Quoted(name.substr(dot + 1)));
  return schema + "." + table;
}

/// The statement as it grows. A database that takes $1 for a name numbers its names as they come, so each stands
/// there once and in order.
class Upsert {
 public:
  Status AddColumn(std::string_view name, SqlValue value, bool in_key) {
    SEALANE_ASSIGN_OR_RETURN(const std::string quoted, Quoted(name));
    if (!seen_.insert(quoted).second) {
      return Invalid(fmt::format("column `{}` is there twice", EscapeForTerminal(name)),
                     "source_event_id and source_version are filled by the projection");
    }
    values_.push_back(std::move(value));
    Append(columns_, quoted);
    Append(parameters_, fmt::format("${}", values_.size()));
    if (in_key) {
      Append(key_, quoted);
    } else {
      Append(changes_, fmt::format("{0} = excluded.{0}", quoted));
    }
    return Ok();
  }

  std::string Sql(std::string_view table) const {
    return fmt::format(
        "INSERT INTO {0} AS present ({1}) VALUES ({2}) ON CONFLICT ({3}) DO UPDATE SET {4}"
        " WHERE present.{5} IS NULL OR present.{5} < excluded.{5}",
        table, columns_, parameters_, key_, changes_, kVersionColumn);
  }
  std::span<const SqlValue> values() const { return values_; }

 private:
  static void Append(std::string& list, std::string_view item) {
    if (!list.empty()) list += ", ";
    list += item;
  }

  std::set<std::string> seen_;
  std::vector<SqlValue> values_;
  std::string columns_;
  std::string parameters_;
  std::string key_;
  std::string changes_;
};

}  // namespace

Result<bool> Project(HandlerTransaction& transaction, const ProjectedRow& row, const Envelope& event) {
  if (row.key.empty()) return Invalid("the row has no key", "name the columns of its primary key");
  if (!event.aggregate.version) {
    return Error(ErrorKind::kRejected, "version_missing",
                 fmt::format("event {} has no aggregate version", event.id.ToString()))
        .WithField("aggregate.version")
        .WithHint(
            "only an event that says which state it is about can be projected; let its producer use NextVersion");
  }
  SEALANE_ASSIGN_OR_RETURN(const std::string table, QuotedTable(row.table));
  Upsert upsert;
  for (const auto& [name, value] : row.key) SEALANE_RETURN_IF_ERROR(upsert.AddColumn(name, value, true));
  for (const auto& [name, value] : row.set) SEALANE_RETURN_IF_ERROR(upsert.AddColumn(name, value, false));
  SEALANE_RETURN_IF_ERROR(upsert.AddColumn(kEventColumn, event.id.ToString(), false));
  SEALANE_RETURN_IF_ERROR(upsert.AddColumn(kVersionColumn, *event.aggregate.version, false));
  SEALANE_ASSIGN_OR_RETURN(const std::int64_t changed, transaction.Execute(upsert.Sql(table), upsert.values()));
  return changed > 0;
}

}  // namespace sealane
