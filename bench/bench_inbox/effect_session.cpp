#include "bench_inbox/effect_session.hpp"

#include <cstddef>

#include <sqlite3.h>

#include "common/session.hpp"

namespace sealane::bench {
namespace {

constexpr const char* kName = "upsert";
constexpr std::string_view kSqlite = "sqlite:";

class PostgresEffects : public EffectSession {
 public:
  explicit PostgresEffects(const std::string& url) : session_(url) {
    session_.Checked(PQprepare(session_.get(), kName, UpsertSql(false).c_str(), 0, nullptr));
  }
  void Begin() override { session_.Exec("begin"); }
  void Upsert(const std::string& key, const std::string& payload) override {
    const char* const values[] = {key.c_str(), payload.c_str()};
    session_.Checked(PQexecPrepared(session_.get(), kName, 2, values, nullptr, nullptr, 0));
  }
  void Commit() override { session_.Exec("commit"); }

 protected:
  const Session& session() const { return session_; }

 private:
  Session session_;
};

/// Sends everything from BEGIN to COMMIT before it reads the first answer.
class PipelinedEffects final : public PostgresEffects {
 public:
  explicit PipelinedEffects(const std::string& url) : PostgresEffects(url) {
    if (PQenterPipelineMode(session().get()) != 1) Fail("no pipeline mode");
  }
  void Begin() override { Send("begin"); }
  void Upsert(const std::string& key, const std::string& payload) override {
    const char* const values[] = {key.c_str(), payload.c_str()};
    Check(PQsendQueryPrepared(session().get(), kName, 2, values, nullptr, nullptr, 0));
    ++sent_;
  }
  void Commit() override {
    Send("commit");
    Check(PQpipelineSync(session().get()));
    for (; sent_ > 0; --sent_) {
      session().Checked(PQgetResult(session().get()));
      (void)PQgetResult(session().get());  // the null after each
    }
    const PgResult sync(PQgetResult(session().get()));
    if (PQresultStatus(sync.get()) != PGRES_PIPELINE_SYNC) Fail("the pipeline is out of step");
  }

 private:
  void Send(const char* sql) {
    Check(PQsendQueryParams(session().get(), sql, 0, nullptr, nullptr, nullptr, nullptr, 0));
    ++sent_;
  }
  void Check(int sent) const {
    if (sent != 1) Fail(PQerrorMessage(session().get()));
  }

  std::size_t sent_ = 0;
};

/// In WAL mode and synchronous FULL, as our store opens its file.
class SqliteEffects final : public EffectSession {
 public:
  explicit SqliteEffects(const std::string& path) {
    Check(sqlite3_open(path.c_str(), &file_));
    Run("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL");
    Check(sqlite3_prepare_v2(file_, UpsertSql(true).c_str(), -1, &upsert_, nullptr));
    Check(sqlite3_prepare_v2(file_, "BEGIN IMMEDIATE", -1, &begin_, nullptr));
    Check(sqlite3_prepare_v2(file_, "COMMIT", -1, &commit_, nullptr));
  }
  ~SqliteEffects() override {
    for (sqlite3_stmt* statement : {upsert_, begin_, commit_}) sqlite3_finalize(statement);
    sqlite3_close(file_);
  }
  SqliteEffects(const SqliteEffects&) = delete;
  SqliteEffects& operator=(const SqliteEffects&) = delete;

  void Begin() override { Step(begin_); }
  void Upsert(const std::string& key, const std::string& payload) override {
    Bind(1, key);
    Bind(2, payload);
    Step(upsert_);
  }
  void Commit() override { Step(commit_); }

 private:
  void Bind(int place, const std::string& text) {
    Check(sqlite3_bind_text(upsert_, place, text.data(), static_cast<int>(text.size()), SQLITE_STATIC));
  }
  void Step(sqlite3_stmt* statement) {
    if (sqlite3_step(statement) != SQLITE_DONE) Fail(sqlite3_errmsg(file_));
    sqlite3_reset(statement);
  }
  void Run(const char* sql) { Check(sqlite3_exec(file_, sql, nullptr, nullptr, nullptr)); }
  void Check(int code) const {
    if (code != SQLITE_OK) Fail(sqlite3_errmsg(file_));
  }

  sqlite3* file_ = nullptr;
  sqlite3_stmt* upsert_ = nullptr;
  sqlite3_stmt* begin_ = nullptr;
  sqlite3_stmt* commit_ = nullptr;
};

}  // namespace

std::unique_ptr<EffectSession> OpenEffects(const Contestant& contestant) {
  if (contestant.store.starts_with(kSqlite)) {
    return std::make_unique<SqliteEffects>(contestant.store.substr(kSqlite.size()));
  }
  if (contestant.way == "pipelined") return std::make_unique<PipelinedEffects>(contestant.store);
  return std::make_unique<PostgresEffects>(contestant.store);
}

}  // namespace sealane::bench
