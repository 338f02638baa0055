#include "core/header_reader.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "core/field_text.hpp"
#include "core/wire.hpp"

namespace sealane {
namespace {

constexpr std::string_view kOwnPrefix = "own-";

char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool StartsLike(std::string_view name, std::string_view start) {
  return name.size() >= start.size() &&
         std::equal(start.begin(), start.end(), name.begin(), [](char a, char b) { return Lower(a) == Lower(b); });
}

bool IsLike(std::string_view name, std::string_view other) {
  return name.size() == other.size() && StartsLike(name, other);
}

bool IsText(std::string_view bytes) {
  return IsUtf8(bytes) && bytes.find('\0') == std::string_view::npos;
}

// ToWire() gave a reserved name this prefix. One that is not reserved had it before.
std::string_view OwnName(std::string_view name) {
  if (!name.starts_with(kOwnPrefix)) return name;
  const std::string_view inner = name.substr(kOwnPrefix.size());
  return IsReservedHeader(inner) ? inner : name;
}

Error Doubled(std::string_view name) {
  return MessageError("field_doubled", name, "the header stands here a second time");
}

}  // namespace

bool HeaderReader::Has(std::string_view name) const {
  return std::any_of(headers_.begin(), headers_.end(), [&](const Header& h) { return IsLike(h.name, name); });
}

Result<std::string> HeaderReader::Take(std::string_view name) {
  const Header* found = nullptr;
  for (std::size_t i = 0; i < headers_.size(); ++i) {
    if (!IsLike(headers_[i].name, name)) continue;
    if (found != nullptr) return Doubled(name);
    found = &headers_[i];
    taken_[i] = true;
  }
  return found == nullptr ? Result<std::string>(std::string{}) : ReadFieldText(name, found->value);
}

Result<HeaderReader::Named> HeaderReader::TakeAll(std::string_view prefix) {
  Named all;
  for (std::size_t i = 0; i < headers_.size(); ++i) {
    const std::string& name = headers_[i].name;
    if (!StartsLike(name, prefix)) continue;
    SEALANE_ASSIGN_OR_RETURN(std::string bare, ReadFieldText(prefix, std::string_view(name).substr(prefix.size())));
    std::transform(bare.begin(), bare.end(), bare.begin(), Lower);
    if (std::any_of(all.begin(), all.end(), [&](const auto& other) { return other.first == bare; })) {
      return Doubled(name);
    }
    SEALANE_ASSIGN_OR_RETURN(std::string value, ReadFieldText(name, headers_[i].value));
    all.emplace_back(std::move(bare), std::move(value));
    taken_[i] = true;
  }
  return all;
}

Headers HeaderReader::Rest() const {
  Headers rest;
  for (std::size_t i = 0; i < headers_.size(); ++i) {
    if (taken_[i] || !IsText(headers_[i].name) || !IsText(headers_[i].value)) continue;
    const std::string_view name = OwnName(headers_[i].name);
    std::erase_if(rest, [&](const Header& earlier) { return earlier.name == name; });
    rest.push_back({.name = std::string(name), .value = headers_[i].value});
  }
  return rest;
}

}  // namespace sealane
