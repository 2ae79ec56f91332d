//! Opening the database file: its folder, its mode, its schema.

use crate::config::{Durability, StoreOptions};
use crate::error::{Place, damaged};
use deerflow_core::StoreError;
use sqlx::migrate::{Migrate as _, MigrateError, Migrator};
use sqlx::sqlite::{SqliteAutoVacuum, SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions as _, SqliteConnection, SqlitePool};
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

static MIGRATIONS: Migrator = sqlx::migrate!("./migrations");

/// How long to wait for another process that writes. The writer task sets it again after it cut the log.
const BUSY: Duration = Duration::from_secs(10);
/// How often the schema lock is tried.
const LOCK_POLL: Duration = Duration::from_millis(5);
/// Pages of the write-ahead log after which it is copied back: 2 MiB.
const LOG_PAGES: &str = "512";
/// Size the log file is cut to when it starts again, in bytes.
const LOG_FILE_BYTES: &str = "1048576";
/// Page cache of a reader: 1 MiB.
const READER_CACHE: &str = "-1024";
const PAGE_BYTES: u64 = 4096;
/// Rows that a connection hands over without waiting to be asked.
const ROW_BUFFER: usize = 512;

/// Makes the folder (0700) and the file (0600), which the log files inherit.
pub(crate) fn prepare(place: &Place) -> Result<(), StoreError> {
    let path = place.path();
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| {
            place.unavailable(format!(
                "its folder cannot be made: {error}; hint: set `database.sqlite_dir` to a writable folder"
            ))
        })?;
    }
    open_private(path).map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                "; hint: check its owner and mode, or set `database.sqlite_dir` to a writable folder"
            }
            _ => "",
        };
        place.unavailable(format!("{error}{hint}"))
    })?;
    Ok(())
}

fn open_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// One process at a time may bring the schema up to date. Released when the file is closed. Blocks.
pub(crate) fn lock_schema(place: &Place) -> Result<File, StoreError> {
    let mut path = place.path().as_os_str().to_owned();
    path.push(".lock");
    let explain = |error: io::Error| place.unavailable(format!("its lock file: {error}"));
    let file = open_private(Path::new(&path)).map_err(explain)?;
    let deadline = Instant::now() + BUSY;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => std::thread::sleep(LOCK_POLL),
            Err(TryLockError::WouldBlock) => {
                return Err(place.unavailable(format!(
                    "another process has been bringing its schema up to date for {} seconds",
                    BUSY.as_secs()
                )));
            }
            Err(TryLockError::Error(error)) => return Err(explain(error)),
        }
    }
}

fn connect_options(place: &Place, options: &StoreOptions) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(place.path())
        .create_if_missing(false)
        .foreign_keys(false)
        .busy_timeout(BUSY)
        .statement_cache_capacity(100)
        .row_buffer_size(ROW_BUFFER)
        .synchronous(match options.durability {
            Durability::Process => SqliteSynchronous::Normal,
            Durability::Power => SqliteSynchronous::Full,
        })
        .disable_statement_logging()
}

/// The connection that writes.
pub(crate) async fn writer(place: &Place, options: &StoreOptions) -> Result<SqliteConnection, StoreError> {
    let mut connect = connect_options(place, options)
        // Before the first table, or it has no effect.
        .auto_vacuum(SqliteAutoVacuum::Incremental)
        .journal_mode(SqliteJournalMode::Wal)
        .pragma("wal_autocheckpoint", LOG_PAGES)
        .pragma("journal_size_limit", LOG_FILE_BYTES)
        .thread_name(|_| "store-writer".to_owned());
    if let Some(bytes) = options.max_bytes {
        connect = connect.pragma("max_page_count", (bytes / PAGE_BYTES).max(1).to_string());
    }
    connect.connect().await.map_err(|error| place.explain(&error))
}

/// The connections that read. Opened when needed.
pub(crate) fn readers(place: &Place, options: &StoreOptions) -> SqlitePool {
    let connect = connect_options(place, options)
        .pragma("query_only", "ON")
        .pragma("cache_size", READER_CACHE)
        .thread_name(|n| format!("store-reader-{n}"));
    SqlitePoolOptions::new()
        .max_connections(options.readers.max(1))
        .min_connections(0)
        .acquire_timeout(BUSY)
        .idle_timeout(Duration::from_secs(60))
        // A local file does not hang up.
        .test_before_acquire(false)
        .connect_lazy_with(connect)
}

/// Brings the schema up to date, and refuses one that is newer than this program.
pub(crate) async fn migrate(conn: &mut SqliteConnection, place: &Place) -> Result<(), StoreError> {
    let newest = MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or(0);
    let explain = |error: MigrateError| match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => place.explain(&error),
        MigrateError::VersionMismatch(version) => damaged(
            "schema",
            format!("{} was made by a development version (migration {version} differs)", place.path().display()),
        ),
        error => place.unavailable(error.to_string()),
    };
    let table = MIGRATIONS.table_name.as_ref();
    conn.ensure_migrations_table(table).await.map_err(explain)?;
    let applied = conn.list_applied_migrations(table).await.map_err(explain)?;
    if let Some(found) = applied.iter().map(|migration| migration.version).max().filter(|found| *found > newest) {
        return Err(place.unavailable(format!(
            "it was written by a newer version (schema {found}, this program knows up to {newest}); hint: update the program"
        )));
    }
    MIGRATIONS.run(conn).await.map_err(explain)
}
