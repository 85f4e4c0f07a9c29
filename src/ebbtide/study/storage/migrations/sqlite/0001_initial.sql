-- The log: rows are only added, except that a whole study may be deleted.
CREATE TABLE studies (
    study INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    created REAL NOT NULL,
    definition TEXT NOT NULL
);
CREATE TABLE asks (
    study INTEGER NOT NULL REFERENCES studies ON DELETE CASCADE,
    ask INTEGER NOT NULL,      -- 0, 1, 2, ..., the trial's id
    told INTEGER NOT NULL,     -- how many lines of tells it had seen
    now REAL NOT NULL,         -- the clock when it began
    until REAL,                -- the latest time that it could choose (NULL: any)
    landed REAL NOT NULL,      -- the clock when it was answered
    params TEXT NOT NULL,
    time REAL NOT NULL,        -- the time that the query is for
    expires REAL,              -- when it stops counting as pending (NULL: after one timescale)
    state TEXT NOT NULL,       -- the canonical state that it left behind
    PRIMARY KEY (study, ask)
) WITHOUT ROWID;
CREATE TABLE tells (
    study INTEGER NOT NULL REFERENCES studies ON DELETE CASCADE,
    line INTEGER NOT NULL,     -- 0, 1, 2, ..., the position in the order told
    asks INTEGER NOT NULL,     -- how many asks came before it
    reading REAL NOT NULL,     -- the clock when it was told
    params TEXT NOT NULL,
    time REAL NOT NULL,        -- the time that the value belongs to
    value REAL,                -- NULL: the evaluation failed
    ask INTEGER,               -- the trial (NULL: measured elsewhere)
    key TEXT,                  -- the idempotency key, if any
    PRIMARY KEY (study, line)
) WITHOUT ROWID;
CREATE UNIQUE INDEX a_trial_is_told_once ON tells (study, ask) WHERE ask IS NOT NULL;
CREATE INDEX failures ON tells (study) WHERE value IS NULL;
CREATE UNIQUE INDEX a_key_is_used_once ON tells (study, key) WHERE key IS NOT NULL;
CREATE TABLE removals (
    study INTEGER NOT NULL REFERENCES studies ON DELETE CASCADE,
    line INTEGER NOT NULL,     -- the line of tells that was removed
    ask INTEGER NOT NULL,      -- the ask that removed it, at its `now`
    relevance REAL,
    PRIMARY KEY (study, line)
) WITHOUT ROWID;
CREATE INDEX removals_of_an_ask ON removals (study, ask);
