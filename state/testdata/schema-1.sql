PRAGMA user_version = 1;
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
  delivery        TEXT    NOT NULL DEFAULT '', -- what remains to be done about the issue's commits: JSON
  workspace_root  TEXT    NOT NULL DEFAULT '',
  claimed_at      INTEGER NOT NULL,
  updated_at      INTEGER NOT NULL,
  started_in      TEXT    NOT NULL DEFAULT '', -- the issue's state when its last agent began
  -- The kind of the agent that worked on the issue last, and the directory of its login; empty
  -- before the first.
  agent           TEXT    NOT NULL DEFAULT '',
  agent_home      TEXT    NOT NULL DEFAULT '',
  wanted          INTEGER NOT NULL DEFAULT 0 -- a person wants the next run now
) STRICT;
CREATE TABLE commands (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  verb       TEXT    NOT NULL,
  issue_id   TEXT    NOT NULL DEFAULT '',
  identifier TEXT    NOT NULL DEFAULT '',
  -- The account whose user hands an issue over without verify, by the command deliver; empty for
  -- other commands.
  unverified TEXT    NOT NULL DEFAULT '',
  created_at INTEGER NOT NULL
) STRICT;
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
CREATE TABLE created (
  id       TEXT    NOT NULL PRIMARY KEY,
  kind     TEXT    NOT NULL,
  issue_id TEXT    NOT NULL DEFAULT '',
  run_id   TEXT    NOT NULL,
  at       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE day_totals (
  day       TEXT    NOT NULL PRIMARY KEY,
  input     INTEGER NOT NULL DEFAULT 0,
  cached    INTEGER NOT NULL DEFAULT 0,
  output    INTEGER NOT NULL DEFAULT 0,
  reasoning INTEGER NOT NULL DEFAULT 0,
  total     INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE TABLE deliveries (
  issue_id TEXT    NOT NULL PRIMARY KEY,
  url      TEXT    NOT NULL, -- of the repository
  branch   TEXT    NOT NULL,
  "commit" TEXT    NOT NULL,
  base     TEXT    NOT NULL,
  at       INTEGER NOT NULL,
  pull_request TEXT NOT NULL, -- its address; empty if there is none
  workflow TEXT    NOT NULL, -- the path of the project's WORKFLOW.md if the commit changes it, or empty
  origin   TEXT    NOT NULL DEFAULT '' -- who had begun the branch; empty if this machine has
) STRICT, WITHOUT ROWID;
CREATE TABLE issue_totals (
  issue_id   TEXT    NOT NULL PRIMARY KEY,
  input      INTEGER NOT NULL,
  output     INTEGER NOT NULL,
  total      INTEGER NOT NULL,
  cached     INTEGER NOT NULL DEFAULT 0,
  reasoning  INTEGER NOT NULL DEFAULT 0,
  runtime_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE meta (
  key   TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
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
CREATE TABLE passes (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  "trigger"   TEXT    NOT NULL,
  started_at  INTEGER NOT NULL,
  duration_ms INTEGER NOT NULL,
  actions     INTEGER NOT NULL,
  skipped     INTEGER NOT NULL,
  errors      TEXT    NOT NULL DEFAULT '[]',
  -- The code of that one of the errors for which the pass started nothing; empty for none.
  obstacle    TEXT    NOT NULL DEFAULT '',
  boot_id     TEXT    NOT NULL DEFAULT '',
  mono_ns     INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE pull_requests (
  issue_id   TEXT    NOT NULL PRIMARY KEY,
  identifier TEXT    NOT NULL,
  request    TEXT    NOT NULL, -- JSON
  seen_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
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
  created     TEXT    NOT NULL DEFAULT '{}',
  labels      TEXT    NOT NULL DEFAULT '[]', -- JSON
  words       TEXT    NOT NULL DEFAULT '', -- what the last agent has said last
  commits     INTEGER NOT NULL DEFAULT 0, -- that the last agent has delivered
  in_review   INTEGER NOT NULL DEFAULT 0 -- 1 while the issue waits for a person's review
) STRICT;
CREATE TABLE remote_workspaces (
  issue_id  TEXT NOT NULL,
  host      TEXT NOT NULL,
  root      TEXT NOT NULL,
  run_id    TEXT NOT NULL, -- that run
  workspace TEXT NOT NULL, -- JSON
  PRIMARY KEY (issue_id, host, root)
) STRICT, WITHOUT ROWID;
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
  -- The same on the monotonic clock, which counts within that boot.
  expires_mono INTEGER NOT NULL,
  expires_boot TEXT    NOT NULL,
  -- What a person decided; NULL until then.
  decision     TEXT    CHECK (decision <> ''),
  answer       TEXT    NOT NULL DEFAULT '{}',
  decided_at   INTEGER,
  -- How it ended, as its worker recorded it: answered, expired or withdrawn. NULL until then.
  fate         TEXT    CHECK (fate <> ''),
  ended_at     INTEGER,
  -- The run whose prompt told the agent an answer that came too late.
  told_run     TEXT    NOT NULL DEFAULT '',
  PRIMARY KEY (issue_id, number)
) STRICT, WITHOUT ROWID;
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
  only_stopped   INTEGER NOT NULL DEFAULT 0, -- the run ended for its stop_reason, and nothing else is to be said
  reap_tries     INTEGER NOT NULL DEFAULT 0,
  settled        INTEGER NOT NULL DEFAULT 0 CHECK (settled = 0 OR outcome IS NOT NULL),
  issue          TEXT    NOT NULL,
  fingerprint    TEXT    NOT NULL DEFAULT '',
  worker_boot    TEXT    NOT NULL DEFAULT '',
  worker_pid     INTEGER NOT NULL DEFAULT 0,
  worker_start   INTEGER NOT NULL DEFAULT 0,
  host           TEXT    NOT NULL DEFAULT '',
  -- What is known of a run on another machine: empty (nothing was begun there), begun, ended or gone.
  remote         TEXT    NOT NULL DEFAULT '',
  heard_at       INTEGER, -- when the worker last had a link to that machine
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
  tokens_cached  INTEGER NOT NULL DEFAULT 0,
  tokens_reasoning INTEGER NOT NULL DEFAULT 0,
  -- The model that codex gave the thread, empty where it did not say. If codex went on with
  -- another one, a plus joins their names.
  model          TEXT    NOT NULL DEFAULT '',
  links          TEXT    NOT NULL DEFAULT '', -- where the work can be looked at: JSON
  rate_limits    TEXT,
  rate_limits_at INTEGER,
  last_event     TEXT    NOT NULL DEFAULT '',
  last_message   TEXT    NOT NULL DEFAULT '',
  last_event_at  INTEGER,
  -- What the agent does now: its last command, or the first line of its last sentence.
  activity       TEXT    NOT NULL DEFAULT '',
  delivery       TEXT    NOT NULL DEFAULT '', -- what became of the run's commits: JSON
  -- Why after_run failed, empty where it did not. It does not change the outcome of a run.
  after_run_error TEXT   NOT NULL DEFAULT '',
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
  hb_seen_boot   TEXT,
  -- The kind of its agent, and the directory of the agent's login; empty for a run without one.
  agent          TEXT    NOT NULL DEFAULT '',
  agent_home     TEXT    NOT NULL DEFAULT '',
  -- What the agent has said last: its result, what it needs from a person, or the first line of
  -- its last message.
  words          TEXT GENERATED ALWAYS AS (coalesce(
                   nullif(delivery, '') ->> '$.handover.summary', nullif(delivery, '') ->> '$.handover.blocked',
                   nullif(activity, ''), last_message)) VIRTUAL,
  labels         TEXT GENERATED ALWAYS AS (coalesce(issue ->> '$.labels', '[]')) VIRTUAL,
  -- What a search for text reaches.
  found          TEXT GENERATED ALWAYS AS (
                   identifier || char(10) || coalesce(issue ->> '$.title', '') || char(10) ||
                   coalesce(outcome, '') || ': ' || error_code || ': ' || error_text || char(10) ||
                   coalesce(nullif(delivery, '') ->> '$.code', '') || ': ' ||
                   coalesce(nullif(delivery, '') ->> '$.message', '') || char(10) || words) VIRTUAL
) STRICT;
CREATE TABLE skips (
  issue_id   TEXT    NOT NULL PRIMARY KEY,
  identifier TEXT    NOT NULL,
  reason     TEXT    NOT NULL,
  message    TEXT    NOT NULL DEFAULT '',
  -- What a person has to do before the issue can start; empty if it may start without that.
  mend       TEXT    NOT NULL DEFAULT '',
  since      INTEGER NOT NULL,
  title      TEXT    NOT NULL DEFAULT '',
  url        TEXT    NOT NULL DEFAULT '',
  labels     TEXT    NOT NULL DEFAULT '[]', -- JSON
  place      INTEGER NOT NULL DEFAULT 0 -- in the queue for a slot; 0 if the issue does not wait for one
) STRICT, WITHOUT ROWID;
CREATE TABLE team_claims (
  issue_id     TEXT    NOT NULL PRIMARY KEY,
  identifier   TEXT    NOT NULL,
  key          TEXT    NOT NULL, -- of the claim in the remote
  version      INTEGER NOT NULL CHECK (version > 0),
  content      TEXT    NOT NULL, -- in the remote, as far as this machine knows
  object       TEXT    NOT NULL, -- git's id of that
  tried        TEXT    NOT NULL, -- the pushes whose results are not known: JSON
  -- When the push of the content began, in nanoseconds since a boot that include the time of a
  -- suspended machine.
  renewed_boot TEXT    NOT NULL,
  renewed_at   INTEGER NOT NULL,
  lost_to      TEXT    NOT NULL -- who has the claim instead
) STRICT, WITHOUT ROWID;
CREATE TABLE team_seen (
  key         TEXT    NOT NULL PRIMARY KEY,
  object      TEXT    NOT NULL,
  content     TEXT    NOT NULL,
  looked_boot TEXT    NOT NULL, -- when this machine saw the object last, as renewed_boot and renewed_at
  looked_at   INTEGER NOT NULL,
  age         INTEGER NOT NULL, -- for how long it had seen the same object then, in nanoseconds
  seen_at     INTEGER NOT NULL  -- when that began by the clock
) STRICT, WITHOUT ROWID;
CREATE TABLE threads (
  thread_id    TEXT    NOT NULL PRIMARY KEY,
  issue_id     TEXT    NOT NULL,
  run_id       TEXT    NOT NULL,
  workspace_id TEXT    NOT NULL DEFAULT '',
  input        INTEGER NOT NULL,
  output       INTEGER NOT NULL,
  total        INTEGER NOT NULL,
  cached       INTEGER NOT NULL DEFAULT 0,
  reasoning    INTEGER NOT NULL DEFAULT 0,
  base_input   INTEGER NOT NULL DEFAULT 0,
  base_output  INTEGER NOT NULL DEFAULT 0,
  base_total   INTEGER NOT NULL DEFAULT 0,
  base_cached  INTEGER NOT NULL DEFAULT 0,
  base_reasoning INTEGER NOT NULL DEFAULT 0,
  -- What the thread knows of its issue: the newest comment that it was told of or that was there
  -- when it began, the hashes of the description and of the prompt, and the commit of the base.
  told_comment_at INTEGER,
  told_description TEXT NOT NULL DEFAULT '',
  told_prompt  TEXT    NOT NULL DEFAULT '',
  told_base    TEXT    NOT NULL DEFAULT '',
  -- Where codex keeps the thread: its home, with links resolved. NULL until codex has accepted
  -- the first turn.
  codex_home   TEXT    CHECK (codex_home <> ''),
  ended        INTEGER NOT NULL DEFAULT 0, -- an operator has asked for a new thread: no run resumes this one
  updated_at   INTEGER NOT NULL
) STRICT;
CREATE TABLE watches (
  issue_id     TEXT    NOT NULL PRIMARY KEY,
  pull_request TEXT    NOT NULL, -- its address
  ended        INTEGER NOT NULL, -- 1 if nothing more is expected of it
  watch        TEXT    NOT NULL  -- JSON
) STRICT, WITHOUT ROWID;
CREATE INDEX calls_by_run ON calls (run_id, created_at, id);
CREATE INDEX calls_by_thread ON calls (thread_id) WHERE thread_id <> '';
CREATE INDEX claims_by_identifier ON claims (identifier COLLATE NOCASE);
CREATE INDEX comments_open ON comments (issue_id) WHERE done = 0;
CREATE INDEX created_by_run ON created (run_id);
CREATE INDEX passes_rhythm ON passes (started_at) WHERE "trigger" IN ('cron', 'timer', 'loop');
CREATE INDEX passes_scheduled ON passes (id) WHERE "trigger" IN ('cron', 'timer', 'loop');
CREATE INDEX releases_by_issue ON releases (issue_id, id);
CREATE INDEX releases_by_time ON releases (released_at);
CREATE INDEX releases_in_review ON releases (issue_id) WHERE in_review = 1;
CREATE INDEX requests_by_identifier ON requests (identifier COLLATE NOCASE, number);
CREATE INDEX requests_by_run ON requests (run_id);
CREATE INDEX runs_by_end ON runs (ended_at, outcome, runtime_ms) WHERE kind = 'agent';
CREATE INDEX runs_by_identifier ON runs (identifier COLLATE NOCASE, id);
CREATE INDEX runs_by_issue ON runs (issue_id, id);
CREATE INDEX runs_by_rate_limits ON runs (rate_limits_at) WHERE rate_limits IS NOT NULL;
CREATE INDEX runs_found ON runs (id DESC, found, labels) WHERE settled = 1;
CREATE UNIQUE INDEX runs_one_live ON runs (issue_id) WHERE outcome IS NULL AND kind = 'agent';
CREATE UNIQUE INDEX runs_there ON runs (issue_id) WHERE remote = 'begun';
CREATE INDEX runs_unsettled ON runs (id) WHERE settled = 0;
CREATE INDEX threads_by_run ON threads (run_id);
INSERT INTO attentions ("key", "kind", "issue_id", "identifier", "ref", "text", "at", "taken_at", "taken_by", "done_at", "error") VALUES
  ('blocked:agent_quota:1795161600123', 'blocked', '', '', '', 'text', 1795161600123, NULL, '', NULL, '');
INSERT INTO attentions ("key", "kind", "issue_id", "identifier", "ref", "text", "at", "taken_at", "taken_by", "done_at", "error") VALUES
  ('hold:id-0004:1795161600123', 'hold', 'id-0004', 'ABC-4', '', 'text', 1795161600123, NULL, '', NULL, '');
INSERT INTO attentions ("key", "kind", "issue_id", "identifier", "ref", "text", "at", "taken_at", "taken_by", "done_at", "error") VALUES
  ('request:run-000001:1', 'request', 'id-0001', 'ABC-1', 'ABC-1.1', 'text', 1795161600123, NULL, '', NULL, '');
INSERT INTO attentions ("key", "kind", "issue_id", "identifier", "ref", "text", "at", "taken_at", "taken_by", "done_at", "error") VALUES
  ('request:run-000001:2', 'request', 'id-0001', 'ABC-1', 'ABC-1.2', 'text', 1795161600123, NULL, '', NULL, '');
INSERT INTO attentions ("key", "kind", "issue_id", "identifier", "ref", "text", "at", "taken_at", "taken_by", "done_at", "error") VALUES
  ('request:run-000001:3', 'request', 'id-0001', 'ABC-1', 'ABC-1.3', 'text', 1795161600123, NULL, '', NULL, '');
INSERT INTO attentions ("key", "kind", "issue_id", "identifier", "ref", "text", "at", "taken_at", "taken_by", "done_at", "error") VALUES
  ('request:run-000002:1', 'request', 'id-0002', 'ABC-2', 'ABC-2.1', 'text', 1795161600123, NULL, '', NULL, '');
INSERT INTO calls ("id", "run_id", "agent", "conversation", "verb", "params", "status", "thread_id", "result", "error_code", "error_text", "created_at", "started_at", "ended_at", "ended_no") VALUES
  ('call-1', 'run-000001', 'agent-1', '', 'conversation', '{"model":"m"}', 'queued', '', NULL, '', '', 1795161600123, NULL, NULL, 0);
INSERT INTO claims ("issue_id", "identifier", "status", "version", "run_id", "attempt", "kind", "due_at", "error_code", "error_message", "hold_reason", "hold_message", "held_at", "hold_comment_at", "hold_next", "failures", "idle_runs", "runs", "interruptions", "token_base", "issue", "project", "delivery", "workspace_root", "claimed_at", "updated_at", "started_in", "agent", "agent_home", "wanted") VALUES
  ('id-0001', 'ABC-1', 'running', 1, 'run-000001', 1, '', NULL, '', '', '', '', NULL, NULL, 0, 0, 0, 0, 0, 0, '{"id":"id-0001","identifier":"ABC-1","title":"Title","description":"What is to be done, at some length, with \"quotes\" and a line\nor two.","priority":null,"state":"Todo","branch_name":null,"url":null,"labels":["bug"],"blocked_by":[],"created_at":"2026-11-20T08:00:00.123Z","updated_at":null,"assignee":null,"project":"","archived":false,"last_comment_at":null}', 'project', '{}', '/root', 1795161600123, 1795161600123, '', '', '', 0);
INSERT INTO claims ("issue_id", "identifier", "status", "version", "run_id", "attempt", "kind", "due_at", "error_code", "error_message", "hold_reason", "hold_message", "held_at", "hold_comment_at", "hold_next", "failures", "idle_runs", "runs", "interruptions", "token_base", "issue", "project", "delivery", "workspace_root", "claimed_at", "updated_at", "started_in", "agent", "agent_home", "wanted") VALUES
  ('id-0002', 'ABC-2', 'running', 1, 'run-000002', 2, '', NULL, '', '', '', '', NULL, NULL, 0, 0, 0, 0, 0, 0, '{"id":"id-0002","identifier":"ABC-2","title":"Title","description":"What is to be done, at some length, with \"quotes\" and a line\nor two.","priority":null,"state":"Todo","branch_name":null,"url":null,"labels":["bug"],"blocked_by":[],"created_at":"2026-11-20T08:00:00.123Z","updated_at":null,"assignee":null,"project":"","archived":false,"last_comment_at":null}', 'project', '{}', '/root', 1795161600123, 1795161600123, '', '', '', 0);
INSERT INTO claims ("issue_id", "identifier", "status", "version", "run_id", "attempt", "kind", "due_at", "error_code", "error_message", "hold_reason", "hold_message", "held_at", "hold_comment_at", "hold_next", "failures", "idle_runs", "runs", "interruptions", "token_base", "issue", "project", "delivery", "workspace_root", "claimed_at", "updated_at", "started_in", "agent", "agent_home", "wanted") VALUES
  ('id-0003', 'ABC-3', 'retry', 2, 'run-000003', 3, 'backoff', 1795165200123, 'turn_failed', 'It went wrong.', '', '', NULL, NULL, 0, 1, 0, 0, 0, 0, '{"id":"id-0003","identifier":"ABC-3","title":"Title","description":"What is to be done, at some length, with \"quotes\" and a line\nor two.","priority":null,"state":"Todo","branch_name":null,"url":null,"labels":["bug"],"blocked_by":[],"created_at":"2026-11-20T08:00:00.123Z","updated_at":null,"assignee":null,"project":"","archived":false,"last_comment_at":null}', 'project', '{}', '/root', 1795161600123, 1795161600123, '', '', '', 0);
INSERT INTO claims ("issue_id", "identifier", "status", "version", "run_id", "attempt", "kind", "due_at", "error_code", "error_message", "hold_reason", "hold_message", "held_at", "hold_comment_at", "hold_next", "failures", "idle_runs", "runs", "interruptions", "token_base", "issue", "project", "delivery", "workspace_root", "claimed_at", "updated_at", "started_in", "agent", "agent_home", "wanted") VALUES
  ('id-0004', 'ABC-4', 'held', 2, 'run-000004', 4, 'backoff', 1795165200123, 'turn_failed', 'It went wrong.', 'max_failures', 'Too often.', 1795161600123, 1795161600123, 0, 1, 0, 0, 0, 0, '{"id":"id-0004","identifier":"ABC-4","title":"Title","description":"What is to be done, at some length, with \"quotes\" and a line\nor two.","priority":null,"state":"Todo","branch_name":null,"url":null,"labels":["bug"],"blocked_by":[],"created_at":"2026-11-20T08:00:00.123Z","updated_at":null,"assignee":null,"project":"","archived":false,"last_comment_at":null}', 'project', '{}', '/root', 1795161600123, 1795161600123, '', '', '', 0);
INSERT INTO commands ("id", "verb", "issue_id", "identifier", "unverified", "created_at") VALUES
  (1, 'hold', 'id-0000', 'ABC', '', 1795161600123);
INSERT INTO commands ("id", "verb", "issue_id", "identifier", "unverified", "created_at") VALUES
  (2, 'pause', 'id-0001', 'ABC', '', 1795161600123);
INSERT INTO comments ("key", "issue_id", "number", "id", "at", "text", "shown", "problem", "seen", "done") VALUES
  ('hold:id-4:1', 'id-0004', 0, 'comment-5', 1795161600123, '', '', '', 'null', 1);
INSERT INTO comments ("key", "issue_id", "number", "id", "at", "text", "shown", "problem", "seen", "done") VALUES
  ('request:run-000001:1', 'id-0001', 1, 'comment-3', 1795161600123, 'hash', 'other', 'unclear', '["comment-4"]', 0);
INSERT INTO created ("id", "kind", "issue_id", "run_id", "at") VALUES
  ('comment-1', 'comment', 'id-0001', 'run-000001', 1795161600123);
INSERT INTO created ("id", "kind", "issue_id", "run_id", "at") VALUES
  ('comment-3', 'symphony', 'id-0001', '', 1795161600123);
INSERT INTO created ("id", "kind", "issue_id", "run_id", "at") VALUES
  ('comment-5', 'symphony', 'id-0004', '', 1795161600123);
INSERT INTO issue_totals ("issue_id", "input", "output", "total", "cached", "reasoning", "runtime_ms") VALUES
  ('id-0003', 3, 10, 13, 0, 0, 60000);
INSERT INTO issue_totals ("issue_id", "input", "output", "total", "cached", "reasoning", "runtime_ms") VALUES
  ('id-0004', 4, 10, 14, 0, 0, 60000);
INSERT INTO issue_totals ("issue_id", "input", "output", "total", "cached", "reasoning", "runtime_ms") VALUES
  ('id-0005', 5, 10, 15, 0, 0, 60000);
INSERT INTO meta ("key", "value") VALUES
  ('blocked_agent', '{"code":"agent_quota","message":"Used up.","since":"2026-11-20T08:00:00.123Z","next_try":"2026-11-20T08:00:00.123Z","tries":2}');
INSERT INTO meta ("key", "value") VALUES
  ('created_at', '1795161600123');
INSERT INTO meta ("key", "value") VALUES
  ('last_good_workflow', '---
---
Text with ''quotes''.
');
INSERT INTO meta ("key", "value") VALUES
  ('last_sweep', '1795161600123');
INSERT INTO meta ("key", "value") VALUES
  ('paused', '1');
INSERT INTO meta ("key", "value") VALUES
  ('schema', '1');
INSERT INTO meta ("key", "value") VALUES
  ('totals_cached', '0');
INSERT INTO meta ("key", "value") VALUES
  ('totals_input', '12');
INSERT INTO meta ("key", "value") VALUES
  ('totals_output', '30');
INSERT INTO meta ("key", "value") VALUES
  ('totals_reasoning', '0');
INSERT INTO meta ("key", "value") VALUES
  ('totals_runtime_ms', '180000');
INSERT INTO meta ("key", "value") VALUES
  ('totals_total', '42');
INSERT INTO model_totals ("day", "model", "input", "cached", "output", "reasoning", "total") VALUES
  ('2026-11-20', '', 15, 0, 50, 0, 65);
INSERT INTO passes ("id", "trigger", "started_at", "duration_ms", "actions", "skipped", "errors", "obstacle", "boot_id", "mono_ns") VALUES
  (1, 'cron', 1795161600123, 1000, 3, 1, '[{"code":"tracker_error","message":"No answer."}]', '', 'boot-1', 3600000000000);
INSERT INTO pull_requests ("issue_id", "identifier", "request", "seen_at") VALUES
  ('id-0003', 'ABC-3', '{"url":"https://example.com/r/pull/1","state":"open","checks":"passed","review":"required","merge":""}', 1795161600123);
INSERT INTO releases ("id", "issue_id", "identifier", "title", "url", "branch", "reason", "from_state", "to_state", "claimed_at", "released_at", "runs", "runtime_ms", "usage", "links", "created", "labels", "words", "commits", "in_review") VALUES
  (1, 'id-0005', 'ABC-5', 'Title', '', '', 'terminal', 'Todo', 'Done', 1795161600123, 1795161600123, 1, 60000, '[{"model":"gpt-5.5","tokens":{"input":5,"cached":0,"output":10,"reasoning":0,"total":15}}]', '[{"kind":"pull_request","url":"https://example.com/r/pull/1"}]', '{}', '["bug"]', 'go test ./...', 0, 0);
INSERT INTO remote_workspaces ("issue_id", "host", "root", "run_id", "workspace") VALUES
  ('id-0001', '', '', 'run-000001', '{"IssueID":"id-0001","Identifier":"","Key":"","Root":"","Path":"/srv/x","Project":"","Host":"","Abandoned":false,"Unsaved":"","UnsavedAt":"0001-01-01T00:00:00Z","KeptSince":"0001-01-01T00:00:00Z","Restored":false}');
INSERT INTO requests ("issue_id", "number", "identifier", "run_id", "thread_id", "kind", "summary", "detail", "outside", "asked_at", "expires_at", "expires_mono", "expires_boot", "decision", "answer", "decided_at", "fate", "ended_at", "told_run") VALUES
  ('id-0001', 1, 'ABC-1', 'run-000001', 'thread', 'command', 'make install', '{"reason":"it''s needed","command":"make install","cwd":"/srv/x","permissions":{"network":{"enabled":true}},"questions":[{"id":"q1","text":"Which?","options":[{"label":"Yes"}]}]}', 1, 1795161600123, 1795165200123, 7200000000000, 'boot-1', NULL, '{}', NULL, NULL, NULL, '');
INSERT INTO requests ("issue_id", "number", "identifier", "run_id", "thread_id", "kind", "summary", "detail", "outside", "asked_at", "expires_at", "expires_mono", "expires_boot", "decision", "answer", "decided_at", "fate", "ended_at", "told_run") VALUES
  ('id-0001', 2, 'ABC-1', 'run-000001', 'thread', 'file_change', 'make install', '{"reason":"it''s needed","command":"make install","cwd":"/srv/x","permissions":{"network":{"enabled":true}},"questions":[{"id":"q1","text":"Which?","options":[{"label":"Yes"}]}]}', 1, 1795161600123, 1795165200123, 7200000000000, 'boot-1', 'approve_for_session', '{"reason":"because","answers":{"q1":["Yes"]}}', 1795161660123, NULL, NULL, '');
INSERT INTO requests ("issue_id", "number", "identifier", "run_id", "thread_id", "kind", "summary", "detail", "outside", "asked_at", "expires_at", "expires_mono", "expires_boot", "decision", "answer", "decided_at", "fate", "ended_at", "told_run") VALUES
  ('id-0001', 3, 'ABC-1', 'run-000001', 'thread', 'permissions', 'make install', '{"reason":"it''s needed","command":"make install","cwd":"/srv/x","permissions":{"network":{"enabled":true}},"questions":[{"id":"q1","text":"Which?","options":[{"label":"Yes"}]}]}', 1, 1795161600123, 1795165200123, 7200000000000, 'boot-1', NULL, '{}', NULL, 'expired', 1795161600123, '');
INSERT INTO requests ("issue_id", "number", "identifier", "run_id", "thread_id", "kind", "summary", "detail", "outside", "asked_at", "expires_at", "expires_mono", "expires_boot", "decision", "answer", "decided_at", "fate", "ended_at", "told_run") VALUES
  ('id-0002', 1, 'ABC-2', 'run-000002', 'thread', 'question', 'make install', '{"reason":"it''s needed","command":"make install","cwd":"/srv/x","permissions":{"network":{"enabled":true}},"questions":[{"id":"q1","text":"Which?","options":[{"label":"Yes"}]}]}', 1, 1795161600123, 1795165200123, 7200000000000, 'boot-1', 'answer', '{"reason":"because","answers":{"q1":["Yes"]}}', 1795161660123, 'run_ended', 1795161660123, '');
INSERT INTO runs ("id", "kind", "issue_id", "identifier", "attempt", "phase", "outcome", "error_code", "error_text", "stop_reason", "stop_mono", "stop_boot", "only_stopped", "reap_tries", "settled", "issue", "fingerprint", "worker_boot", "worker_pid", "worker_start", "host", "remote", "heard_at", "workspace_path", "workspace_root", "workspace_id", "thread_id", "turn_id", "turns", "turns_done", "progress", "tokens_input", "tokens_output", "tokens_total", "tokens_cached", "tokens_reasoning", "model", "links", "rate_limits", "rate_limits_at", "last_event", "last_message", "last_event_at", "activity", "delivery", "after_run_error", "handoff_at", "handoff_state", "beats", "heartbeat_at", "started_at", "ended_at", "runtime_ms", "hb_seen", "hb_seen_mono", "hb_seen_boot", "agent", "agent_home") VALUES
  ('run-000001', 'agent', 'id-0001', 'ABC-1', 1, 'streaming_turn', NULL, '', '', 'operator', 3600000000000, 'boot-1', 0, 0, 0, '{"id":"id-0001","identifier":"ABC-1","title":"Title","description":"What is to be done, at some length, with \"quotes\" and a line\nor two.","priority":null,"state":"Todo","branch_name":null,"url":null,"labels":["bug"],"blocked_by":[],"created_at":"2026-11-20T08:00:00.123Z","updated_at":null,"assignee":null,"project":"","archived":false,"last_comment_at":null}', 'a12c27a48bce3f1e', 'boot-1', 4711, -9223372036854775808, '', 'begun', 1795161600123, '/srv/x', '', 'space', 'thread-1', 'turn', 2, 1, 0, 1, 10, 11, 0, 0, 'gpt-5.5', '[{"kind":"pull_request","url":"https://example.com/r/pull/1"}]', '{"primary":{"used_percent":12}}', 1795161600123, 'turn_started', 'It begins.', 1795161600123, 'go test ./...', '{"done":false,"branch":"","commit":"","commits":0,"pull_request":"","code":"","message":""}', '', NULL, '', 7, 1795161600123, 1795161600123, NULL, 0, NULL, NULL, NULL, '', '');
INSERT INTO runs ("id", "kind", "issue_id", "identifier", "attempt", "phase", "outcome", "error_code", "error_text", "stop_reason", "stop_mono", "stop_boot", "only_stopped", "reap_tries", "settled", "issue", "fingerprint", "worker_boot", "worker_pid", "worker_start", "host", "remote", "heard_at", "workspace_path", "workspace_root", "workspace_id", "thread_id", "turn_id", "turns", "turns_done", "progress", "tokens_input", "tokens_output", "tokens_total", "tokens_cached", "tokens_reasoning", "model", "links", "rate_limits", "rate_limits_at", "last_event", "last_message", "last_event_at", "activity", "delivery", "after_run_error", "handoff_at", "handoff_state", "beats", "heartbeat_at", "started_at", "ended_at", "runtime_ms", "hb_seen", "hb_seen_mono", "hb_seen_boot", "agent", "agent_home") VALUES
  ('run-000002', 'agent', 'id-0002', 'ABC-2', 2, 'streaming_turn', 'failed', 'turn_failed', 'It went wrong.', NULL, NULL, NULL, 0, 0, 0, '{"id":"id-0002","identifier":"ABC-2","title":"Title","description":"What is to be done, at some length, with \"quotes\" and a line\nor two.","priority":null,"state":"Todo","branch_name":null,"url":null,"labels":["bug"],"blocked_by":[],"created_at":"2026-11-20T08:00:00.123Z","updated_at":null,"assignee":null,"project":"","archived":false,"last_comment_at":null}', 'a12c27a48bce3f1e', 'boot-1', 4711, -9223372036854775808, '', '', NULL, '/srv/x', '', 'space', 'thread-2', 'turn', 2, 1, 0, 2, 10, 12, 0, 0, 'gpt-5.5', '[{"kind":"pull_request","url":"https://example.com/r/pull/1"}]', '{"primary":{"used_percent":12}}', 1795161600123, 'turn_started', 'It begins.', 1795161600123, 'go test ./...', '{"done":false,"branch":"","commit":"","commits":0,"pull_request":"","code":"","message":""}', 'exit status 1', NULL, '', 7, 1795161660123, 1795161600123, 1795161660123, 60000, NULL, NULL, NULL, '', '');
INSERT INTO runs ("id", "kind", "issue_id", "identifier", "attempt", "phase", "outcome", "error_code", "error_text", "stop_reason", "stop_mono", "stop_boot", "only_stopped", "reap_tries", "settled", "issue", "fingerprint", "worker_boot", "worker_pid", "worker_start", "host", "remote", "heard_at", "workspace_path", "workspace_root", "workspace_id", "thread_id", "turn_id", "turns", "turns_done", "progress", "tokens_input", "tokens_output", "tokens_total", "tokens_cached", "tokens_reasoning", "model", "links", "rate_limits", "rate_limits_at", "last_event", "last_message", "last_event_at", "activity", "delivery", "after_run_error", "handoff_at", "handoff_state", "beats", "heartbeat_at", "started_at", "ended_at", "runtime_ms", "hb_seen", "hb_seen_mono", "hb_seen_boot", "agent", "agent_home") VALUES
  ('run-000003', 'agent', 'id-0003', 'ABC-3', 3, 'streaming_turn', 'failed', 'turn_failed', 'It went wrong.', NULL, NULL, NULL, 0, 0, 1, '{"id":"id-0003","identifier":"ABC-3","title":"Title","description":"What is to be done, at some length, with \"quotes\" and a line\nor two.","priority":null,"state":"Todo","branch_name":null,"url":null,"labels":["bug"],"blocked_by":[],"created_at":"2026-11-20T08:00:00.123Z","updated_at":null,"assignee":null,"project":"","archived":false,"last_comment_at":null}', 'a12c27a48bce3f1e', 'boot-1', 4711, -9223372036854775808, '', '', NULL, '/srv/x', '', 'space', 'thread-3', 'turn', 2, 1, 0, 3, 10, 13, 0, 0, 'gpt-5.5', '[{"kind":"pull_request","url":"https://example.com/r/pull/1"}]', '{"primary":{"used_percent":12}}', 1795161600123, 'turn_started', 'It begins.', 1795161600123, 'go test ./...', '{"done":false,"branch":"","commit":"","commits":0,"pull_request":"","code":"","message":""}', 'exit status 1', NULL, '', 7, 1795161660123, 1795161600123, 1795161660123, 60000, NULL, NULL, NULL, '', '');
INSERT INTO runs ("id", "kind", "issue_id", "identifier", "attempt", "phase", "outcome", "error_code", "error_text", "stop_reason", "stop_mono", "stop_boot", "only_stopped", "reap_tries", "settled", "issue", "fingerprint", "worker_boot", "worker_pid", "worker_start", "host", "remote", "heard_at", "workspace_path", "workspace_root", "workspace_id", "thread_id", "turn_id", "turns", "turns_done", "progress", "tokens_input", "tokens_output", "tokens_total", "tokens_cached", "tokens_reasoning", "model", "links", "rate_limits", "rate_limits_at", "last_event", "last_message", "last_event_at", "activity", "delivery", "after_run_error", "handoff_at", "handoff_state", "beats", "heartbeat_at", "started_at", "ended_at", "runtime_ms", "hb_seen", "hb_seen_mono", "hb_seen_boot", "agent", "agent_home") VALUES
  ('run-000004', 'agent', 'id-0004', 'ABC-4', 4, 'streaming_turn', 'failed', 'turn_failed', 'It went wrong.', NULL, NULL, NULL, 0, 0, 1, '{"id":"id-0004","identifier":"ABC-4","title":"Title","description":"What is to be done, at some length, with \"quotes\" and a line\nor two.","priority":null,"state":"Todo","branch_name":null,"url":null,"labels":["bug"],"blocked_by":[],"created_at":"2026-11-20T08:00:00.123Z","updated_at":null,"assignee":null,"project":"","archived":false,"last_comment_at":null}', 'a12c27a48bce3f1e', 'boot-1', 4711, -9223372036854775808, '', '', NULL, '/srv/x', '', 'space', 'thread-4', 'turn', 2, 1, 0, 4, 10, 14, 0, 0, 'gpt-5.5', '[{"kind":"pull_request","url":"https://example.com/r/pull/1"}]', '{"primary":{"used_percent":12}}', 1795161600123, 'turn_started', 'It begins.', 1795161600123, 'go test ./...', '{"done":false,"branch":"","commit":"","commits":0,"pull_request":"","code":"","message":""}', 'exit status 1', NULL, '', 7, 1795161660123, 1795161600123, 1795161660123, 60000, NULL, NULL, NULL, '', '');
INSERT INTO runs ("id", "kind", "issue_id", "identifier", "attempt", "phase", "outcome", "error_code", "error_text", "stop_reason", "stop_mono", "stop_boot", "only_stopped", "reap_tries", "settled", "issue", "fingerprint", "worker_boot", "worker_pid", "worker_start", "host", "remote", "heard_at", "workspace_path", "workspace_root", "workspace_id", "thread_id", "turn_id", "turns", "turns_done", "progress", "tokens_input", "tokens_output", "tokens_total", "tokens_cached", "tokens_reasoning", "model", "links", "rate_limits", "rate_limits_at", "last_event", "last_message", "last_event_at", "activity", "delivery", "after_run_error", "handoff_at", "handoff_state", "beats", "heartbeat_at", "started_at", "ended_at", "runtime_ms", "hb_seen", "hb_seen_mono", "hb_seen_boot", "agent", "agent_home") VALUES
  ('run-000005', 'agent', 'id-0005', 'ABC-5', 5, 'streaming_turn', 'failed', 'turn_failed', 'It went wrong.', NULL, NULL, NULL, 0, 0, 1, '{"id":"id-0005","identifier":"ABC-5","title":"Title","description":"What is to be done, at some length, with \"quotes\" and a line\nor two.","priority":null,"state":"Todo","branch_name":null,"url":null,"labels":["bug"],"blocked_by":[],"created_at":"2026-11-20T08:00:00.123Z","updated_at":null,"assignee":null,"project":"","archived":false,"last_comment_at":null}', 'a12c27a48bce3f1e', 'boot-1', 4711, -9223372036854775808, '', '', NULL, '/srv/x', '', 'space', 'thread-5', 'turn', 2, 1, 0, 5, 10, 15, 0, 0, 'gpt-5.5', '[{"kind":"pull_request","url":"https://example.com/r/pull/1"}]', '{"primary":{"used_percent":12}}', 1795161600123, 'turn_started', 'It begins.', 1795161600123, 'go test ./...', '{"done":false,"branch":"","commit":"","commits":0,"pull_request":"","code":"","message":""}', 'exit status 1', NULL, '', 7, 1795161660123, 1795161600123, 1795161660123, 60000, NULL, NULL, NULL, '', '');
INSERT INTO skips ("issue_id", "identifier", "reason", "message", "mend", "since", "title", "url", "labels", "place") VALUES
  ('id-9', 'ABC-9', 'blocked_by', 'it waits for ABC-8', '', 1795161600123, 'Two lamps', 'https://example.com/9', 'null', 0);
INSERT INTO team_claims ("issue_id", "identifier", "key", "version", "content", "object", "tried", "renewed_boot", "renewed_at", "lost_to") VALUES
  ('id-0001', 'ABC-1', '3f2a9c1b04de55aa10c7', 1, 'content', 'object', '[{"Content":"tried","At":{"Boot":"boot-1","Since":3600000000000}}]', 'boot-1', 3600000000000, '');
INSERT INTO team_seen ("key", "object", "content", "looked_boot", "looked_at", "age", "seen_at") VALUES
  ('aa10c73f2a9c1b04de55', 'object', 'content', 'boot-1', 3600000000000, 60000000000, 1795161600123);
INSERT INTO threads ("thread_id", "issue_id", "run_id", "workspace_id", "input", "output", "total", "cached", "reasoning", "base_input", "base_output", "base_total", "base_cached", "base_reasoning", "told_comment_at", "told_description", "told_prompt", "told_base", "codex_home", "ended", "updated_at") VALUES
  ('thread-1', 'id-0001', 'run-000001', 'space', 1, 10, 11, 0, 0, 0, 0, 0, 0, 0, 1795161600123, 'hash', 'prompt', '', '/home/ann/.codex', 0, 1795161600123);
INSERT INTO threads ("thread_id", "issue_id", "run_id", "workspace_id", "input", "output", "total", "cached", "reasoning", "base_input", "base_output", "base_total", "base_cached", "base_reasoning", "told_comment_at", "told_description", "told_prompt", "told_base", "codex_home", "ended", "updated_at") VALUES
  ('thread-2', 'id-0002', 'run-000002', 'space', 2, 10, 12, 0, 0, 0, 0, 0, 0, 0, NULL, '', '', '', NULL, 0, 1795161600123);
INSERT INTO threads ("thread_id", "issue_id", "run_id", "workspace_id", "input", "output", "total", "cached", "reasoning", "base_input", "base_output", "base_total", "base_cached", "base_reasoning", "told_comment_at", "told_description", "told_prompt", "told_base", "codex_home", "ended", "updated_at") VALUES
  ('thread-3', 'id-0003', 'run-000003', 'space', 3, 10, 13, 0, 0, 0, 0, 0, 0, 0, NULL, '', '', '', NULL, 0, 1795161600123);
INSERT INTO threads ("thread_id", "issue_id", "run_id", "workspace_id", "input", "output", "total", "cached", "reasoning", "base_input", "base_output", "base_total", "base_cached", "base_reasoning", "told_comment_at", "told_description", "told_prompt", "told_base", "codex_home", "ended", "updated_at") VALUES
  ('thread-4', 'id-0004', 'run-000004', 'space', 4, 10, 14, 0, 0, 0, 0, 0, 0, 0, NULL, '', '', '', NULL, 0, 1795161600123);
INSERT INTO threads ("thread_id", "issue_id", "run_id", "workspace_id", "input", "output", "total", "cached", "reasoning", "base_input", "base_output", "base_total", "base_cached", "base_reasoning", "told_comment_at", "told_description", "told_prompt", "told_base", "codex_home", "ended", "updated_at") VALUES
  ('thread-5', 'id-0005', 'run-000005', 'space', 5, 10, 15, 0, 0, 0, 0, 0, 0, 0, NULL, '', '', '', NULL, 0, 1795161600123);
