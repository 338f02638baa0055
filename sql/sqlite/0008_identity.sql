-- Which outbox this file is, and whether it is still the one that a relay knows.
--
-- birth: 32 random hex digits, drawn once. Every copy of the file keeps them, a file made anew has others. A relay that
-- finds another birth behind its path stops.
CREATE TABLE sealane_identity (
  id    INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
  birth TEXT    NOT NULL CHECK (length(birth) = 32 AND birth NOT GLOB '*[^0-9a-f]*')
) STRICT;
INSERT INTO sealane_identity (id, birth) VALUES (1, lower(hex(randomblob(16))));

CREATE TRIGGER sealane_identity_is_fixed BEFORE UPDATE ON sealane_identity
BEGIN
  SELECT RAISE(ABORT, 'sealane: the birth of an outbox is drawn once');
END;

-- How often the holder of the lease has written this row. A number below the one that the holder remembers means that
-- the file was restored from an earlier copy: the holder then drops what it has in memory and claims the lane again.
ALTER TABLE sealane_cursor ADD COLUMN writes INTEGER NOT NULL DEFAULT 0;
