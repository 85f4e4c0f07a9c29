-- What opening a study would otherwise count, so that a long history need not be read: each row says how much there was
-- up to it, and what was active at the last ask has a table of its own. Triggers fill both in, in the transaction that
-- records the row; a row that is copied brings its counts with it.
ALTER TABLE tells ADD COLUMN valued INTEGER;  -- lines up to this one that have a value
ALTER TABLE tells ADD COLUMN failed INTEGER;  -- lines up to this one that failed
ALTER TABLE tells ADD COLUMN first REAL;      -- the earliest time of a value up to this line
ALTER TABLE tells ADD COLUMN last REAL;       -- the latest
ALTER TABLE tells ADD COLUMN alike INTEGER;   -- lines up to this one with the same `broken`
ALTER TABLE asks ADD COLUMN gone INTEGER;     -- lines that were removed before this ask
CREATE TABLE active (
    study INTEGER NOT NULL REFERENCES studies ON DELETE CASCADE,
    line INTEGER NOT NULL,     -- a line that the last ask had seen, and that is still active
    PRIMARY KEY (study, line)
) WITHOUT ROWID;

-- With types: SQLite does not look up an INTEGER by the key of a column without one.
CREATE TEMP TABLE counted (
    study INTEGER, line INTEGER, valued INTEGER, failed INTEGER, first REAL, last REAL, alike INTEGER,
    PRIMARY KEY (study, line)
) WITHOUT ROWID;
INSERT INTO counted
    SELECT study, line, count(value) OVER so_far, sum(value IS NULL AND NOT abandoned) OVER so_far,
        min(CASE WHEN value IS NOT NULL THEN time END) OVER so_far,
        max(CASE WHEN value IS NOT NULL THEN time END) OVER so_far,
        CASE WHEN broken IS NOT NULL THEN row_number() OVER (PARTITION BY study, broken ORDER BY line) END
    FROM tells WINDOW so_far AS (PARTITION BY study ORDER BY line);
UPDATE tells SET (valued, failed, first, last, alike) = (
    SELECT valued, failed, first, last, alike FROM counted c WHERE c.study = tells.study AND c.line = tells.line
);
DROP TABLE counted;

CREATE TEMP TABLE counted (study INTEGER, ask INTEGER, gone INTEGER, PRIMARY KEY (study, ask)) WITHOUT ROWID;
INSERT INTO counted
    SELECT study, ask, sum(removed) OVER (PARTITION BY study ORDER BY ask) - removed FROM (
        SELECT study, ask, (SELECT count(*) FROM removals r WHERE r.study = a.study AND r.ask = a.ask) AS removed
        FROM asks a
    );
UPDATE asks SET gone = (SELECT gone FROM counted c WHERE c.study = asks.study AND c.ask = asks.ask);
DROP TABLE counted;

INSERT INTO active
    SELECT study, line FROM tells t
    WHERE value IS NOT NULL
        AND line < (SELECT told FROM asks a WHERE a.study = t.study ORDER BY ask DESC LIMIT 1)
        AND NOT EXISTS (SELECT 1 FROM removals r WHERE r.study = t.study AND r.line = t.line);

CREATE TRIGGER a_line_is_counted AFTER INSERT ON tells WHEN NEW.valued IS NULL BEGIN
    UPDATE tells SET (valued, failed, first, last) = (  -- of the line before, of which there may be none
        SELECT
            coalesce(max(valued), 0) + (NEW.value IS NOT NULL),
            coalesce(max(failed), 0) + (NEW.value IS NULL AND NOT NEW.abandoned),
            CASE WHEN NEW.value IS NULL OR max(first) <= NEW.time THEN max(first) ELSE NEW.time END,
            CASE WHEN NEW.value IS NULL OR max(last) >= NEW.time THEN max(last) ELSE NEW.time END
        FROM tells WHERE study = NEW.study AND line = NEW.line - 1
    ) WHERE study = NEW.study AND line = NEW.line;
    UPDATE tells SET alike = 1 + coalesce((
        SELECT alike FROM tells INDEXED BY broken_constraints
        WHERE study = NEW.study AND broken = NEW.broken AND line < NEW.line ORDER BY line DESC LIMIT 1
    ), 0) WHERE study = NEW.study AND line = NEW.line AND broken IS NOT NULL;
END;
CREATE TRIGGER an_ask_is_counted AFTER INSERT ON asks WHEN NEW.gone IS NULL BEGIN
    UPDATE asks SET gone =
        coalesce((SELECT gone FROM asks WHERE study = NEW.study AND ask = NEW.ask - 1), 0)
        + (SELECT count(*) FROM removals WHERE study = NEW.study AND ask = NEW.ask - 1)
    WHERE study = NEW.study AND ask = NEW.ask;
    INSERT INTO active SELECT NEW.study, line FROM tells
    WHERE study = NEW.study AND value IS NOT NULL AND line < NEW.told
        AND line >= coalesce((SELECT told FROM asks WHERE study = NEW.study AND ask = NEW.ask - 1), 0);
END;
CREATE TRIGGER a_line_is_removed AFTER INSERT ON removals BEGIN
    DELETE FROM active WHERE study = NEW.study AND line = NEW.line;
END;

-- Which studies are siblings.
ALTER TABLE studies ADD COLUMN family TEXT;  -- the tenant and the family, as "team-a./edge"; NULL: it has none
CREATE INDEX siblings ON studies (family, study) WHERE family IS NOT NULL;
