-- What remains to be done about the commits of an issue, and what became of those of a run: JSON.
ALTER TABLE claims ADD COLUMN delivery TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN delivery TEXT NOT NULL DEFAULT '';

-- What was pushed last for an issue. Outlives claims and runs.
CREATE TABLE deliveries (
  issue_id TEXT    NOT NULL PRIMARY KEY,
  url      TEXT    NOT NULL, -- of the repository
  branch   TEXT    NOT NULL,
  "commit" TEXT    NOT NULL,
  base     TEXT    NOT NULL,
  at       INTEGER NOT NULL,
  pull_request TEXT NOT NULL -- its address; empty if there is none
) STRICT, WITHOUT ROWID;
