-- What symphony says in the tracker: at most one comment for each key, which is that of a notification. The row is stored before
-- the comment is made, so that a later pass looks for the comment of one that was killed.
CREATE TABLE comments (
  key      TEXT    NOT NULL PRIMARY KEY,
  issue_id TEXT    NOT NULL,
  number   INTEGER NOT NULL,            -- of the request; 0 for other comments
  id       TEXT    NOT NULL DEFAULT '', -- in the tracker; empty until it was made for certain
  at       INTEGER NOT NULL,            -- when it was made by the tracker's clock; until then, when that was first tried
  text     TEXT    NOT NULL DEFAULT '', -- a hash of what symphony has written
  shown    TEXT    NOT NULL DEFAULT '', -- a hash of what the tracker made of that; empty if unknown or the same
  problem  TEXT    NOT NULL DEFAULT '', -- what it says about a reply that was no answer
  seen     TEXT    NOT NULL DEFAULT '', -- the ids of the replies that were looked at: JSON
  done     INTEGER NOT NULL DEFAULT 0   -- it says how the request ended
) STRICT, WITHOUT ROWID;

CREATE INDEX comments_open ON comments (issue_id) WHERE done = 0;
