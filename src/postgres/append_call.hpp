#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <libpq-fe.h>

#include "sealane/transaction.hpp"

#include "core/fingerprint.hpp"

namespace sealane::postgres {

// The arguments of append_batch() and append_one(), column by column. Binary for libpq, text for clients that can
// only bind text; all come from the same walk over the entries, so they cannot drift apart.

/// One column of a batch in PostgreSQL's binary array format.
class BinaryArray {
 public:
  BinaryArray(Oid element, std::size_t count);
  void Add(std::string_view bytes);
  void AddNull();
  bool only_nulls() const { return only_nulls_; }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
  bool only_nulls_ = true;
};

/// Parameters of a PQexecParams call in binary form. A column without any value is sent as a null array.
struct BinaryCall {
  std::vector<std::string> buffers;
  std::vector<bool> nulls;
};
BinaryCall EncodeAppendBinary(std::span<const NewEntry> entries);
/// For append_one(): plain values instead of arrays. The entry asks for no uniqueness.
BinaryCall EncodeAppendOne(const NewEntry& entry);
/// Whether the entry asks for anything to be unique.
bool AsksForUniqueness(const NewEntry& entry);

/// The same as array literals in text form.
std::vector<std::optional<std::string>> EncodeAppendText(std::span<const NewEntry> entries);

/// The statements that the parameters go with. `schema` is quoted already.
std::string AppendSql(std::string_view schema);
std::string AppendOneSql(std::string_view schema);
/// The types of their parameters. Sent beside the statement: casts in its text cost 15 us more to parse.
std::span<const Oid> AppendTypes();
std::span<const Oid> AppendOneTypes();

}  // namespace sealane::postgres
