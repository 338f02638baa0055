#include "manual/roff.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace sealane::cli {
namespace {

// A dash is written as one that can be copied, and no line begins with a character that would make it a request.
std::string Escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (out.empty() || out.back() == '\n') {
      if (c == '.' || c == '\'') out += "\\&";
    }
    if (c == '-') {
      out += "\\-";
    } else if (c == '\\') {
      out += "\\e";
    } else if (c == '\'') {
      out += "\\(aq";
    } else if (c == '`') {
      out += "\\(ga";
    } else if (c == '~') {
      out += "\\(ti";
    } else if (c == '^') {
      out += "\\(ha";
    } else {
      out += c;
    }
  }
  return out;
}

// Inside the quotes of a request.
std::string EscapeArgument(std::string_view text) {
  std::string out = Escape(text);
  for (std::size_t at = 0; (at = out.find('"', at)) != std::string::npos; at += 4) out.replace(at, 1, "\\(dq");
  return out;
}

std::string Upper(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return out;
}

}  // namespace

ManualPage::ManualPage(std::string_view name, int section, std::string_view title) {
  // Without a date: the page is the same whenever it is made.
  text_ = fmt::format(".TH \"{}\" \"{}\" \"\" \"sealane {}\" \"Sealane\"\n", EscapeArgument(Upper(name)), section,
                      SEALANE_VERSION);
  Section("Name");
  text_ += fmt::format("{} \\- {}\n", Escape(name), Escape(title));
}

ManualPage& ManualPage::Section(std::string_view heading) {
  text_ += fmt::format(".SH {}\n", EscapeArgument(Upper(heading)));
  return *this;
}

ManualPage& ManualPage::Subsection(std::string_view heading) {
  text_ += fmt::format(".SS \"{}\"\n", EscapeArgument(heading));
  return *this;
}

ManualPage& ManualPage::Paragraph(std::string_view text) {
  // A heading begins a paragraph itself.
  const std::size_t last_line = text_.rfind('\n', text_.size() - 2) + 1;
  if (!text_.substr(last_line).starts_with(".S")) text_ += ".PP\n";
  text_ += fmt::format("{}\n", Escape(text));
  return *this;
}

ManualPage& ManualPage::Entry(std::string_view tag, std::string_view text) {
  text_ += fmt::format(".TP\n\\fB{}\\fR\n{}\n", Escape(tag), Escape(text));
  return *this;
}

ManualPage& ManualPage::Verbatim(std::string_view lines) {
  text_ += fmt::format(".RS 4\n.nf\n{}{}.fi\n.RE\n", Escape(lines), lines.ends_with('\n') ? "" : "\n");
  return *this;
}

}  // namespace sealane::cli
