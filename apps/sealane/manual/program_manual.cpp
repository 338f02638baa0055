#include <fmt/format.h>

#include "manual/manual.hpp"
#include "manual/roff.hpp"

namespace sealane::cli {
namespace {

std::string TagOf(const OptionEntry& option) {
  std::string tag;
  for (const std::string& name : option.names) tag += fmt::format("{}{}", tag.empty() ? "" : ", ", name);
  return option.takes_value() ? fmt::format("{}{}{}", tag, tag.empty() ? "" : " ", option.value_name) : tag;
}

void AddOptions(const std::vector<OptionEntry>& options, ManualPage& page) {
  for (const OptionEntry& option : options) {
    const bool told = option.help.find("may be repeated") != std::string::npos;
    page.Entry(TagOf(option), fmt::format("{}{}{}", option.help, option.required ? " (required)" : "",
                                          option.repeatable && !told ? " (may be repeated)" : ""));
  }
}

void AddCommand(const CommandEntry& entry, ManualPage& page) {
  std::string usage = fmt::format("sealane {}", entry.path);
  for (const OptionEntry& option : entry.options) {
    if (option.required) usage += fmt::format(" {}", TagOf(option));
  }
  page.Subsection(usage).Paragraph(entry.summary);
  AddOptions(entry.options, page);
  std::string lines;
  for (const std::string& example : entry.examples) lines += fmt::format("{}\n", example);
  page.Paragraph("Examples:").Verbatim(lines);
}

}  // namespace

std::string ProgramManual(const CommandTree& tree) {
  ManualPage page("sealane", 1, "transactional outbox and inbox");
  page.Section("Synopsis")
      .Paragraph("sealane COMMAND [OPTION]...")
      .Section("Description")
      .Paragraph(
          "A service commits its data and its events in one database transaction. sealane delivers the committed "
          "events to a broker, in order per key, and applies events of a broker once in a database. Data goes to "
          "standard output, everything else to standard error.")
      .Section("Options of all commands");
  AddOptions(tree.common, page);
  page.Section("Commands");
  for (const CommandEntry& entry : tree.entries) {
    if (!entry.path.empty() && entry.subcommands.empty()) AddCommand(entry, page);
  }
  page.Section("Exit status");
  for (const ExitCodeText& row : ExitCodes()) {
    page.Entry(fmt::format("{}", static_cast<int>(row.code)), row.meaning);
  }
  page.Section("Environment")
      .Entry("SEALANE_CONFIG", "the configuration file, where --config does not name one")
      .Entry("SEALANE_SECTION__KEY",
             "a key of the configuration, for example SEALANE_STORE__URL; see sealane.toml(5)")
      .Entry("NO_COLOR", "no colour, when not empty")
      .Section("Files")
      .Entry("./sealane.toml, /etc/sealane/sealane.toml", "the configuration; the first that exists is read")
      .Section("See also")
      .Paragraph("sealane.toml(5)");
  return std::move(page).Finish();
}

}  // namespace sealane::cli
