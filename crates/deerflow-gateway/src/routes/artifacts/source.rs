//! The bytes of an answer: pieces of a file, one after the other, with texts between them.

use axum::body::Body;
use bytes::Bytes;
use deerflow_service::ArtifactSource;
use futures::stream;
use std::collections::VecDeque;
use std::io;
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, SeekFrom};

/// Bytes read at a time.
const CHUNK: usize = 64 * 1024;

/// Where bytes come from.
pub(super) enum Source {
    /// An open file.
    File(File),
    /// Memory.
    Memory(Bytes),
}

impl From<ArtifactSource> for Source {
    fn from(source: ArtifactSource) -> Self {
        match source {
            ArtifactSource::File(file) => Self::File(File::from_std(file)),
            ArtifactSource::Memory(bytes) => Self::Memory(bytes.into()),
        }
    }
}

/// A piece of an answer.
pub(super) enum Piece {
    /// This.
    Text(Bytes),
    /// So many bytes from there on.
    Range {
        /// First byte.
        first: u64,
        /// How many.
        count: u64,
    },
}

/// An answer of these pieces. A file that is shorter by then ends the answer with an error, so that no client takes it for
/// whole.
pub(super) fn body(source: Source, pieces: Vec<Piece>) -> Body {
    let pieces: VecDeque<Piece> = pieces.into();
    Body::from_stream(stream::try_unfold((source, pieces, false), |(mut source, mut pieces, is_there)| async move {
        loop {
            let Some(piece) = pieces.pop_front() else { return Ok::<_, io::Error>(None) };
            match piece {
                Piece::Text(text) => return Ok(Some((text, (source, pieces, false)))),
                Piece::Range { count: 0, .. } => {}
                Piece::Range { first, count } => {
                    let bytes = read(&mut source, first, count, is_there).await?;
                    let got = bytes.len() as u64;
                    pieces.push_front(Piece::Range { first: first + got, count: count - got });
                    return Ok(Some((bytes, (source, pieces, got < count))));
                }
            }
        }
    }))
}

/// Some bytes of a range, at least one; `is_there` says that the file stands at its beginning.
async fn read(source: &mut Source, first: u64, count: u64, is_there: bool) -> io::Result<Bytes> {
    match source {
        Source::Memory(bytes) => {
            let range = usize::try_from(first).ok().zip(usize::try_from(first.saturating_add(count)).ok());
            let range = range.filter(|(_, end)| *end <= bytes.len());
            range.map(|(first, end)| bytes.slice(first..end)).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
        }
        Source::File(file) => {
            if !is_there {
                file.seek(SeekFrom::Start(first)).await?;
            }
            let mut buffer = vec![0; usize::try_from(count).unwrap_or(CHUNK).min(CHUNK)];
            let got = file.read(&mut buffer).await?;
            if got == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            buffer.truncate(got);
            Ok(buffer.into())
        }
    }
}
