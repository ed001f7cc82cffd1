-- What clients ask of agents without an issue. Only the state directory of these agents has such rows.
CREATE TABLE calls (
  id           TEXT    NOT NULL PRIMARY KEY,
  run_id       TEXT    NOT NULL,
  agent        TEXT    NOT NULL,
  -- The call that opened the conversation; empty for a call of the agent itself.
  conversation TEXT    NOT NULL DEFAULT '',
  verb         TEXT    NOT NULL,
  params       TEXT    NOT NULL DEFAULT '{}',
  status       TEXT    NOT NULL,
  -- Of a conversation, as soon as it is known.
  thread_id    TEXT    NOT NULL DEFAULT '',
  result       TEXT,
  error_code   TEXT    NOT NULL DEFAULT '',
  error_text   TEXT    NOT NULL DEFAULT '',
  created_at   INTEGER NOT NULL,
  started_at   INTEGER,
  ended_at     INTEGER,
  -- The order in which the calls of the run have ended, from 1. 0: it has not ended.
  ended_no     INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE INDEX calls_by_run ON calls (run_id, created_at, id);
CREATE INDEX calls_by_thread ON calls (thread_id) WHERE thread_id <> '';
