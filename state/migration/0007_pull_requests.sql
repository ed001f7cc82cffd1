-- The newest pull request of an issue's branch, as the tracker described it last. Outlives the claim.
CREATE TABLE pull_requests (
  issue_id   TEXT    NOT NULL PRIMARY KEY,
  identifier TEXT    NOT NULL,
  request    TEXT    NOT NULL, -- JSON
  seen_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
