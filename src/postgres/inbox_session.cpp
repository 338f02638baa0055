#include "postgres/inbox_session.hpp"

#include <cstdint>
#include <utility>

#include "base/hex.hpp"
#include "base/text.hpp"

namespace sealane::postgres {
namespace {

constexpr std::string_view kHexMark = "\\x";
constexpr std::size_t kTextMax = 2'000;

/// Takes one piece with its length before it from the front.
std::optional<std::string> TakePiece(std::string_view& bytes) {
  if (bytes.size() < 4) return std::nullopt;
  std::uint32_t size = 0;
  for (int i = 0; i < 4; ++i) size = size << 8 | static_cast<std::uint8_t>(bytes[static_cast<std::size_t>(i)]);
  bytes.remove_prefix(4);
  if (bytes.size() < size) return std::nullopt;
  std::string piece(bytes.substr(0, size));
  bytes.remove_prefix(size);
  return piece;
}

}  // namespace

Call InboxSession::Function(std::string_view name) const {
  Call call(quoted_schema, name);
  call.Text(consumer);
  return call;
}

Call InboxSession::LifeCheck() const {
  Call call(quoted_schema, "inbox_require_life");
  call.Text(life);
  return call;
}

Status InboxSession::RequireIdle() const {
  if (PQtransactionStatus(get()) == PQTRANS_IDLE || PQstatus(get()) == CONNECTION_BAD) return Ok();
  return Error(ErrorKind::kMisuse, "transaction_open", "a batch of this inbox is open")
      .WithHint("finish or destroy it first, or open another store");
}

Result<std::vector<PgResult>> InboxSession::Begin(std::vector<Call> calls) const {
  // Each statement must see what a transaction that it waited for has committed, whatever the server's default is.
  std::vector<Call> first = {Call("BEGIN ISOLATION LEVEL READ COMMITTED"), LifeCheck()};
  calls.insert(calls.begin(), first.begin(), first.end());
  PipelineReport report = RunTogether(get(), calls);
  if (report.error) {
    RollBack();
    return *std::move(report.error);
  }
  report.results.erase(report.results.begin(), report.results.begin() + 2);
  return std::move(report.results);
}

Result<PgResult> InboxSession::Run(Call call) const {
  SEALANE_ASSIGN_OR_RETURN(std::vector<PgResult> results, Begin({std::move(call), Call("COMMIT")}));
  return std::move(results.front());
}

void InboxSession::RollBack() const {
  if (PQstatus(get()) == CONNECTION_BAD || PQtransactionStatus(get()) == PQTRANS_IDLE) return;
  (void)Execute(get(), "ROLLBACK");
}

std::string UnitToText(std::string_view unit) {
  const bool plain = !unit.starts_with(kHexMark) && unit.find('\0') == std::string_view::npos && IsUtf8(unit);
  if (plain) return std::string(unit);
  std::string text(kHexMark);
  AppendHex(text, unit);
  return text;
}

std::string UnitFromText(std::string_view text) {
  if (!text.starts_with(kHexMark)) return std::string(text);
  return FromHex(text.substr(kHexMark.size())).value_or(std::string(text));
}

std::string FitForColumn(std::string_view text) {
  return text.size() <= kTextMax ? EscapeForTerminal(text) : EscapeForTerminal(text.substr(0, kTextMax)) + "...";
}

std::string HeadersToBytes(const Headers& headers) {
  std::string bytes;
  for (const Header& header : headers) {
    for (const std::string* piece : {&header.name, &header.value}) {
      bytes += BigEndian(static_cast<std::uint32_t>(piece->size()));
      bytes += *piece;
    }
  }
  return bytes;
}

Result<Headers> HeadersFromBytes(std::string_view bytes) {
  Headers headers;
  while (!bytes.empty()) {
    auto name = TakePiece(bytes);
    auto value = name ? TakePiece(bytes) : std::nullopt;
    if (!value) {
      return Error(ErrorKind::kCorrupt, "parked_headers_unreadable", "the headers of a parked message end too early")
          .WithHint("somebody changed inbox_parked by hand; give the message up");
    }
    headers.push_back({*std::move(name), *std::move(value)});
  }
  return headers;
}

}  // namespace sealane::postgres
