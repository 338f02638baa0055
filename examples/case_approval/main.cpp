// Approves the cases of several tenants, keeps a read model of them elsewhere, and has mails sent about it.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "sealane/inbox.hpp"

#include "consumers.hpp"
#include "desk.hpp"

namespace {

using Words = std::vector<std::string>;

constexpr const char* kUsage =
    "usage: case_approval tenant STORE TENANT                     make a tenant known\n"
    "       case_approval open STORE TENANT CASE TITLE NOTE       begin a case; the note stays private\n"
    "       case_approval assign STORE TENANT CASE PERSON\n"
    "       case_approval approve STORE TENANT CASE PERSON\n"
    "       case_approval view STORE BROKER CONSUMER TOPIC TENANT,TENANT [caught-up]   keep the read model\n"
    "       case_approval mail STORE BROKER CONSUMER TOPIC TENANT,TENANT [caught-up]   turn commands into tasks\n"
    "STORE is postgres://... or sqlite:PATH, BROKER is kafka://... or journal:PATH\n";

Words Split(const std::string& list) {
  Words parts(1);
  for (const char c : list) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

sealane::InboxOptions Options(const Words& words) {
  // A name that stays the same over restarts, such as the pod's, has its partitions again at once.
  const char* const member = std::getenv("MEMBER");
  return {.store = words[0],
          .broker = words[1],
          .consumer = words[2],
          .topics = {words[3]},
          .tenants = Split(words[4]),  // whose event it is is settled before a handler sees it
          .member = member == nullptr ? "" : member};
}

int Consume(const Words& words, const sealane::InboxOptions& options, const sealane::Handlers& handlers) {
  sealane::Inbox inbox = ValueOrThrow(sealane::Inbox::Open(options, handlers));
  ValueOrThrow(words.size() > 5 ? inbox.RunUntilCaughtUp() : inbox.Run());
  const sealane::InboxStats stats = inbox.stats();
  std::printf("%llu applied, %llu stale\n", static_cast<unsigned long long>(stats.effects),
              static_cast<unsigned long long>(stats.stale));
  return 0;
}

int View(const Words& words) {
  sealane::InboxOptions options = Options(words);
  options.guard_versions = true;  // one version after the other: what is stale is ignored, what is early waits
  return Consume(words, options, cases::KeepView());
}

int Command(const std::string& command, const Words& words) {
  example::Database database(words[0]);
  const cases::Desk desk(database, words[1]);
  if (command == "open") {
    desk.Open(words[2], words[3], words[4]);
  } else if (command == "assign") {
    desk.Change(words[2], [&](cases::CaseFile& file) { file.Assign(words[3]); });
  } else {
    desk.Change(words[2], [&](cases::CaseFile& file) { file.Approve(words[3]); });
  }
  std::printf("%s %s: done\n", command.c_str(), words[2].c_str());
  return 0;
}

int AddTenant(const Words& words) {
  example::Database database(words[0]);
  example::Transaction tx(database);
  Execute(tx, "INSERT INTO tenant (tenant_id) VALUES ($1) ON CONFLICT DO NOTHING", {words[1]});
  tx.Commit();
  return 0;
}

int Run(const std::string& command, const Words& words) {
  if (command == "tenant" && words.size() == 2) return AddTenant(words);
  if (command == "open" && words.size() == 5) return Command(command, words);
  if ((command == "assign" || command == "approve") && words.size() == 4) return Command(command, words);
  if (command == "view" && words.size() >= 5) return View(words);
  if (command == "mail" && words.size() >= 5) return Consume(words, Options(words), cases::FulfilCommands());
  return std::fputs(kUsage, stderr), 2;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return argc < 2 ? Run("", {}) : Run(argv[1], Words(argv + 2, argv + argc));
  } catch (const std::exception& failure) {
    return std::fprintf(stderr, "case_approval: %s\n", failure.what()), 1;
  }
}
