-- The first schema. Times are UTC milliseconds since 1970, NULL where there is none; texts without a value
-- are empty, except outcome and stop_reason, whose NULL is what compare-and-swap statements look for.

CREATE TABLE meta (
  key   TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE claims (
  issue_id        TEXT    NOT NULL PRIMARY KEY,
  identifier      TEXT    NOT NULL,
  status          TEXT    NOT NULL,
  version         INTEGER NOT NULL CHECK (version > 0),
  run_id          TEXT    NOT NULL DEFAULT '',
  attempt         INTEGER NOT NULL DEFAULT 0,
  kind            TEXT    NOT NULL DEFAULT '',
  due_at          INTEGER,
  error_code      TEXT    NOT NULL DEFAULT '',
  error_message   TEXT    NOT NULL DEFAULT '',
  hold_reason     TEXT    NOT NULL DEFAULT '',
  hold_message    TEXT    NOT NULL DEFAULT '',
  held_at         INTEGER,
  hold_comment_at INTEGER,
  hold_next       INTEGER NOT NULL DEFAULT 0,
  failures        INTEGER NOT NULL DEFAULT 0,
  idle_runs       INTEGER NOT NULL DEFAULT 0,
  runs            INTEGER NOT NULL DEFAULT 0,
  interruptions   INTEGER NOT NULL DEFAULT 0,
  token_base      INTEGER NOT NULL DEFAULT 0,
  issue           TEXT    NOT NULL,
  project         TEXT    NOT NULL DEFAULT '',
  workspace_root  TEXT    NOT NULL DEFAULT '',
  claimed_at      INTEGER NOT NULL,
  updated_at      INTEGER NOT NULL
) STRICT;

CREATE INDEX claims_by_identifier ON claims (identifier COLLATE NOCASE);

CREATE TABLE runs (
  id             TEXT    NOT NULL PRIMARY KEY,
  kind           TEXT    NOT NULL,
  issue_id       TEXT    NOT NULL,
  identifier     TEXT    NOT NULL,
  attempt        INTEGER NOT NULL DEFAULT 0,
  phase          TEXT    NOT NULL,
  outcome        TEXT    CHECK (outcome <> ''),
  error_code     TEXT    NOT NULL DEFAULT '',
  error_text     TEXT    NOT NULL DEFAULT '',
  stop_reason    TEXT    CHECK (stop_reason <> ''),
  stop_mono      INTEGER, -- when the stop was asked for, in nanoseconds of the boot that stop_boot names
  stop_boot      TEXT,
  reap_tries     INTEGER NOT NULL DEFAULT 0,
  settled        INTEGER NOT NULL DEFAULT 0 CHECK (settled = 0 OR outcome IS NOT NULL),
  issue          TEXT    NOT NULL,
  fingerprint    TEXT    NOT NULL DEFAULT '',
  worker_boot    TEXT    NOT NULL DEFAULT '',
  worker_pid     INTEGER NOT NULL DEFAULT 0,
  worker_start   INTEGER NOT NULL DEFAULT 0,
  host           TEXT    NOT NULL DEFAULT '',
  workspace_path TEXT    NOT NULL DEFAULT '',
  workspace_root TEXT    NOT NULL DEFAULT '',
  workspace_id   TEXT    NOT NULL DEFAULT '',
  thread_id      TEXT    NOT NULL DEFAULT '',
  turn_id        TEXT    NOT NULL DEFAULT '',
  turns          INTEGER NOT NULL DEFAULT 0,
  turns_done     INTEGER NOT NULL DEFAULT 0,
  progress       INTEGER NOT NULL DEFAULT 0,
  tokens_input   INTEGER NOT NULL DEFAULT 0,
  tokens_output  INTEGER NOT NULL DEFAULT 0,
  tokens_total   INTEGER NOT NULL DEFAULT 0,
  rate_limits    TEXT,
  rate_limits_at INTEGER,
  last_event     TEXT    NOT NULL DEFAULT '',
  last_message   TEXT    NOT NULL DEFAULT '',
  last_event_at  INTEGER,
  handoff_at     INTEGER,
  handoff_state  TEXT    NOT NULL DEFAULT '',
  beats          INTEGER NOT NULL DEFAULT 0,
  heartbeat_at   INTEGER,
  started_at     INTEGER NOT NULL,
  ended_at       INTEGER,
  -- What the run adds to the totals of runtime. For a run that a pass ended it stops at the last sign of life.
  runtime_ms     INTEGER NOT NULL DEFAULT 0,
  -- The heartbeat that a pass saw, and when it saw it for the first time.
  hb_seen        INTEGER,
  hb_seen_mono   INTEGER,
  hb_seen_boot   TEXT
) STRICT;

CREATE INDEX runs_unsettled ON runs (id) WHERE settled = 0;
CREATE INDEX runs_by_issue ON runs (issue_id, id);
CREATE INDEX runs_by_identifier ON runs (identifier COLLATE NOCASE, id);
CREATE INDEX runs_by_rate_limits ON runs (rate_limits_at) WHERE rate_limits IS NOT NULL;
-- The last line of defence of "never two workers for one issue".
CREATE UNIQUE INDEX runs_one_live ON runs (issue_id) WHERE outcome IS NULL AND kind = 'agent';

-- The highest token totals of each codex thread. base_* is what they were when run_id first met the thread:
-- the difference is that run's own share.
CREATE TABLE threads (
  thread_id    TEXT    NOT NULL PRIMARY KEY,
  issue_id     TEXT    NOT NULL,
  run_id       TEXT    NOT NULL,
  workspace_id TEXT    NOT NULL DEFAULT '',
  input        INTEGER NOT NULL,
  output       INTEGER NOT NULL,
  total        INTEGER NOT NULL,
  base_input   INTEGER NOT NULL DEFAULT 0,
  base_output  INTEGER NOT NULL DEFAULT 0,
  base_total   INTEGER NOT NULL DEFAULT 0,
  updated_at   INTEGER NOT NULL
) STRICT;

CREATE INDEX threads_by_run ON threads (run_id);

-- What settled runs of an issue used. Outlives the runs.
CREATE TABLE issue_totals (
  issue_id   TEXT    NOT NULL PRIMARY KEY,
  input      INTEGER NOT NULL,
  output     INTEGER NOT NULL,
  total      INTEGER NOT NULL,
  runtime_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- AUTOINCREMENT: the id of a consumed command never comes back.
CREATE TABLE commands (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  verb       TEXT    NOT NULL,
  issue_id   TEXT    NOT NULL DEFAULT '',
  identifier TEXT    NOT NULL DEFAULT '',
  created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE skips (
  issue_id   TEXT    NOT NULL PRIMARY KEY,
  identifier TEXT    NOT NULL,
  reason     TEXT    NOT NULL,
  message    TEXT    NOT NULL DEFAULT '',
  since      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE passes (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  "trigger"   TEXT    NOT NULL,
  started_at  INTEGER NOT NULL,
  duration_ms INTEGER NOT NULL,
  actions     INTEGER NOT NULL,
  skipped     INTEGER NOT NULL,
  errors      TEXT    NOT NULL DEFAULT '[]',
  boot_id     TEXT    NOT NULL DEFAULT '',
  mono_ns     INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX passes_scheduled ON passes (id) WHERE "trigger" IN ('cron', 'timer', 'loop');

INSERT INTO meta (key, value) VALUES
  ('totals_input', '0'), ('totals_output', '0'), ('totals_total', '0'), ('totals_runtime_ms', '0');
