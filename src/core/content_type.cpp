#include "core/content_type.hpp"

#include <algorithm>
#include <string>

namespace sealane {

bool IsJsonContentType(std::string_view content_type) {
  content_type = content_type.substr(0, content_type.find(';'));
  while (!content_type.empty() && content_type.back() == ' ') content_type.remove_suffix(1);
  while (!content_type.empty() && content_type.front() == ' ') content_type.remove_prefix(1);
  std::string media_type(content_type);
  std::transform(media_type.begin(), media_type.end(), media_type.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  if (media_type == "application/json") return true;
  return media_type.ends_with("+json") && media_type.find('/') != std::string::npos;
}

}  // namespace sealane
