#include "postgres/sql_text.hpp"

namespace sealane::postgres {

std::string ReplaceAll(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

std::string TextArray(std::span<const std::string> texts) {
  std::string list = "{";
  for (const std::string& text : texts) {
    if (list.size() > 1) list.push_back(',');
    list.push_back('"');
    for (const char c : text) {
      if (c == '"' || c == '\\') list.push_back('\\');
      list.push_back(c);
    }
    list.push_back('"');
  }
  return list + "}";
}

}  // namespace sealane::postgres
