// Sealane's own connections to a SQLite file: durable settings, and a clear word about every file that will not do.

#include "sqlite/sqlite_store.hpp"

#include <filesystem>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sqlite/connection.hpp"
#include "sqlite/embedded_migrations.hpp"
#include "sqlite/sqlite_transaction.hpp"
#include "sqlite/statement.hpp"
#include "support/sample_events.hpp"
#include "support/sqlite_file.hpp"
#include "support/store_fixture.hpp"
#include "support/working_folder.hpp"

namespace sealane::sqlite {
namespace {

using namespace sealane::testing;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Pragma(const Connection& connection, std::string_view name) {
  auto pragma = ValueOrThrow(Statement::Prepare(connection.get(), fmt::format("PRAGMA {}", name)));
  EXPECT_TRUE(ValueOrThrow(pragma.Step()));
  return pragma.Text(0);
}

void Write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST(SqliteStore, OwnConnectionsAreDurable) {
  const SqliteFile file;
  file.Migrate();
  const auto connection = ValueOrThrow(Connection::Open({.path = file.path()}, Connection::IfMissing::kFail));
  EXPECT_EQ(Pragma(connection, "journal_mode"), "wal");
  EXPECT_EQ(Pragma(connection, "synchronous"), "2") << "FULL";
  EXPECT_EQ(Pragma(connection, "foreign_keys"), "1");
  EXPECT_EQ(Pragma(connection, "busy_timeout"), "5000");
}

TEST(SqliteStore, PutsAFileBackIntoWalMode) {
  const SqliteFile file;
  file.Migrate();
  SqliteHandle(file.path()).Execute("PRAGMA journal_mode = DELETE");
  const auto store = ValueOrThrow(OpenOutboxStore({.path = file.path()}));
  EXPECT_EQ(SqliteHandle(file.path()).Text("PRAGMA journal_mode"), "wal");
}

/// The file as it is, once more, and then in its place.
void ReplaceByACopy(const std::string& path) {
  SqliteHandle(path).Execute("VACUUM INTO '" + path + ".copy'");
  for (const auto* ending : {"-wal", "-shm"}) std::filesystem::remove(path + ending);
  std::filesystem::rename(path + ".copy", path);
}

TEST(SqliteStore, AppendsToTheFileThatIsBehindItsPathNow) {
  const SqliteFile file;
  file.Migrate();
  const auto store = ValueOrThrow(OpenOutboxStore({.path = file.path()}));
  const auto open = ValueOrThrow(store->Begin());
  ASSERT_TRUE(open->Append(std::vector{SampleEntry()}));
  ReplaceByACopy(file.path());
  const Status committed = open->Commit();
  ASSERT_FALSE(committed);
  EXPECT_EQ(committed.error().code(), "file_replaced");
  EXPECT_EQ(committed.error().kind(), ErrorKind::kUnavailable) << "nothing was written";
  ASSERT_TRUE(open->Rollback());

  const auto again = ValueOrThrow(store->Begin());
  ASSERT_TRUE(again->Append(std::vector{SampleEntry()}));
  ASSERT_TRUE(again->Commit());
  EXPECT_EQ(SqliteHandle(file.path()).Number("SELECT count(*) FROM sealane_outbox"), 1);
}

TEST(SqliteStore, ARelativePathNamesTheSameFileAfterAChangeOfDirectory) {
  const SqliteFile file;
  file.Migrate();
  const WorkingFolder first(file.folder());
  const std::string name = std::filesystem::path(file.path()).filename();
  const auto store = ValueOrThrow(OpenOutboxStore({.path = name}));
  const auto log = ValueOrThrow(OpenOutboxLog({.path = name}, "main", "relay-1"));
  const SqliteFile elsewhere;
  const WorkingFolder second(elsewhere.folder());
  const auto append = [&] {
    const auto open = store->Begin();
    ASSERT_TRUE(open) << open.error().ToString();
    ASSERT_TRUE((*open)->Append(std::vector{SampleEntry()}));
    const Status committed = (*open)->Commit();
    ASSERT_TRUE(committed) << committed.error().ToString();
  };
  append();
  EXPECT_EQ(ValueOrThrow(store->ListMessages({})).size(), 1U);
  const auto tended = log->Tend();
  EXPECT_TRUE(tended) << tended.error().ToString();
  ReplaceByACopy(file.path());
  EXPECT_EQ(ValueOrThrow(store->ListMessages({})).size(), 1U) << "opened again";
  append();
  EXPECT_EQ(SqliteHandle(file.path()).Number("SELECT count(*) FROM sealane_outbox"), 2);
}

TEST(SqliteStore, AnApplicationsConnectionToAReplacedFileTakesNoEvent) {
  const SqliteFile file;
  file.Migrate();
  const SqliteHandle application(file.path());
  application.Execute("BEGIN IMMEDIATE; CREATE TABLE theirs (a); COMMIT");
  ReplaceByACopy(file.path());
  application.Execute("BEGIN IMMEDIATE");
  SqliteTransaction transaction(application.get());
  const auto appended = transaction.Append(std::vector{SampleEntry()});
  ASSERT_FALSE(appended);
  EXPECT_EQ(appended.error().code(), "file_replaced");
  EXPECT_THAT(appended.error().hint(), HasSubstr("open the file again"));
}

TEST(SqliteStore, ADamagedCopyIsFoundOutBeforeItIsUsed) {
  const SqliteFile file;
  file.Migrate();
  const auto store = ValueOrThrow(OpenOutboxStore({.path = file.path()}));
  SqliteHandle(file.path()).Execute("PRAGMA wal_checkpoint(TRUNCATE)");
  std::filesystem::copy_file(file.path(), file.path() + ".copy");
  // What a plain copy of a file that was being written can look like: a page from another time.
  {
    std::fstream torn(file.path() + ".copy", std::ios::in | std::ios::out | std::ios::binary);
    torn.seekp(5 * 4096);
    torn << std::string(4096, 'x');
  }
  for (const auto* ending : {"-wal", "-shm"}) std::filesystem::remove(file.path() + ending);
  std::filesystem::rename(file.path() + ".copy", file.path());
  const auto listed = store->ListMessages({});
  ASSERT_FALSE(listed);
  EXPECT_EQ(listed.error().code(), "store_corrupt") << listed.error().ToString();
}

TEST(SqliteStore, AMissingFileIsNotMade) {
  const SqliteFile file;
  const auto store = OpenOutboxStore({.path = file.path()});
  ASSERT_FALSE(store.has_value());
  EXPECT_EQ(store.error().kind(), ErrorKind::kMisconfigured);
  EXPECT_EQ(store.error().code(), "database_missing");
  EXPECT_THAT(store.error().message(), HasSubstr(file.path()));
  EXPECT_THAT(store.error().hint(), HasSubstr("sealane migrate up"));
  ValueOrThrow(ValueOrThrow(OpenMigrator({.path = file.path()}))->Examine());
  EXPECT_FALSE(std::filesystem::exists(file.path()));
}

TEST(SqliteStore, AMissingFolderIsUnreachable) {
  const SqliteFile file;
  const auto migrated = ValueOrThrow(OpenMigrator({.path = file.folder() + "/none/store.db"}))->Up();
  ASSERT_FALSE(migrated.has_value());
  EXPECT_EQ(migrated.error().code(), "store_unreachable");
  EXPECT_THAT(migrated.error().ToString(), HasSubstr("/none/store.db"));
}

TEST(SqliteStore, AFolderIsNoFile) {
  const SqliteFile file;
  EXPECT_EQ(OpenOutboxStore({.path = file.folder()}).error().code(), "store_unreachable");
}

TEST(SqliteStore, AFileThatIsNoDatabaseIsCorrupt) {
  const SqliteFile file;
  Write(file.path(), std::string(5000, 'x'));
  const auto store = OpenOutboxStore({.path = file.path()});
  ASSERT_FALSE(store.has_value());
  EXPECT_EQ(store.error().kind(), ErrorKind::kCorrupt);
  EXPECT_EQ(store.error().code(), "store_corrupt");
  EXPECT_EQ(ValueOrThrow(OpenMigrator({.path = file.path()}))->Up().error().code(), "store_corrupt");
  EXPECT_EQ(std::filesystem::file_size(file.path()), 5000U) << "left as it was";
}

TEST(SqliteStore, DamagedPagesAreCorruptAndNothingIsReturned) {
  const SqliteFile file;
  file.Migrate();
  {
    const auto store = ValueOrThrow(OpenOutboxStore({.path = file.path()}));
    std::vector<NewEntry> entries;
    for (int i = 0; i < 200; ++i) entries.push_back(WithPayload(SampleEntry(), std::string(3000, 'p')));
    AppendAndCommit(*store, entries);
  }
  SqliteHandle(file.path()).Execute("PRAGMA wal_checkpoint(TRUNCATE)");
  const auto root =
      SqliteHandle(file.path()).Number("SELECT rootpage FROM sqlite_schema WHERE name = 'sealane_outbox'");
  const auto page = SqliteHandle(file.path()).Number("PRAGMA page_size");
  {
    std::fstream bytes(file.path(), std::ios::binary | std::ios::in | std::ios::out);
    bytes.seekp((root - 1) * page);
    bytes << std::string(static_cast<std::size_t>(page), '\xee');
  }
  const auto store = ValueOrThrow(OpenOutboxStore({.path = file.path()}));
  const auto listed = store->ListMessages({});
  ASSERT_FALSE(listed.has_value());
  EXPECT_EQ(listed.error().kind(), ErrorKind::kCorrupt);
  EXPECT_EQ(listed.error().code(), "store_corrupt");
}

TEST(SqliteStore, AnEmptyFileHasNoSchema) {
  const SqliteFile file;
  Write(file.path(), "");
  EXPECT_EQ(OpenOutboxStore({.path = file.path()}).error().code(), "schema_missing");
  file.Migrate();
  EXPECT_TRUE(OpenOutboxStore({.path = file.path()}).has_value());
}

TEST(SqliteStore, AFileInUtf16IsRefused) {
  const SqliteFile file;
  SqliteHandle(file.path()).Execute("PRAGMA encoding = 'UTF-16'; CREATE TABLE orders (id INTEGER)");
  const auto migrated = ValueOrThrow(OpenMigrator({.path = file.path()}))->Up();
  ASSERT_FALSE(migrated.has_value());
  EXPECT_EQ(migrated.error().code(), "not_supported");
  EXPECT_THAT(migrated.error().message(), HasSubstr("UTF-8"));
}

TEST(SqliteStore, NamesWithAMeaningForSqliteAreFiles) {
  const SqliteFile file;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(file.folder());
  for (const std::string name : {":memory:", "file:x?mode=memory", "with space %20.db"}) {
    ValueOrThrow(ValueOrThrow(OpenMigrator({.path = name}))->Up());
    EXPECT_TRUE(std::filesystem::exists(file.folder() + "/" + name)) << name;
    EXPECT_TRUE(OpenOutboxStore({.path = name}).has_value()) << name;
  }
  std::filesystem::current_path(before);
}

/// Files are opened by this thread as a user who owns nothing, also when the tests run as root.
class WithoutRights {
 public:
  WithoutRights() : user_(::setfsuid(kNobody)) {}
  ~WithoutRights() { ::setfsuid(static_cast<uid_t>(user_)); }
  WithoutRights(const WithoutRights&) = delete;
  WithoutRights& operator=(const WithoutRights&) = delete;

 private:
  static constexpr uid_t kNobody = 65'534;
  int user_;
};

TEST(SqliteStore, AReadOnlyFileCanBeReadAndSaysThatItCannotBeWritten) {
  const SqliteFile file;
  file.Migrate();
  AppendAndCommit(*ValueOrThrow(OpenOutboxStore({.path = file.path()})), {SampleEntry()});
  ::chmod(file.path().c_str(), 0444);
  ::chmod(file.folder().c_str(), 0777);  // the -wal and -shm files stand beside it
  const WithoutRights guard;
  const auto store = ValueOrThrow(OpenOutboxStore({.path = file.path()}));
  EXPECT_EQ(CountEvents(*store), 1U);
  const auto transaction = store->Begin();
  ASSERT_FALSE(transaction.has_value());
  EXPECT_EQ(transaction.error().kind(), ErrorKind::kMisconfigured);
  EXPECT_EQ(transaction.error().code(), "store_read_only");
}

TEST(SqliteStore, AFileThatMayNotBeReadIsUnreachable) {
  const SqliteFile file;
  file.Migrate();
  ::chmod(file.path().c_str(), 0000);
  const WithoutRights guard;
  EXPECT_EQ(OpenOutboxStore({.path = file.path()}).error().code(), "store_unreachable");
}

TEST(SqliteStore, HasOneTransactionAtATime) {
  const SqliteFile file;
  file.Migrate();
  const auto store = ValueOrThrow(OpenOutboxStore({.path = file.path()}));
  const auto transaction = ValueOrThrow(store->Begin());
  EXPECT_EQ(store->Begin().error().code(), "transaction_open");
  EXPECT_EQ(store->ListMessages({}).error().code(), "transaction_open") << "it would show uncommitted events";
  EXPECT_EQ(store->FindMessage(FreshId()).error().code(), "transaction_open");
  EXPECT_EQ(store->ForgetExpired(1).error().code(), "transaction_open");
}

TEST(SqliteStore, AnOldTransactionDoesNotWriteIntoANewOne) {
  const SqliteFile file;
  file.Migrate();
  const auto store = ValueOrThrow(OpenOutboxStore({.path = file.path()}));
  const auto ended = ValueOrThrow(store->Begin());
  ValueOrThrow(ended->Rollback());
  const auto current = ValueOrThrow(store->Begin());
  const NewEntry entry = SampleEntry();
  EXPECT_EQ(ended->Append({&entry, 1}).error().code(), "no_transaction");
  EXPECT_EQ(ended->Commit().error().code(), "no_transaction");
  ValueOrThrow(current->Commit());
  EXPECT_EQ(CountEvents(*store), 0U);
}

TEST(SqliteStore, ATransactionMayOutliveItsStore) {
  const SqliteFile file;
  file.Migrate();
  auto store = ValueOrThrow(OpenOutboxStore({.path = file.path()}));
  const auto transaction = ValueOrThrow(store->Begin());
  store.reset();
  const NewEntry entry = SampleEntry();
  ValueOrThrow(transaction->Append({&entry, 1}));
  ValueOrThrow(transaction->Commit());
  EXPECT_EQ(SqliteHandle(file.path()).Number("SELECT count(*) FROM sealane_outbox"), 1);
}

TEST(SqliteStore, RowsAreImmutable) {
  const SqliteFile file;
  file.Migrate();
  AppendAndCommit(*ValueOrThrow(OpenOutboxStore({.path = file.path()})), {SampleEntry(), SampleEntry()});
  const SqliteHandle sql(file.path());
  EXPECT_THAT(sql.ErrorOf("UPDATE sealane_outbox SET payload = x'00'"), HasSubstr("immutable"));
  EXPECT_THAT(sql.ErrorOf("UPDATE sealane_outbox SET seq = seq + 10"), HasSubstr("immutable"));
  const std::string columns = "(seq, event_id, topic, key, type, occurred_at, payload)";
  for (const char* seq : {"1", "2"}) {
    EXPECT_THAT(
        sql.ErrorOf(fmt::format("INSERT OR REPLACE INTO sealane_outbox {} VALUES ({}, '{}', 't', 'k', 't', 1, x'')",
                                columns, seq, FreshId().ToString())),
        HasSubstr("seq is given by the log"));
  }
  EXPECT_THAT(
      sql.ErrorOf(fmt::format("INSERT OR REPLACE INTO sealane_outbox {} SELECT NULL, event_id, 't', 'k', 't', 1, x''"
                              " FROM sealane_outbox WHERE seq = 1",
                              columns)),
      HasSubstr("duplicate event id"));
  EXPECT_EQ(sql.Number("SELECT count(*) FROM sealane_outbox WHERE key = 'o-1'"), 2);
  sql.Execute("DELETE FROM sealane_outbox WHERE seq = 1");  // retention may
  EXPECT_EQ(sql.Number("SELECT count(*) FROM sealane_outbox"), 1);
}

TEST(SqliteStore, ASeqIsNeverUsedAgain) {
  const SqliteFile file;
  file.Migrate();
  const auto store = ValueOrThrow(OpenOutboxStore({.path = file.path()}));
  AppendAndCommit(*store, {SampleEntry(), SampleEntry()});
  SqliteHandle(file.path()).Execute("DELETE FROM sealane_outbox");
  AppendAndCommit(*store, {SampleEntry()});
  EXPECT_EQ(ValueOrThrow(store->ListMessages({})).at(0).seq, 3);
}

TEST(SqliteStore, ChangedBytesAreNoticed) {
  const SqliteFile file;
  file.Migrate();
  const NewEntry entry = SampleEntry();
  const auto store = ValueOrThrow(OpenOutboxStore({.path = file.path()}));
  AppendAndCommit(*store, {entry});
  SqliteHandle(file.path())
      .Execute(
          "DROP TRIGGER sealane_outbox_is_immutable;"
          "UPDATE sealane_outbox SET payload = x'7b7d'");
  EXPECT_EQ(store->FindMessage(entry.envelope.id).error().code(), "payload_hash_mismatch");
  SqliteHandle(file.path())
      .Execute("PRAGMA ignore_check_constraints = ON; UPDATE sealane_outbox SET headers = '[1]'");
  EXPECT_EQ(store->FindMessage(entry.envelope.id).error().kind(), ErrorKind::kCorrupt);
}

TEST(SqliteMigrator, ASchemaMadeByHandIsAsGoodAsItsOwn) {
  const SqliteFile file;
  const auto migrator = ValueOrThrow(OpenMigrator({.path = file.path()}));
  std::string script;
  for (const Migration& migration : EmbeddedMigrations()) script += migrator->Render(migration);
  SqliteHandle(file.path()).Execute("BEGIN;" + script + "COMMIT;");
  EXPECT_THAT(ValueOrThrow(migrator->Up()), IsEmpty());
  const auto store = ValueOrThrow(OpenOutboxStore({.path = file.path()}));
  AppendAndCommit(*store, {SampleEntry()});
  EXPECT_EQ(CountEvents(*store), 1U);
}

}  // namespace
}  // namespace sealane::sqlite
