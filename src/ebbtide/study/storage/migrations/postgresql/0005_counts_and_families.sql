-- Running counts, and what is active: see migrations/sqlite. Whoever runs an older ebbtide may go on writing: so the
-- tables are locked first, and nothing is written between the count and the triggers.
LOCK TABLE asks, tells, removals IN ACCESS EXCLUSIVE MODE;
ALTER TABLE tells
    ADD COLUMN valued bigint,
    ADD COLUMN failed bigint,
    ADD COLUMN first double precision,
    ADD COLUMN last double precision,
    ADD COLUMN alike bigint;
ALTER TABLE asks ADD COLUMN gone bigint;
CREATE TABLE active (
    study bigint NOT NULL REFERENCES studies ON DELETE CASCADE,
    line bigint NOT NULL,
    PRIMARY KEY (study, line)
);
DO $$  -- whoever may read or change the other tables may do so with this one
DECLARE
    may record;
BEGIN
    FOR may IN
        SELECT CASE grantee WHEN 'PUBLIC' THEN 'PUBLIC' ELSE quote_ident(grantee) END AS who,
            CASE privilege_type WHEN 'INSERT' THEN 'INSERT, DELETE' ELSE privilege_type END AS what
        FROM information_schema.table_privileges
        WHERE table_schema = current_schema() AND table_name = 'removals' AND grantee <> current_user
    LOOP
        EXECUTE 'GRANT ' || may.what || ' ON active TO ' || may.who;
    END LOOP;
END $$;
DROP INDEX broken_constraints;
CREATE INDEX broken_constraints ON tells (study, broken, line) WHERE broken IS NOT NULL;

UPDATE tells t
SET valued = c.valued, failed = c.failed, first = c.first, last = c.last, alike = c.alike
FROM (
    SELECT study, line, count(value) OVER so_far AS valued,
        count(*) FILTER (WHERE value IS NULL AND NOT abandoned) OVER so_far AS failed,
        min(time) FILTER (WHERE value IS NOT NULL) OVER so_far AS first,
        max(time) FILTER (WHERE value IS NOT NULL) OVER so_far AS last,
        CASE WHEN broken IS NOT NULL THEN row_number() OVER (PARTITION BY study, broken ORDER BY line) END AS alike
    FROM tells WINDOW so_far AS (PARTITION BY study ORDER BY line)
) AS c
WHERE c.study = t.study AND c.line = t.line;

UPDATE asks a
SET gone = c.gone
FROM (
    SELECT study, ask, sum(removed) OVER (PARTITION BY study ORDER BY ask) - removed AS gone FROM (
        SELECT a.study, a.ask, count(r.line) AS removed
        FROM asks a LEFT JOIN removals r ON r.study = a.study AND r.ask = a.ask GROUP BY a.study, a.ask
    ) AS each_ask
) AS c
WHERE c.study = a.study AND c.ask = a.ask;

INSERT INTO active
    SELECT t.study, t.line
    FROM tells t JOIN (SELECT study, max(told) AS told FROM asks GROUP BY study) AS seen
        ON seen.study = t.study AND t.line < seen.told
    WHERE t.value IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM removals r WHERE r.study = t.study AND r.line = t.line);

CREATE FUNCTION a_line_is_counted() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    before record;
BEGIN
    SELECT valued, failed, first, last INTO before FROM tells WHERE study = NEW.study AND line = NEW.line - 1;
    NEW.valued := coalesce(before.valued, 0) + (NEW.value IS NOT NULL)::int;
    NEW.failed := coalesce(before.failed, 0) + (NEW.value IS NULL AND NOT NEW.abandoned)::int;
    NEW.first := least(before.first, CASE WHEN NEW.value IS NOT NULL THEN NEW.time END);  -- NULL is left out
    NEW.last := greatest(before.last, CASE WHEN NEW.value IS NOT NULL THEN NEW.time END);
    IF NEW.broken IS NOT NULL THEN
        NEW.alike := 1 + coalesce((
            SELECT alike FROM tells WHERE study = NEW.study AND broken = NEW.broken AND line < NEW.line
            ORDER BY line DESC LIMIT 1
        ), 0);
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER a_line_is_counted BEFORE INSERT ON tells
    FOR EACH ROW WHEN (NEW.valued IS NULL) EXECUTE FUNCTION a_line_is_counted();

CREATE FUNCTION an_ask_is_counted() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    before record;
BEGIN
    SELECT told, gone INTO before FROM asks WHERE study = NEW.study AND ask = NEW.ask - 1;
    NEW.gone := coalesce(before.gone, 0)
        + (SELECT count(*) FROM removals WHERE study = NEW.study AND ask = NEW.ask - 1);
    INSERT INTO active SELECT NEW.study, line FROM tells
    WHERE study = NEW.study AND value IS NOT NULL AND line < NEW.told AND line >= coalesce(before.told, 0);
    RETURN NEW;
END $$;
CREATE TRIGGER an_ask_is_counted BEFORE INSERT ON asks
    FOR EACH ROW WHEN (NEW.gone IS NULL) EXECUTE FUNCTION an_ask_is_counted();

CREATE FUNCTION a_line_is_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM active WHERE study = NEW.study AND line = NEW.line;
    RETURN NULL;
END $$;
CREATE TRIGGER a_line_is_removed AFTER INSERT ON removals FOR EACH ROW EXECUTE FUNCTION a_line_is_removed();

-- Which studies are siblings.
ALTER TABLE studies ADD COLUMN family text COLLATE "C";
CREATE INDEX siblings ON studies (family, study) WHERE family IS NOT NULL;
