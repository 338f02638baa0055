#include "kafka/message_size.hpp"

namespace sealane::kafka {
namespace {

constexpr std::size_t kBatchHeader = 61;
// Attributes, the two deltas of a batch's first record.
constexpr std::size_t kRecordFixed = 3;

/// Bytes of a zigzag varint that holds a size.
std::size_t VarintSize(std::size_t number) {
  std::size_t bytes = 1;
  for (std::size_t rest = (number << 1U) >> 7U; rest != 0; rest >>= 7U) ++bytes;
  return bytes;
}

std::size_t FieldSize(std::size_t size) {
  return VarintSize(size) + size;
}

std::size_t BatchSize(std::size_t key, std::size_t value, std::size_t header_count, std::size_t header_fields) {
  const std::size_t record =
      kRecordFixed + FieldSize(key) + FieldSize(value) + VarintSize(header_count) + header_fields;
  return kBatchHeader + FieldSize(record);
}

}  // namespace

std::size_t WireSizeOf(const OutgoingMessage& message) {
  std::size_t fields = 0;
  for (const HeaderView& header : message.headers) {
    fields += FieldSize(header.name.size()) + FieldSize(header.value.size());
  }
  return BatchSize(message.key.size(), message.value.size(), message.headers.size(), fields);
}

std::size_t WireSizeOf(std::string_view key, std::string_view value,
                       const std::vector<std::pair<std::string, std::string>>& headers) {
  std::size_t fields = 0;
  for (const auto& [name, text] : headers) fields += FieldSize(name.size()) + FieldSize(text.size());
  return BatchSize(key.size(), value.size(), headers.size(), fields);
}

}  // namespace sealane::kafka
