-- Version 1 of schedules.db. Immutable: a change of the schema is a new file and a migration.
-- Instants are ns since the Unix epoch. They pass 64 bits in the year 2262 and schedules reach to
-- 9999, so `progress` keeps them as JSON: [next, last_fired, consumed, [missed, ...]], and a fifth
-- item, true, in a recurrence that was accepted under an unsynchronized clock and waits for it.
CREATE TABLE schedules (
    skill_id      TEXT NOT NULL,
    id            TEXT NOT NULL,
    record        BLOB NOT NULL,
    context       BLOB,
    route         TEXT NOT NULL,
    legacy_event  TEXT,
    progress      BLOB NOT NULL,
    PRIMARY KEY (skill_id, id)
) WITHOUT ROWID;

-- One row. `lease` marks countdowns on the board as armed by this bridge. `written_ns` is the wall time of the newest write and `fired_ns` the due instant of the
-- newest fire: a clock that reads earlier than either is not synchronized (E71).
CREATE TABLE bridge (
    only       INTEGER PRIMARY KEY CHECK (only = 1),
    written_ns INTEGER NOT NULL,
    fired_ns   INTEGER NOT NULL,
    zone_rules TEXT NOT NULL,
    lease      INTEGER NOT NULL
);
