-- Browser sessions. While one is open, its row is what it is restored from after its worker or the service died.
-- Once it has ended, the row only says so for a while: whatever could identify a person is gone.
CREATE TABLE session (
    id              TEXT PRIMARY KEY CHECK (length(id) = 32),
    engine          TEXT NOT NULL,
    profile         TEXT,
    -- JSON, as the session was created; '{}' once it has ended.
    options         TEXT NOT NULL,
    state           TEXT NOT NULL CHECK (state IN ('open', 'closed', 'expired', 'lost')),
    -- Why it ended.
    reason          TEXT,
    created_at      INTEGER NOT NULL,
    last_used_at    INTEGER NOT NULL,
    ended_at        INTEGER,
    idle_timeout_ms INTEGER NOT NULL CHECK (idle_timeout_ms >= 0),
    -- The end of its lifetime, however much it is used.
    expires_at      INTEGER NOT NULL,
    url             TEXT,
    -- JSON: cookies, the storage of visited origins, and what else a restored page needs.
    saved           TEXT,
    saved_at        INTEGER,
    -- The number that the next new element gets. Never lowered, so that no ref ever names two elements.
    next_ref        INTEGER NOT NULL DEFAULT 1 CHECK (next_ref >= 1),
    -- The engine's own id of the page, where the engine outlives the service.
    target          TEXT,
    CHECK ((state = 'open') = (ended_at IS NULL)),
    CHECK (state = 'open' OR (options = '{}' AND url IS NULL AND saved IS NULL AND target IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX session_by_end ON session (ended_at);
