-- Accounts. `email_key` is the address in lower case: by it accounts are found and told apart.
CREATE TABLE users (
    user_key       INTEGER PRIMARY KEY,
    user_id        TEXT NOT NULL UNIQUE,
    email          TEXT NOT NULL,
    email_key      TEXT NOT NULL UNIQUE,
    password_hash  TEXT,
    system_role    TEXT NOT NULL,
    needs_setup    SMALLINT NOT NULL,
    token_version  BIGINT NOT NULL,
    oauth_provider TEXT,
    oauth_id       TEXT,
    created_at     BIGINT NOT NULL
);
CREATE UNIQUE INDEX users_by_oauth ON users (oauth_provider, oauth_id) WHERE oauth_provider IS NOT NULL;

-- Personal API keys, of which only the hash (SHA-256) is kept.
CREATE TABLE api_keys (
    api_key      INTEGER PRIMARY KEY,
    key_id       TEXT NOT NULL UNIQUE,
    user_id      TEXT NOT NULL,
    name         TEXT NOT NULL,
    hash         BLOB NOT NULL UNIQUE,
    prefix       TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    last_used_at BIGINT,
    expires_at   BIGINT
);
CREATE INDEX api_keys_by_user ON api_keys (user_id, created_at);
