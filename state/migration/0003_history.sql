-- Where codex keeps the thread: its home, with links resolved. NULL where that was never written down: in threads of
-- earlier versions, and in those whose first turn codex had not yet accepted.
ALTER TABLE threads ADD COLUMN codex_home TEXT CHECK (codex_home <> '');

-- The model that codex gave the run's thread; empty where it did not say. Several are joined by a plus: codex went on with
-- another one. And where the run's work can be looked at.
ALTER TABLE runs ADD COLUMN model TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN links TEXT NOT NULL DEFAULT ''; -- JSON

-- What a report asks for: the runs that ended in some hours, and the gaps between a schedule's passes.
CREATE INDEX runs_by_end ON runs (ended_at) WHERE kind = 'agent';
CREATE INDEX passes_rhythm ON passes (started_at) WHERE "trigger" IN ('cron', 'timer', 'loop');

-- The issues that were let go after a run at least, and what was done for them since they were claimed. Outlives claims
-- and runs.
CREATE TABLE releases (
  id          INTEGER PRIMARY KEY,
  issue_id    TEXT    NOT NULL,
  identifier  TEXT    NOT NULL,
  title       TEXT    NOT NULL,
  url         TEXT    NOT NULL DEFAULT '',
  branch      TEXT    NOT NULL DEFAULT '',
  reason      TEXT    NOT NULL,
  from_state  TEXT    NOT NULL,
  to_state    TEXT    NOT NULL DEFAULT '',
  claimed_at  INTEGER NOT NULL,
  released_at INTEGER NOT NULL,
  runs        INTEGER NOT NULL,
  runtime_ms  INTEGER NOT NULL,
  -- Tokens by model, links and what was created in the tracker by kind: JSON.
  usage       TEXT    NOT NULL,
  links       TEXT    NOT NULL DEFAULT '[]',
  created     TEXT    NOT NULL DEFAULT '{}'
) STRICT;

CREATE INDEX releases_by_time ON releases (released_at);
CREATE INDEX created_by_run ON created (run_id);

-- When a fault of the machine's kept everything waiting. source is the key in meta of the block.
CREATE TABLE outages (
  id      INTEGER PRIMARY KEY,
  source  TEXT    NOT NULL,
  code    TEXT    NOT NULL,
  message TEXT    NOT NULL DEFAULT '',
  since   INTEGER NOT NULL,
  until   INTEGER
) STRICT;

CREATE UNIQUE INDEX outages_open ON outages (source) WHERE until IS NULL;

INSERT INTO outages (source, code, message, since)
  SELECT key, json_extract(value, '$.code'), coalesce(json_extract(value, '$.message'), ''),
    CAST(unixepoch(json_extract(value, '$.since'), 'subsec') * 1000 AS INTEGER)
  FROM meta WHERE key IN ('blocked_agent', 'blocked_tracker', 'blocked_host');

-- day_totals by model, for estimates of money. What was used before models were kept is nobody's.
CREATE TABLE model_totals (
  day       TEXT    NOT NULL,
  model     TEXT    NOT NULL,
  input     INTEGER NOT NULL DEFAULT 0,
  cached    INTEGER NOT NULL DEFAULT 0,
  output    INTEGER NOT NULL DEFAULT 0,
  reasoning INTEGER NOT NULL DEFAULT 0,
  total     INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (day, model)
) STRICT, WITHOUT ROWID;

INSERT INTO model_totals SELECT day, '', input, cached, output, reasoning, total FROM day_totals;
