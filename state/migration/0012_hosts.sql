-- Runs on other machines. What is known of a run on its host: empty (nothing was begun there), begun, ended or gone; and when its worker
-- last had a link to the host.
ALTER TABLE runs ADD COLUMN remote TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN heard_at INTEGER;

-- An issue has at most one run that may be at work on a host.
CREATE UNIQUE INDEX runs_there ON runs (issue_id) WHERE remote = 'begun';

-- The workspaces on hosts, as the last run there has seen them.
CREATE TABLE remote_workspaces (
  issue_id  TEXT NOT NULL,
  host      TEXT NOT NULL,
  root      TEXT NOT NULL,
  run_id    TEXT NOT NULL, -- that run
  workspace TEXT NOT NULL, -- JSON
  PRIMARY KEY (issue_id, host, root)
) STRICT, WITHOUT ROWID;
