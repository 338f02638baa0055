#pragma once

#include <span>
#include <string_view>

namespace sealane::cli {

/// A file of web/, compiled in.
struct WebFile {
  std::string_view path;  ///< `/index.html`, `/assets/app.js`
  std::string_view content_type;
  std::string_view tag;  ///< changes with its content; with quotation marks, as ETag wants it
  std::string_view content;
};
std::span<const WebFile> WebFiles();

}  // namespace sealane::cli
