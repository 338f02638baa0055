#include "commands/migrate.hpp"

#include <ostream>

#include <fmt/format.h>

#include "base/time_text.hpp"

namespace sealane::cli {
namespace {

std::string AppliedJson(const std::vector<AppliedMigration>& applied) {
  std::vector<std::string> items;
  for (const AppliedMigration& migration : applied) {
    items.push_back(JsonDocument()
                        .Integer("number", migration.number)
                        .Text("name", migration.name)
                        .Time("applied_at", migration.applied_at)
                        .Finish());
  }
  return JsonArray(items);
}

std::string PendingJson(const Migrator& migrator, const std::vector<Migration>& pending, bool with_sql) {
  std::vector<std::string> items;
  for (const Migration& migration : pending) {
    JsonDocument item;
    item.Integer("number", migration.number).Text("name", migration.name);
    if (with_sql) item.Text("sql", migrator.Render(migration));
    items.push_back(item.Finish());
  }
  return JsonArray(items);
}

JsonDocument StateJson(const SchemaState& state) {
  JsonDocument json;
  json.Text("apiVersion", kApiVersion).Integer("installed", state.installed).Integer("known", state.known);
  return json;
}

// Shared by `plan` and `up --sql`.
Result<ExitCode> PrintPlan(CommandContext& context, Migrator& migrator, bool sql) {
  SEALANE_ASSIGN_OR_RETURN(const SchemaState state, migrator.Examine());
  if (state.installed > state.known) return SchemaIsNewer(state.installed, state.known);
  if (!context.is_table()) {
    context.out() << StateJson(state).Raw("pending", PendingJson(migrator, state.pending, sql)).Finish() << '\n';
    return ExitCode::kDone;
  }
  if (sql) {
    for (const Migration& migration : state.pending) context.out() << migrator.Render(migration);
    return ExitCode::kDone;
  }
  if (state.pending.empty()) {
    context.out() << fmt::format("nothing to do: the schema is at version {}\n", state.installed);
    return ExitCode::kDone;
  }
  for (const Migration& migration : state.pending) {
    context.out() << fmt::format("would apply {:04} {}\n", migration.number, migration.name);
  }
  context.SuggestNext("sealane migrate up");
  return ExitCode::kDone;
}

class MigratePlanCommand final : public Command {
 public:
  std::string_view path() const override { return "migrate plan"; }
  std::string_view summary() const override { return "show what `migrate up` would do, and change nothing"; }
  std::vector<std::string_view> examples() const override {
    return {"sealane migrate plan", "sealane migrate plan --sql > sealane.sql"};
  }
  std::vector<OptionSpec> Options() override { return {{"--sql", "", "print the SQL", &sql_}}; }
  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_ASSIGN_OR_RETURN(const auto migrator, context.OpenStoreMigrator());
    return PrintPlan(context, *migrator, sql_);
  }

 private:
  bool sql_ = false;
};

class MigrateUpCommand final : public Command {
 public:
  std::string_view path() const override { return "migrate up"; }
  std::string_view summary() const override { return "create or update the tables; safe to run again"; }
  std::vector<std::string_view> examples() const override {
    return {"sealane migrate up --store sqlite:./shop.db", "sealane migrate up --store postgres://owner@db/shop"};
  }
  std::vector<OptionSpec> Options() override { return {{"--sql", "", "print the SQL instead of running it", &sql_}}; }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_ASSIGN_OR_RETURN(const auto migrator, context.OpenStoreMigrator());
    if (sql_) return PrintPlan(context, *migrator, true);
    context.OnInterrupt("the migration was rolled back or had just finished, look with: sealane migrate status");
    SEALANE_ASSIGN_OR_RETURN(const auto applied, migrator->Up());
    if (!context.is_table()) {
      context.out() << JsonDocument().Text("apiVersion", kApiVersion).Raw("applied", AppliedJson(applied)).Finish()
                    << '\n';
      return ExitCode::kDone;
    }
    for (const AppliedMigration& migration : applied) {
      context.out() << fmt::format("applied {:04} {}\n", migration.number, migration.name);
    }
    if (applied.empty()) context.out() << "nothing to do: the schema is up to date\n";
    context.SuggestNext("sealane emit --topic orders --key o-1 --type OrderPlaced --payload '{\"id\":1}'");
    return ExitCode::kDone;
  }

 private:
  bool sql_ = false;
};

class MigrateStatusCommand final : public Command {
 public:
  std::string_view path() const override { return "migrate status"; }
  std::string_view summary() const override {
    return "compare the store's tables with this program (exit 0, 3 or 12)";
  }
  std::vector<std::string_view> examples() const override {
    return {"sealane migrate status", "sealane migrate status -o json"};
  }
  std::vector<OptionSpec> Options() override { return {}; }

  Result<ExitCode> Run(CommandContext& context) override {
    SEALANE_ASSIGN_OR_RETURN(const auto migrator, context.OpenStoreMigrator());
    SEALANE_ASSIGN_OR_RETURN(const SchemaState state, migrator->Examine());
    const bool newer = state.installed > state.known;
    const char* const word = newer ? "newer" : state.pending.empty() ? "up_to_date" : "pending";
    if (context.is_table()) {
      PrintTable(context, state);
    } else {
      context.out() << StateJson(state)
                           .Text("state", word)
                           .Raw("applied", AppliedJson(state.applied))
                           .Raw("pending", PendingJson(*migrator, state.pending, false))
                           .Finish()
                    << '\n';
    }
    if (newer) return ExitCode::kSchemaMismatch;
    return state.pending.empty() ? ExitCode::kDone : ExitCode::kConditionFalse;
  }

 private:
  static void PrintTable(CommandContext& context, const SchemaState& state) {
    Table table({"NUMBER", "NAME", "APPLIED"});
    for (const AppliedMigration& migration : state.applied) {
      table.Add({fmt::format("{:04}", migration.number), migration.name, ToRfc3339(migration.applied_at)});
    }
    for (const Migration& migration : state.pending) {
      table.Add({fmt::format("{:04}", migration.number), std::string(migration.name), "pending"});
    }
    context.out() << table.Render(context.color());
    if (state.installed > state.known) {
      context.err() << fmt::format("the schema is version {}, newer than this program, which knows up to {}\n",
                                   state.installed, state.known);
    } else if (!state.pending.empty()) {
      context.SuggestNext("sealane migrate up");
    }
  }
};

}  // namespace

std::unique_ptr<Command> MakeMigratePlanCommand() {
  return std::make_unique<MigratePlanCommand>();
}
std::unique_ptr<Command> MakeMigrateUpCommand() {
  return std::make_unique<MigrateUpCommand>();
}
std::unique_ptr<Command> MakeMigrateStatusCommand() {
  return std::make_unique<MigrateStatusCommand>();
}

}  // namespace sealane::cli
