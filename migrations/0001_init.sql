-- Times are milliseconds since the Unix epoch. Released files here are never edited: a change is another file.

-- One file under artifacts/, named by its content. Several artifacts may share it.
CREATE TABLE blob (
    sha256 TEXT PRIMARY KEY CHECK (length(sha256) = 64 AND sha256 NOT GLOB '*[^0-9a-f]*'),
    bytes  INTEGER NOT NULL CHECK (bytes >= 0),
    -- 0 when the last start found the file missing or of another size.
    intact INTEGER NOT NULL DEFAULT 1 CHECK (intact IN (0, 1))
) STRICT, WITHOUT ROWID;

CREATE TABLE artifact (
    -- The order of arrival, never used twice: what lists and cursors follow, whatever the clock does.
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    id           TEXT NOT NULL UNIQUE CHECK (length(id) = 32),
    kind         TEXT NOT NULL,
    request_key  TEXT NOT NULL,
    url          TEXT NOT NULL,
    final_url    TEXT NOT NULL,
    title        TEXT,
    content_type TEXT NOT NULL,
    format       TEXT NOT NULL,
    http_status  INTEGER,
    sha256       TEXT NOT NULL REFERENCES blob (sha256),
    chars        INTEGER NOT NULL CHECK (chars >= 0),
    created_at   INTEGER NOT NULL,
    meta         TEXT NOT NULL
) STRICT;

CREATE INDEX artifact_by_request ON artifact (request_key, seq);
CREATE INDEX artifact_by_blob ON artifact (sha256, seq);
CREATE INDEX artifact_by_age ON artifact (created_at);

-- What callers see: an artifact without its text is not listed.
CREATE VIEW listed_artifact AS
    SELECT artifact.*, blob.bytes FROM artifact JOIN blob USING (sha256) WHERE blob.intact = 1;
