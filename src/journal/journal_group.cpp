#include "journal/journal_group.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "journal/database.hpp"

namespace sealane {

using journal::Database;
using journal::Query;
using journal::WriteTransaction;

namespace {

/// A partition of the member's topics, as the group has it.
struct Share {
  std::int64_t partition_id = 0;
  JournalClaim claim;
  std::string owner;  // empty: nobody living
};

/// Two lives of one member have different identities: its name and when it joined, with this between them.
constexpr char kNameEnd = '\x1f';

}  // namespace

class JournalGroupMember::Impl {
 public:
  Impl(Database database, JournalGroupOptions options, Clock& clock)
      : database_(std::move(database)), options_(std::move(options)), clock_(clock) {}

  Status Prepare() {
    const std::pair<Query*, std::string_view> statements[] = {
        {&beat_,
         "INSERT INTO journal_members (group_name, member, expires_at) VALUES (?, ?, ?) "
         "ON CONFLICT DO UPDATE SET expires_at = excluded.expires_at"},
        {&bury_, "DELETE FROM journal_members WHERE group_name = ? AND expires_at <= ?"},
        {&add_topic_,
         "INSERT INTO journal_member_topics (group_name, topic, member) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"},
        {&forget_topics_, "DELETE FROM journal_member_topics WHERE group_name = ? AND member = ?"},
        {&bury_topics_,
         "DELETE FROM journal_member_topics WHERE group_name = ?1 AND member NOT IN "
         "(SELECT m.member FROM journal_members m WHERE m.group_name = ?1)"},
        {&readers_, "SELECT member FROM journal_member_topics WHERE group_name = ? AND topic = ? ORDER BY member"},
        // Topics may come to be after the group: their partitions join it here.
        {&add_partitions_,
         "INSERT INTO journal_group_offsets (group_name, partition_id, next_offset) "
         "SELECT ?, p.partition_id, p.first_offset "
         "FROM journal_topics t JOIN journal_partitions p USING (topic_id) WHERE t.name = ? ON CONFLICT DO NOTHING"},
        {&shares_,
         "SELECT g.partition_id, p.partition, g.next_offset, g.epoch, m.member "
         "FROM journal_topics t JOIN journal_partitions p USING (topic_id) "
         "JOIN journal_group_offsets g ON g.partition_id = p.partition_id AND g.group_name = ? "
         "LEFT JOIN journal_members m ON m.group_name = g.group_name AND m.member = g.owner "
         "WHERE t.name = ? ORDER BY p.partition"},
        {&take_,
         "UPDATE journal_group_offsets SET owner = ?, epoch = epoch + 1 WHERE group_name = ? AND partition_id = ?"},
        {&give_back_,
         "UPDATE journal_group_offsets SET owner = NULL WHERE group_name = ? AND owner = ? AND epoch = ? "
         "AND partition_id = (SELECT p.partition_id FROM journal_topics t JOIN journal_partitions p USING (topic_id) "
         "WHERE t.name = ? AND p.partition = ?)"},
        {&fence_,
         "UPDATE journal_group_offsets SET owner = NULL, epoch = epoch + 1 WHERE group_name = ? AND owner = ?"},
        {&namesakes_,
         "SELECT member FROM journal_members WHERE group_name = ?1 AND substr(member, 1, length(?2)) = ?2 "
         "AND member <> ?3"},
        {&acknowledge_,
         "UPDATE journal_group_offsets SET next_offset = max(next_offset, ?1) "
         "WHERE group_name = ?2 AND owner = ?3 AND epoch = ?4 AND partition_id = "
         "(SELECT p.partition_id FROM journal_topics t JOIN journal_partitions p USING (topic_id) "
         "WHERE t.name = ?5 AND p.partition = ?6) RETURNING partition_id"},
        {&leave_, "DELETE FROM journal_members WHERE group_name = ? AND member = ?"},
    };
    for (const auto& [query, sql] : statements) {
      SEALANE_ASSIGN_OR_RETURN(*query, database_.Prepare(sql));
    }
    return Ok();
  }

  Status FenceFormer() {
    SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(database_));
    SEALANE_ASSIGN_OR_RETURN(const std::vector<std::string> formers, Namesakes());
    // A clock that stands still, or steps back, must not make two lives look like one.
    auto joined_at = clock_.Now().time_since_epoch().count();
    do {
      identity_ = NamePrefix() + std::to_string(joined_at++);
    } while (std::ranges::count(formers, identity_) != 0);
    for (const std::string& former : formers) SEALANE_RETURN_IF_ERROR(Remove(former));
    SEALANE_RETURN_IF_ERROR(Beat());
    return transaction.Commit();
  }

  Result<std::vector<JournalClaim>> Keep() {
    SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(database_));
    SEALANE_RETURN_IF_ERROR(bury_.Bind(options_.group).Bind(clock_.Now()).Run());
    SEALANE_RETURN_IF_ERROR(bury_topics_.Bind(options_.group).Run());
    SEALANE_ASSIGN_OR_RETURN(const std::vector<std::string> namesakes, Namesakes());
    if (!namesakes.empty()) return Fenced();
    SEALANE_RETURN_IF_ERROR(Beat());
    // Topics with the same readers are shared as one, each of these readers taking an equal part: so every partition
    // has somebody, whatever else the others read.
    std::map<std::vector<std::string>, std::vector<Share>> by_readers;
    for (const std::string& topic : options_.topics) {
      SEALANE_ASSIGN_OR_RETURN(std::vector<std::string> readers, ReadersOf(topic));
      SEALANE_RETURN_IF_ERROR(AddShares(topic, by_readers[std::move(readers)]));
    }
    for (auto& [readers, shares] : by_readers) {
      SEALANE_RETURN_IF_ERROR(Balance(shares, (shares.size() + readers.size() - 1) / readers.size()));
    }
    SEALANE_RETURN_IF_ERROR(transaction.Commit());

    std::vector<JournalClaim> claims;
    for (auto& [readers, shares] : by_readers) {
      for (Share& share : shares) {
        if (share.owner == identity_) claims.push_back(std::move(share.claim));
      }
    }
    std::ranges::sort(claims, {}, [](const JournalClaim& claim) { return std::tie(claim.topic, claim.partition); });
    return claims;
  }

  Status GiveBack(const JournalClaim& claim) {
    return give_back_.Bind(options_.group)
        .Bind(identity_)
        .Bind(claim.epoch)
        .Bind(claim.topic)
        .Bind(std::int64_t{claim.partition})
        .Run();
  }

  Status Acknowledge(const JournalClaim& claim, std::int64_t next_offset) {
    SEALANE_ASSIGN_OR_RETURN(const bool done, Advance(claim, next_offset));
    if (done) return Ok();
    return Error(ErrorKind::kFenced, "claim_lost",
                 fmt::format("partition {} of {} is no longer ours to read for {}", claim.partition,
                             EscapeForTerminal(claim.topic), EscapeForTerminal(options_.group)))
        .WithHint("stop reading the partition; another member of the group goes on with it");
  }

  Status AcknowledgeAll(std::span<const std::pair<JournalClaim, std::int64_t>> positions) {
    SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(database_));
    for (const auto& [claim, next_offset] : positions) SEALANE_RETURN_IF_ERROR(Advance(claim, next_offset));
    return transaction.Commit();
  }

  Status Leave() {
    SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(database_));
    SEALANE_RETURN_IF_ERROR(Remove(identity_));
    return transaction.Commit();
  }

 private:
  std::string NamePrefix() const { return options_.member + kNameEnd; }

  // Other lives of this member that the group knows of.
  Result<std::vector<std::string>> Namesakes() {
    const std::string prefix = NamePrefix();
    namesakes_.Bind(options_.group).Bind(prefix).Bind(identity_);
    return Texts(namesakes_);
  }

  Error Fenced() const {
    return Error(ErrorKind::kFenced, "member_fenced",
                 fmt::format("another process reads for {} as {}", EscapeForTerminal(options_.group),
                             EscapeForTerminal(options_.member)))
        .WithHint("give every member of a group a name of its own");
  }

  Status Remove(const std::string& identity) {
    SEALANE_RETURN_IF_ERROR(fence_.Bind(options_.group).Bind(identity).Run());
    SEALANE_RETURN_IF_ERROR(leave_.Bind(options_.group).Bind(identity).Run());
    return forget_topics_.Bind(options_.group).Bind(identity).Run();
  }

  // False when the partition is no longer ours.
  Result<bool> Advance(const JournalClaim& claim, std::int64_t next_offset) {
    acknowledge_.Reset();
    acknowledge_.Bind(next_offset)
        .Bind(options_.group)
        .Bind(identity_)
        .Bind(claim.epoch)
        .Bind(claim.topic)
        .Bind(std::int64_t{claim.partition});
    SEALANE_ASSIGN_OR_RETURN(const bool done, acknowledge_.Step());
    SEALANE_RETURN_IF_ERROR(acknowledge_.Run());
    return done;
  }

  // The first column of all rows.
  static Result<std::vector<std::string>> Texts(Query& query) {
    std::vector<std::string> texts;
    while (true) {
      SEALANE_ASSIGN_OR_RETURN(const bool row, query.Step());
      if (!row) break;
      texts.push_back(query.Bytes(0));
    }
    query.Reset();
    return texts;
  }

  // Also says again what this member reads: the others forget it when it was late.
  Status Beat() {
    for (const std::string& topic : options_.topics) {
      SEALANE_RETURN_IF_ERROR(add_topic_.Bind(options_.group).Bind(topic).Bind(identity_).Run());
    }
    return beat_.Bind(options_.group).Bind(identity_).Bind(clock_.Now() + options_.lease).Run();
  }

  Status AddShares(const std::string& topic, std::vector<Share>& shares) {
    SEALANE_RETURN_IF_ERROR(add_partitions_.Bind(options_.group).Bind(topic).Run());
    shares_.Bind(options_.group).Bind(topic);
    while (true) {
      SEALANE_ASSIGN_OR_RETURN(const bool row, shares_.Step());
      if (!row) break;
      shares.push_back({.partition_id = shares_.Int(0),
                        .claim = {.topic = topic,
                                  .partition = static_cast<std::int32_t>(shares_.Int(1)),
                                  .next_offset = shares_.Int(2),
                                  .epoch = shares_.Int(3)},
                        .owner = shares_.Bytes(4)});
    }
    shares_.Reset();
    return Ok();
  }

  // The members that read a topic, this one among them.
  Result<std::vector<std::string>> ReadersOf(const std::string& topic) {
    readers_.Bind(options_.group).Bind(topic);
    return Texts(readers_);
  }

  // Takes what nobody living has, and marks from the end what is too much. The living are not robbed: they give back
  // themselves.
  Status Balance(std::vector<Share>& shares, std::size_t fair_share) {
    auto held = static_cast<std::size_t>(
        std::ranges::count_if(shares, [&](const Share& share) { return share.owner == identity_; }));
    std::size_t too_many = held > fair_share ? held - fair_share : 0;
    for (auto share = shares.rbegin(); share != shares.rend() && too_many > 0; ++share) {
      if (share->owner != identity_) continue;
      share->claim.leaving = true;
      --too_many;
    }
    for (Share& share : shares) {
      if (held >= fair_share) break;
      if (!share.owner.empty()) continue;
      SEALANE_RETURN_IF_ERROR(take_.Bind(identity_).Bind(options_.group).Bind(share.partition_id).Run());
      share.owner = identity_;
      ++share.claim.epoch;
      ++held;
    }
    return Ok();
  }

  Database database_;
  const JournalGroupOptions options_;
  Clock& clock_;
  std::string identity_;  // what the tables know this member by
  Query beat_;
  Query bury_;
  Query add_topic_;
  Query forget_topics_;
  Query bury_topics_;
  Query readers_;
  Query add_partitions_;
  Query shares_;
  Query take_;
  Query give_back_;
  Query fence_;
  Query namesakes_;
  Query acknowledge_;
  Query leave_;
};

JournalGroupMember::JournalGroupMember(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
JournalGroupMember::~JournalGroupMember() = default;

Result<std::unique_ptr<JournalGroupMember>> JournalGroupMember::Join(const JournalOptions& journal,
                                                                     JournalGroupOptions options, Clock& clock) {
  if (options.group.empty() || options.member.empty()) {
    return Error(ErrorKind::kMisuse, "invalid_member", "a group and each of its members have a name");
  }
  if (options.member.find(kNameEnd) != std::string::npos) {
    return Error(ErrorKind::kMisuse, "invalid_member", "the name of a member has no control characters");
  }
  SEALANE_ASSIGN_OR_RETURN(
      Database database, Database::Open(journal.path, Database::IfMissing::kMakeFile, journal.busy_patience, clock));
  auto impl = std::make_unique<Impl>(std::move(database), std::move(options), clock);
  SEALANE_RETURN_IF_ERROR(impl->Prepare());
  SEALANE_RETURN_IF_ERROR(impl->FenceFormer());
  return std::unique_ptr<JournalGroupMember>(new JournalGroupMember(std::move(impl)));
}

Result<std::vector<JournalClaim>> JournalGroupMember::Keep() {
  return impl_->Keep();
}

Status JournalGroupMember::GiveBack(const JournalClaim& claim) {
  return impl_->GiveBack(claim);
}

Status JournalGroupMember::AcknowledgeAll(std::span<const std::pair<JournalClaim, std::int64_t>> positions) {
  return impl_->AcknowledgeAll(positions);
}

Status JournalGroupMember::Acknowledge(const JournalClaim& claim, std::int64_t next_offset) {
  return impl_->Acknowledge(claim, next_offset);
}

Status JournalGroupMember::Leave() {
  return impl_->Leave();
}

Status ForgetJournalGroup(const JournalOptions& journal, const std::string& group, Clock& clock) {
  SEALANE_ASSIGN_OR_RETURN(const Database database,
                           Database::Open(journal.path, Database::IfMissing::kFail, journal.busy_patience, clock));
  SEALANE_ASSIGN_OR_RETURN(WriteTransaction transaction, WriteTransaction::Begin(database));
  SEALANE_ASSIGN_OR_RETURN(Query living,
                           database.Prepare("SELECT 1 FROM journal_members WHERE group_name = ? AND expires_at > ?"));
  SEALANE_ASSIGN_OR_RETURN(const bool in_use, living.Bind(group).Bind(clock.Now()).Step());
  living.Reset();
  if (in_use) {
    return Error(ErrorKind::kConflict, "group_in_use",
                 fmt::format("group {} has a living member", EscapeForTerminal(group)))
        .WithHint("stop its members first");
  }
  for (const char* const sql :
       {"DELETE FROM journal_members WHERE group_name = ?", "DELETE FROM journal_member_topics WHERE group_name = ?",
        "DELETE FROM journal_group_offsets WHERE group_name = ?"}) {
    SEALANE_ASSIGN_OR_RETURN(Query remove, database.Prepare(sql));
    SEALANE_RETURN_IF_ERROR(remove.Bind(group).Run());
  }
  return transaction.Commit();
}

}  // namespace sealane
