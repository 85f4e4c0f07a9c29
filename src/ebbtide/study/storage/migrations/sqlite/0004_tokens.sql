-- Who may use a service, besides the administrator. A token itself is not stored.
CREATE TABLE tokens (
    token TEXT PRIMARY KEY NOT NULL,  -- its id, which is random, so that it tells nothing about other tokens
    name TEXT NOT NULL,               -- who has it
    digest BLOB NOT NULL,             -- SHA-256 of the token
    scopes TEXT NOT NULL,             -- such as "read,tell"
    prefix TEXT NOT NULL,             -- of the names of its studies; '' for all
    created REAL NOT NULL,
    revoked REAL                      -- NULL: it is valid
) WITHOUT ROWID;
