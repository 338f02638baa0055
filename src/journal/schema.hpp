#pragma once

#include <cstdint>

namespace sealane::journal {

inline constexpr std::int64_t kApplicationId = 0x5ea1a0e;  ///< in the header of the file: this is a journal
inline constexpr std::int64_t kFormat = 2;

/// A message's row id is its partition's number times 2^40 plus its offset: one tree, in which the messages of a
/// partition stand together in order, and no index beside it. 2^40 messages per partition are a million a second for
/// twelve days, and one SQLite file ends long before.
inline constexpr std::int64_t kOffsetsPerPartition = std::int64_t{1} << 40;
constexpr std::int64_t RowIdOf(std::int64_t partition_id, std::int64_t offset) {
  return partition_id * kOffsetsPerPartition + offset;
}

/// Times are microseconds since 1970.
inline constexpr const char* kSchemaSql = R"sql(
CREATE TABLE journal_meta (
  id INTEGER PRIMARY KEY CHECK (id = 1) DEFAULT 1,
  made_at INTEGER NOT NULL
);
CREATE TABLE journal_identity (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE journal_topics (
  topic_id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  partitions INTEGER NOT NULL CHECK (partitions > 0)
);
CREATE TABLE journal_partitions (
  partition_id INTEGER PRIMARY KEY,
  topic_id INTEGER NOT NULL REFERENCES journal_topics,
  partition INTEGER NOT NULL,
  first_offset INTEGER NOT NULL DEFAULT 0,
  next_offset INTEGER NOT NULL DEFAULT 0 CHECK (next_offset >= first_offset),
  bytes INTEGER NOT NULL DEFAULT 0,
  UNIQUE (topic_id, partition)
);
CREATE TABLE journal_messages (
  place INTEGER PRIMARY KEY,
  published_at INTEGER NOT NULL,
  event_id BLOB NOT NULL CHECK (length(event_id) = 16),
  key TEXT NOT NULL,
  headers TEXT NOT NULL,
  value BLOB NOT NULL
);
CREATE TABLE journal_members (
  group_name TEXT NOT NULL,
  member TEXT NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (group_name, member)
) WITHOUT ROWID;
CREATE TABLE journal_member_topics (
  group_name TEXT NOT NULL,
  topic TEXT NOT NULL,
  member TEXT NOT NULL,
  PRIMARY KEY (group_name, topic, member)
) WITHOUT ROWID;
CREATE TABLE journal_group_offsets (
  group_name TEXT NOT NULL,
  partition_id INTEGER NOT NULL REFERENCES journal_partitions,
  next_offset INTEGER NOT NULL DEFAULT 0,
  owner TEXT,
  epoch INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (group_name, partition_id)
) WITHOUT ROWID;
)sql";

/// For journals of format 2 that were made before they had an identity. Row `birth`: 32 random hex digits, drawn
/// once. A copy of the file keeps it; a journal made anew has another one.
inline constexpr const char* kMakeIdentitySql = R"sql(
CREATE TABLE IF NOT EXISTS journal_identity (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;
INSERT INTO journal_identity (name, value) VALUES ('birth', lower(hex(randomblob(16)))) ON CONFLICT DO NOTHING;
)sql";

}  // namespace sealane::journal
