-- Times are UTC milliseconds since 1970, NULL where there is none; texts without a value
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

CREATE INDEX runs_unsettled ON runs (id) WHERE settled = 0;
CREATE INDEX runs_by_issue ON runs (issue_id, id);
CREATE INDEX runs_by_identifier ON runs (identifier COLLATE NOCASE, id);
CREATE INDEX runs_by_rate_limits ON runs (rate_limits_at) WHERE rate_limits IS NOT NULL;
-- What a report asks for. The outcomes by day are read from the index alone.
CREATE INDEX runs_by_end ON runs (ended_at, outcome, runtime_ms) WHERE kind = 'agent';
-- A search reads only this index, the newest runs first.
CREATE INDEX runs_found ON runs (id DESC, found, labels) WHERE settled = 1;
-- The last line of defence of "never two workers for one issue".
CREATE UNIQUE INDEX runs_one_live ON runs (issue_id) WHERE outcome IS NULL AND kind = 'agent';
-- An issue has at most one run that may be at work on another machine.
CREATE UNIQUE INDEX runs_there ON runs (issue_id) WHERE remote = 'begun';

-- The workspaces on other machines, as the last run there has seen them.
CREATE TABLE remote_workspaces (
  issue_id  TEXT NOT NULL,
  host      TEXT NOT NULL,
  root      TEXT NOT NULL,
  run_id    TEXT NOT NULL, -- that run
  workspace TEXT NOT NULL, -- JSON
  PRIMARY KEY (issue_id, host, root)
) STRICT, WITHOUT ROWID;

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

CREATE INDEX threads_by_run ON threads (run_id);

-- What settled runs of an issue used. Outlives the runs.
CREATE TABLE issue_totals (
  issue_id   TEXT    NOT NULL PRIMARY KEY,
  input      INTEGER NOT NULL,
  output     INTEGER NOT NULL,
  total      INTEGER NOT NULL,
  cached     INTEGER NOT NULL DEFAULT 0,
  reasoning  INTEGER NOT NULL DEFAULT 0,
  runtime_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- AUTOINCREMENT: the id of a consumed command never comes back.
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

-- The gaps between the passes of a schedule, for a report.
CREATE INDEX passes_rhythm ON passes (started_at) WHERE "trigger" IN ('cron', 'timer', 'loop');
CREATE INDEX passes_scheduled ON passes (id) WHERE "trigger" IN ('cron', 'timer', 'loop');

-- What an agent asks of a person. The id of a request is the issue's identifier, a dot and its
-- number, for example ABC-7.3. A request whose run has ended has ended with it (run_ended),
-- whatever is stored here.
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

CREATE INDEX requests_by_run ON requests (run_id);
CREATE INDEX requests_by_identifier ON requests (identifier COLLATE NOCASE, number);

-- What hooks.on_attention is run for, once each. A process takes the row before it runs the hook,
-- and marks it done afterwards.
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

-- Tokens by the day (of UTC) on which they were reported, and by model.
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

-- What agents created in the tracker. It tells a person's comments from those of agents.
CREATE TABLE created (
  id       TEXT    NOT NULL PRIMARY KEY,
  kind     TEXT    NOT NULL,
  issue_id TEXT    NOT NULL DEFAULT '',
  run_id   TEXT    NOT NULL,
  at       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX created_by_run ON created (run_id);

-- The issues that were let go after a run at least, and what was done for them since they were
-- claimed. Outlives claims and runs.
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

CREATE INDEX releases_by_time ON releases (released_at);
CREATE INDEX releases_by_issue ON releases (issue_id, id);
CREATE INDEX releases_in_review ON releases (issue_id) WHERE in_review = 1;

-- What was pushed last for an issue. Outlives claims and runs.
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

-- What symphony says in the tracker: at most one comment for each key, which is that of a request's
-- notification or "hold:" and the issue. The row is stored before the comment is made. If a pass is
-- killed in between, a later one looks for the comment.
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

-- The newest pull request of an issue's branch, as the tracker described it last. Outlives the claim.
CREATE TABLE pull_requests (
  issue_id   TEXT    NOT NULL PRIMARY KEY,
  identifier TEXT    NOT NULL,
  request    TEXT    NOT NULL, -- JSON
  seen_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What is known of the pull requests of issues that were handed over. Outlives the claim.
CREATE TABLE watches (
  issue_id     TEXT    NOT NULL PRIMARY KEY,
  pull_request TEXT    NOT NULL, -- its address
  ended        INTEGER NOT NULL, -- 1 if nothing more is expected of it
  watch        TEXT    NOT NULL  -- JSON
) STRICT, WITHOUT ROWID;

-- This machine's claims in the git remote, which keep the other machines of a team from its issues.
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

-- The claims of other machines in the git remote, as this one saw them last.
CREATE TABLE team_seen (
  key         TEXT    NOT NULL PRIMARY KEY,
  object      TEXT    NOT NULL,
  content     TEXT    NOT NULL,
  looked_boot TEXT    NOT NULL, -- when this machine saw the object last, as renewed_boot and renewed_at
  looked_at   INTEGER NOT NULL,
  age         INTEGER NOT NULL, -- for how long it had seen the same object then, in nanoseconds
  seen_at     INTEGER NOT NULL  -- when that began by the clock
) STRICT, WITHOUT ROWID;

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
