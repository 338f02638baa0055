#include <fmt/format.h>

#include "config/key_place.hpp"
#include "config/keys.hpp"
#include "config/values.hpp"
#include "manual/manual.hpp"
#include "manual/roff.hpp"

namespace sealane::cli {

std::string ConfigurationManual() {
  ManualPage page("sealane.toml", 5, "configuration of sealane");
  page.Section("Description")
      .Paragraph(
          "A TOML file, named by --config or SEALANE_CONFIG, else ./sealane.toml, else /etc/sealane/sealane.toml. A "
          "flag "
          "of the command is stronger than an environment variable, and that is stronger than the file. Nothing must "
          "be "
          "set but store.url and, for a relay, broker.url. `sealane init` writes a file to begin with, `sealane "
          "config "
          "check` says what is wrong with one, and `sealane config print --origin` what is in force.")
      .Paragraph(
          "${file:/path} in a value stands for the content of that file. Durations have a unit (100ms, 5s, 2m, 1h, "
          "1d), "
          "and so have sizes (500B, 900KiB, 64MiB).")
      .Section("Keys");
  for (const KeySpec& spec : Keys()) {
    const std::string name = FullName(spec.name, SectionOf(spec), "");
    page.Entry(fmt::format("{} ({})", name, DescribeType(spec)),
               spec.default_text.empty() ? std::string(spec.doc)
                                         : fmt::format("{} Default: {}.", spec.doc, spec.default_text));
  }
  page.Section("Environment");
  page.Paragraph(
      "Every key has a variable: SEALANE_ and its name in capitals, with two underscores for each dot. "
      "route.main.order is "
      "SEALANE_ROUTE__MAIN__ORDER.");
  page.Section("See also").Paragraph("sealane(1)");
  return std::move(page).Finish();
}

}  // namespace sealane::cli
