-- What is known of the pull requests of issues that were handed over. Outlives the claim.
CREATE TABLE watches (
  issue_id     TEXT    NOT NULL PRIMARY KEY,
  pull_request TEXT    NOT NULL, -- its address
  ended        INTEGER NOT NULL, -- 1 if nothing more is expected of it
  watch        TEXT    NOT NULL  -- JSON
) STRICT, WITHOUT ROWID;
