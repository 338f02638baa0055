#include "sqlite/inbox_bytes.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

namespace sealane::sqlite {
namespace {

constexpr std::size_t kLengthBytes = 4;
constexpr unsigned kBitsPerByte = 8;
constexpr unsigned kByteMask = 0xff;

void AppendText(std::string& out, std::string_view text) {
  const auto size = static_cast<std::uint32_t>(text.size());
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    out.push_back(static_cast<char>((size >> (kBitsPerByte * i)) & kByteMask));
  out += text;
}

/// Takes a text from the front; empty when there is none.
std::optional<std::string> TakeText(std::string_view& bytes) {
  if (bytes.size() < kLengthBytes) return std::nullopt;
  std::size_t size = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    size |= std::size_t{static_cast<std::uint8_t>(bytes[i])} << (kBitsPerByte * i);
  }
  bytes.remove_prefix(kLengthBytes);
  if (bytes.size() < size) return std::nullopt;
  std::string text(bytes.substr(0, size));
  bytes.remove_prefix(size);
  return text;
}

}  // namespace

std::string HeadersToBytes(const Headers& headers) {
  std::string bytes;
  for (const Header& header : headers) {
    AppendText(bytes, header.name);
    AppendText(bytes, header.value);
  }
  return bytes;
}

Result<Headers> HeadersFromBytes(std::string_view bytes) {
  Headers headers;
  while (!bytes.empty()) {
    auto name = TakeText(bytes);
    auto value = TakeText(bytes);
    if (!name || !value) {
      return Error(ErrorKind::kCorrupt, "store_corrupt", "the headers of a parked message end too early")
          .WithHint("look at the row in sealane_inbox_parked");
    }
    headers.push_back({std::move(*name), std::move(*value)});
  }
  return headers;
}

std::string IdsToBytes(std::span<const EventId> ids) {
  std::string bytes;
  bytes.reserve(ids.size() * EventId::kSize);
  for (const EventId& id : ids) bytes.append(reinterpret_cast<const char*>(id.bytes().data()), EventId::kSize);
  return bytes;
}

std::vector<EventId> IdsFromBytes(std::string_view bytes) {
  std::vector<EventId> ids;
  for (; bytes.size() >= EventId::kSize; bytes.remove_prefix(EventId::kSize)) {
    EventId::Bytes id;
    std::copy_n(bytes.begin(), EventId::kSize, id.begin());
    ids.emplace_back(id);
  }
  return ids;
}

}  // namespace sealane::sqlite
