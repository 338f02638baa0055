#include "bench_relay/bare_message.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

#include <endian.h>
#include <fmt/format.h>

#include "base/hex.hpp"
#include "base/time_text.hpp"
#include "common/session.hpp"
#include "postgres/log_rows.hpp"

namespace sealane::bench {
namespace {

constexpr std::size_t kCopyHeaderSize = 19;
constexpr std::string_view kCopySignature("PGCOPY\n\377\r\n\0", 11);
constexpr std::int64_t kMicrosecondsTo2000 = 946'684'800'000'000;
constexpr std::size_t kTextsMax = 512;

std::uint64_t BigEndian(std::string_view bytes) {
  std::uint64_t number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<unsigned char>(byte);
  return number;
}

/// The next field; empty for null.
std::string_view Take(std::string_view& row) {
  std::uint32_t size = 0;
  std::memcpy(&size, row.data(), sizeof size);
  size = be32toh(size);
  row.remove_prefix(sizeof size);
  if (size == 0xffffffff) return {};
  const std::string_view field = row.substr(0, size);
  row.remove_prefix(size);
  return field;
}

void AppendNumber(std::string& out, std::uint64_t number) {
  std::array<char, 20> digits{};
  out.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr);
}

bool SameHeader(const HeaderView& a, const HeaderView& b) {
  return a.name == b.name && a.value == b.value;
}

}  // namespace

std::string BareCopy() {
  return "copy (select key, payload, event_id, producer, type, occurred_at, aggregate_id, kind, schema_version,"
         " aggregate_type, aggregate_version, correlation_id, causation_id, payload_hash, content_type, traceparent"
         " from sealane.outbox) to stdout (format binary)";
}

void BareMessage::Add(std::string_view name, std::string_view value) {
  if (!value.empty()) headers_[header_count_++] = {.name = name, .value = value};
}

bool BareMessage::Read(std::string_view copied) {
  if (copied.starts_with(kCopySignature)) copied.remove_prefix(kCopyHeaderSize);
  if (copied.size() <= 2) return false;
  copied.remove_prefix(2);  // the number of fields
  texts_.clear();
  texts_.reserve(kTextsMax);
  header_count_ = 0;
  const auto made = [&](const auto& append) {
    const std::size_t begin = texts_.size();
    append();
    return Since(begin);
  };
  key_ = Take(copied);
  value_ = Take(copied);
  const std::string_view id = Take(copied);
  const std::string_view producer = Take(copied);
  Add("ce_specversion", "1.0");
  Add("ce_id", made([&] {
        AppendUuid(texts_, std::span<const std::uint8_t, 16>(reinterpret_cast<const std::uint8_t*>(id.data()), 16));
      }));
  Add("ce_source", made([&] { (texts_ += "/sealane/") += producer; }));
  Add("ce_type", Take(copied));
  const auto since_2000 = static_cast<std::int64_t>(BigEndian(Take(copied)));
  Add("ce_time",
      made([&] { AppendRfc3339(texts_, Timestamp{std::chrono::microseconds{since_2000 + kMicrosecondsTo2000}}); }));
  Add("ce_subject", Take(copied));
  Add("ce_partitionkey", key_);
  Add("ce_kind", Take(copied));
  const std::string_view schema_version = Take(copied);
  Add("ce_schemaversion", made([&] { AppendNumber(texts_, BigEndian(schema_version)); }));
  Add("ce_aggregatetype", Take(copied));
  const std::string_view aggregate_version = Take(copied);
  Add("ce_aggregateversion", made([&] { AppendNumber(texts_, BigEndian(aggregate_version)); }));
  Add("ce_correlationid", Take(copied));
  Add("ce_causationid", Take(copied));
  Add("ce_producer", producer);
  const std::string_view hash = Take(copied);
  Add("ce_payloadsha256", made([&] { AppendHex(texts_, hash); }));
  Add("content-type", Take(copied));
  Add("traceparent", Take(copied));
  return true;
}

void CheckBareMessages(const std::string& url) {
  const Session session(url);
  const auto first_row = [&](const std::string& copy) {
    session.Exec(copy);
    char* row = nullptr;
    const int size = PQgetCopyData(session.get(), &row, 0);
    if (size <= 0) Fail("there is no row to compare");
    std::string bytes(row, static_cast<std::size_t>(size));
    do {
      PQfreemem(row);
    } while (PQgetCopyData(session.get(), &row, 0) > 0);
    while (PGresult* const result = PQgetResult(session.get())) (void)session.Checked(result);
    return bytes;
  };
  const std::string bare_row = first_row(BareCopy());
  const PgResult full_row = session.Checked(PQexecParams(
      session.get(), fmt::format("select {} from sealane.outbox o limit 1", postgres::LogColumns("o")).c_str(), 0,
      nullptr, nullptr, nullptr, nullptr, 1));
  postgres::LogRows rows;
  if (const auto copied = rows.Copy(full_row.get(), 0, 0); !copied) Fail(copied.error().ToString());
  const Page page = std::move(rows).Finish();
  WireEncoder encoder(WireProfile::kCloudEvents);
  const WireView ours = encoder.Encode(page.entries.at(0).event);
  BareMessage bare;
  if (!bare.Read(bare_row) || bare.key() != ours.key || bare.value() != ours.value ||
      !std::ranges::equal(bare.headers(), ours.headers, SameHeader)) {
    Fail("the bare loop does not send the message that the relay sends");
  }
}

}  // namespace sealane::bench
