-- What an agent asks of a person, what a person is told of, and tokens counted more closely.

-- A request of a run. Its id is the issue's identifier, a dot and its number. One whose run has an outcome has ended
-- with it (run_ended), whatever stands here: nobody needs to write that down.
CREATE TABLE requests (
  issue_id     TEXT    NOT NULL,
  number       INTEGER NOT NULL CHECK (number > 0),
  identifier   TEXT    NOT NULL,
  run_id       TEXT    NOT NULL,
  thread_id    TEXT    NOT NULL DEFAULT '',
  kind         TEXT    NOT NULL,
  summary      TEXT    NOT NULL,
  detail       TEXT    NOT NULL DEFAULT '{}',
  outside      INTEGER NOT NULL DEFAULT 0,
  asked_at     INTEGER NOT NULL,
  expires_at   INTEGER NOT NULL,
  -- The same on the clock that counts, within that boot.
  expires_mono INTEGER NOT NULL,
  expires_boot TEXT    NOT NULL,
  -- What a person decided; NULL until then.
  decision     TEXT    CHECK (decision <> ''),
  answer       TEXT    NOT NULL DEFAULT '{}',
  decided_at   INTEGER,
  -- What became of it, as its worker wrote it down: answered, expired, withdrawn. NULL until then.
  fate         TEXT    CHECK (fate <> ''),
  ended_at     INTEGER,
  -- The run whose guidance took up an answer that came too late.
  told_run     TEXT    NOT NULL DEFAULT '',
  PRIMARY KEY (issue_id, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX requests_by_run ON requests (run_id);
CREATE INDEX requests_by_identifier ON requests (identifier COLLATE NOCASE, number);

-- What hooks.on_attention is run for, once each: taken by whoever runs it, done when it has ended.
CREATE TABLE attentions (
  key        TEXT    NOT NULL PRIMARY KEY,
  kind       TEXT    NOT NULL,
  issue_id   TEXT    NOT NULL DEFAULT '',
  identifier TEXT    NOT NULL DEFAULT '',
  ref        TEXT    NOT NULL DEFAULT '',
  text       TEXT    NOT NULL DEFAULT '',
  at         INTEGER NOT NULL,
  taken_at   INTEGER,
  taken_by   TEXT    NOT NULL DEFAULT '',
  done_at    INTEGER,
  error      TEXT    NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;

ALTER TABLE runs ADD COLUMN tokens_cached INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN tokens_reasoning INTEGER NOT NULL DEFAULT 0;
ALTER TABLE threads ADD COLUMN cached INTEGER NOT NULL DEFAULT 0;
ALTER TABLE threads ADD COLUMN reasoning INTEGER NOT NULL DEFAULT 0;
ALTER TABLE threads ADD COLUMN base_cached INTEGER NOT NULL DEFAULT 0;
ALTER TABLE threads ADD COLUMN base_reasoning INTEGER NOT NULL DEFAULT 0;
ALTER TABLE issue_totals ADD COLUMN cached INTEGER NOT NULL DEFAULT 0;
ALTER TABLE issue_totals ADD COLUMN reasoning INTEGER NOT NULL DEFAULT 0;

-- Tokens by the day (of UTC) on which they were reported.
CREATE TABLE day_totals (
  day       TEXT    NOT NULL PRIMARY KEY,
  input     INTEGER NOT NULL DEFAULT 0,
  cached    INTEGER NOT NULL DEFAULT 0,
  output    INTEGER NOT NULL DEFAULT 0,
  reasoning INTEGER NOT NULL DEFAULT 0,
  total     INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- What agents created in the tracker, by which a person's comments are told from theirs.
CREATE TABLE created (
  id       TEXT    NOT NULL PRIMARY KEY,
  kind     TEXT    NOT NULL,
  issue_id TEXT    NOT NULL DEFAULT '',
  run_id   TEXT    NOT NULL,
  at       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What a thread knows of its issue: the newest comment it was told of or that was there when it began, and the
-- description's hash.
ALTER TABLE threads ADD COLUMN told_comment_at INTEGER;
ALTER TABLE threads ADD COLUMN told_description TEXT NOT NULL DEFAULT '';

INSERT INTO meta (key, value) VALUES ('totals_cached', '0'), ('totals_reasoning', '0');
