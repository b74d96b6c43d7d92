-- The engine's whole schema. Times are milliseconds since 1970 (UTC); JSON is ASCII text.
-- Tables with large values have row ids: without, what exceeds a kilobyte would take a page of its own (measured).

CREATE TABLE IF NOT EXISTS apps (
  name      TEXT PRIMARY KEY,
  url       TEXT NOT NULL,             -- where calls go; empty: in this process, attached at start
  sdk       TEXT NOT NULL,
  checksum  TEXT NOT NULL,
  synced_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS functions (
  slug     TEXT PRIMARY KEY,
  app      TEXT NOT NULL,
  config   TEXT NOT NULL,              -- as registered
  archived INTEGER NOT NULL,           -- 1: no longer in its app; nothing starts, and open runs were cancelled
  paused   INTEGER NOT NULL DEFAULT 0  -- 1: starts are held until it is resumed
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS crons (
  function     TEXT NOT NULL,
  expression   TEXT NOT NULL,
  last_instant INTEGER NOT NULL,       -- the last instant that ended as ran or skipped
  PRIMARY KEY (function, expression)
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS events (
  internal_id TEXT PRIMARY KEY,        -- ULID, the id that the sender gets back
  name        TEXT NOT NULL,
  body        TEXT NOT NULL,           -- as functions see it
  received_at INTEGER NOT NULL,
  source      INTEGER NOT NULL         -- 0 sent, 1 sent again with a known id (starts nothing), 2 internal
) STRICT;

CREATE TABLE IF NOT EXISTS event_ids (  -- ids given by senders, for 24 hours
  name        TEXT NOT NULL,
  id          TEXT NOT NULL,
  received_at INTEGER NOT NULL,
  PRIMARY KEY (name, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS runs (
  id            TEXT PRIMARY KEY,      -- ULID
  function      TEXT NOT NULL,
  event_id      TEXT NOT NULL,         -- events.internal_id
  status        TEXT NOT NULL,         -- Scheduled Running Completed Failed Cancelled
  created_at    INTEGER NOT NULL,
  started_at    INTEGER,
  ended_at      INTEGER,
  output        TEXT,                  -- value, or error when Failed
  singleton_key TEXT,
  quiet         INTEGER NOT NULL,      -- 1: started by a lifecycle event, emits none itself
  parent_run    TEXT,                  -- the run and step that invoked this one
  parent_step   TEXT,
  req_version   INTEGER NOT NULL,      -- what the SDK answered last, -1 before its first answer
  priority      INTEGER NOT NULL DEFAULT 0, -- seconds that it goes ahead of others
  replay_of     TEXT,                  -- the run that this one repeats
  reason        TEXT                   -- why it was cancelled, when nobody asked for it by name
) STRICT;
CREATE INDEX IF NOT EXISTS runs_by_event ON runs (event_id);
CREATE INDEX IF NOT EXISTS runs_by_end ON runs (ended_at);

CREATE TABLE IF NOT EXISTS run_events ( -- the events of a batch, in order; other runs have one, in runs.event_id
  run_id   TEXT NOT NULL,
  position INTEGER NOT NULL,
  event_id TEXT NOT NULL,
  PRIMARY KEY (run_id, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS run_events_by_event ON run_events (event_id);

CREATE TABLE IF NOT EXISTS held (      -- starts that wait: for quiet, for company, for the function to be resumed
  start_id    INTEGER NOT NULL,        -- rows of one start share it
  event_id    TEXT NOT NULL,           -- ULIDs: their order is the order of arrival
  why         TEXT NOT NULL,           -- debounce batch pause
  function    TEXT NOT NULL,
  key         TEXT NOT NULL,
  due_at      INTEGER,
  latest_at   INTEGER,                 -- a debounce may be put off no longer than this
  parent_run  TEXT,                    -- the run and step that invoked, if any
  parent_step TEXT,
  PRIMARY KEY (start_id, event_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS held_by_event ON held (event_id);

CREATE TABLE IF NOT EXISTS rates (     -- how far rate limits and throttles have got
  policy   TEXT NOT NULL,              -- rateLimit idempotency throttle
  function TEXT NOT NULL,
  key      TEXT NOT NULL,
  tat      INTEGER NOT NULL,           -- theoretical arrival time, microseconds since 1970
  PRIMARY KEY (policy, function, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS sends (     -- requests to send events that an SDK may repeat, for ten minutes
  seed        TEXT PRIMARY KEY,
  ids         TEXT NOT NULL,           -- JSON list of the ids it got
  received_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS cancellations ( -- bulk cancellations, as asked for over REST
  id         TEXT PRIMARY KEY,
  created_at INTEGER NOT NULL,
  body       TEXT NOT NULL             -- JSON as answered
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS steps (
  run_id     TEXT NOT NULL,
  id         TEXT NOT NULL,            -- hash
  name       TEXT NOT NULL,            -- as the author wrote it
  op         TEXT NOT NULL,            -- StepRun Sleep WaitForEvent InvokeFunction AIGateway
  status     TEXT NOT NULL,            -- Open Completed Failed Cancelled
  position   INTEGER,                  -- order of completion, from 1
  attempt    INTEGER NOT NULL,
  target     TEXT,                     -- event name waited for, function invoked
  opts       TEXT,                     -- JSON
  memo       TEXT,                     -- JSON, exactly as calls carry it
  parallel   INTEGER NOT NULL,         -- 1: planned beside others
  race       INTEGER NOT NULL,         -- 1: parallelMode race
  created_at INTEGER NOT NULL,
  started_at INTEGER,
  ended_at   INTEGER,
  due_at     INTEGER,                  -- wake-up or time-out
  PRIMARY KEY (run_id, id)
) STRICT;

CREATE TABLE IF NOT EXISTS failures (  -- attempts that failed
  run_id     TEXT NOT NULL,
  step_id    TEXT NOT NULL,            -- hash, or `step` when the failure has no step of its own
  started_at INTEGER NOT NULL,
  ended_at   INTEGER NOT NULL,
  attempt    INTEGER NOT NULL,
  error      TEXT NOT NULL             -- JSON
) STRICT;
CREATE INDEX IF NOT EXISTS failures_by_run ON failures (run_id);

CREATE TABLE IF NOT EXISTS jobs (      -- calls to make
  id            INTEGER PRIMARY KEY,
  run_id        TEXT NOT NULL,
  step_id       TEXT NOT NULL,         -- hash of the step to run, or `step`: go on from where the memos end
  due_at        INTEGER NOT NULL,
  attempt       INTEGER NOT NULL,
  parallel      INTEGER NOT NULL,
  claimed       INTEGER NOT NULL,      -- 1: the call may be on its way
  interruptions INTEGER NOT NULL       -- how often the process ended meanwhile
) STRICT;
