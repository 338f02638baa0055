#pragma once

#include <string>
#include <string_view>

namespace sealane::cli {

/// Builds a manual page in the man(7) macros. Every text is escaped here.
class ManualPage {
 public:
  /// `section`: 1 for programs, 5 for files.
  ManualPage(std::string_view name, int section, std::string_view title);

  ManualPage& Section(std::string_view heading);
  ManualPage& Subsection(std::string_view heading);
  ManualPage& Paragraph(std::string_view text);
  /// A word or line that stands out, and what it means.
  ManualPage& Entry(std::string_view tag, std::string_view text);
  /// Lines as they are.
  ManualPage& Verbatim(std::string_view lines);

  std::string Finish() && { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace sealane::cli
