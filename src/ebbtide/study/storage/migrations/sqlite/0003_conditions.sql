-- What was measured around a trial: the context that it was chosen for, and values that are under a constraint.
ALTER TABLE asks ADD COLUMN context TEXT;       -- NULL: the study has none
ALTER TABLE asks ADD COLUMN filled TEXT;        -- names in the context that were not measured, but taken from earlier
ALTER TABLE tells ADD COLUMN context TEXT;
ALTER TABLE tells ADD COLUMN filled TEXT;
ALTER TABLE tells ADD COLUMN constraints TEXT;  -- measured values, by name
ALTER TABLE tells ADD COLUMN broken INTEGER;    -- which constraints they broke, as bits; NULL: it does not count
CREATE INDEX broken_constraints ON tells (study, broken) WHERE broken IS NOT NULL;
