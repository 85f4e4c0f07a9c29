-- Which studies are siblings.
ALTER TABLE studies ADD COLUMN family TEXT;  -- the tenant and the family, as "team-a./edge"; NULL: it has none
CREATE INDEX siblings ON studies (family, study) WHERE family IS NOT NULL;
