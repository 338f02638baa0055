-- Where consumers stand, in both modes. The journal's or the broker's own memory of a group is a hint: it can be lost,
-- and after a restore of this file it is ahead of it.
--
-- next_offset: everything below is done in this file; also in mode record now.
-- topic_id, witness_*: which topic that is about: the broker's name for it, and a fingerprint of a message that was done.
-- follows_group: a row from before this migration, without a position: that of the group at the broker counts.
-- stop_*: a member found that it cannot know where to go on. resume_from: what an operator decided (beginning,
-- group, an offset, a time); the next member takes it up.
ALTER TABLE sealane_inbox_partition ADD COLUMN topic_id TEXT;
ALTER TABLE sealane_inbox_partition ADD COLUMN witness_offset INTEGER;
ALTER TABLE sealane_inbox_partition ADD COLUMN witness BLOB;
ALTER TABLE sealane_inbox_partition ADD COLUMN follows_group INTEGER NOT NULL DEFAULT 0 CHECK (follows_group IN (0, 1));
ALTER TABLE sealane_inbox_partition ADD COLUMN stop_code TEXT;
ALTER TABLE sealane_inbox_partition ADD COLUMN stop_message TEXT;
ALTER TABLE sealane_inbox_partition ADD COLUMN stopped_at INTEGER;
ALTER TABLE sealane_inbox_partition ADD COLUMN resume_from TEXT;
-- How many batches the consumer has committed. A lower number than a running consumer remembers means that the file was
-- restored from an earlier copy.
ALTER TABLE sealane_inbox_consumer ADD COLUMN writes INTEGER NOT NULL DEFAULT 0;
UPDATE sealane_inbox_partition SET follows_group = 1 WHERE next_offset IS NULL;
