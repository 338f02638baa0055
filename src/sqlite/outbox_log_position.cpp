#include "sqlite/outbox_log_position.hpp"

#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "sqlite/statement.hpp"

namespace sealane::sqlite {
namespace {

void AppendItem(std::string& list, std::string_view tenant) {
  if (list.size() > 1) list.push_back(',');
  AppendJsonString(list, tenant);
}

}  // namespace

Position PositionAt(std::int64_t seq) {
  return {.cursor = std::to_string(seq)};
}

Result<std::int64_t> SeqOf(std::string_view cursor) {
  std::int64_t seq = 0;
  const auto [end, error] = std::from_chars(cursor.data(), cursor.data() + cursor.size(), seq);
  if (error == std::errc{} && end == cursor.data() + cursor.size() && seq >= 0) return seq;
  return Error(ErrorKind::kMisuse, "invalid_position",
               fmt::format("\"{}\" is not a position of this log", EscapeForTerminal(cursor)));
}

std::string TenantsJson(std::span<const std::string> tenants) {
  std::string list = "[";
  for (const std::string& tenant : tenants) AppendItem(list, tenant);
  return list + "]";
}

std::string TenantsJson(std::span<const ApartFlow> flows) {
  std::string list = "[";
  for (const ApartFlow& flow : flows) {
    for (const std::string& tenant : flow.tenants) AppendItem(list, tenant);
  }
  return list + "]";
}

Result<std::string> ApartToJson(std::span<const ApartFlow> flows) {
  std::string json = "[";
  for (const ApartFlow& flow : flows) {
    SEALANE_ASSIGN_OR_RETURN(const std::int64_t seq, SeqOf(flow.position.cursor));
    if (flow.tenants.empty()) continue;
    json +=
        fmt::format("{}{{\"tenants\":{},\"seq\":{}}}", json.size() > 1 ? "," : "", TenantsJson(flow.tenants), seq);
  }
  return json + "]";
}

Result<std::vector<ApartFlow>> ApartFromJson(sqlite3* connection, std::string_view json) {
  std::vector<ApartFlow> flows;
  SEALANE_ASSIGN_OR_RETURN(Statement select,
                           Statement::Prepare(connection,
                                              "SELECT f.key, json_extract(f.value, '$.seq'), t.value"
                                              " FROM json_each(?) f, json_each(f.value, '$.tenants') t"
                                              " ORDER BY f.key, t.key"));
  select.BindOptional(json);
  while (true) {
    SEALANE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) return flows;
    RowReader row(select);
    const auto index = static_cast<std::size_t>(row.Int());
    if (flows.size() <= index) flows.resize(index + 1);
    flows[index].position = PositionAt(row.Int());
    flows[index].tenants.push_back(row.Text());
  }
}

}  // namespace sealane::sqlite
