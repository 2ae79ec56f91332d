//! Zip-based documents (Word, Excel, PowerPoint, EPUB), read under limits.

use std::io::{Cursor, Read};

use zip::ZipArchive;
use zip::result::ZipError;

use crate::error::{ConvertError, human_size};
use crate::limits::Limits;

/// From this size on, an entry's ratio is looked at: small XML compresses wildly for honest reasons.
const RATIO_FLOOR: u64 = 16 << 20;
/// Office XML stays under 100:1; deflate can do 1032:1.
const MAX_RATIO: u64 = 300;

/// An open package with one budget of inflated bytes for all reads.
pub(crate) struct Package<'a> {
    zip: ZipArchive<Cursor<&'a [u8]>>,
    left: u64,
    limit: u64,
}

impl<'a> Package<'a> {
    pub(crate) fn open(bytes: &'a [u8], limits: &Limits) -> Result<Self, ConvertError> {
        // Counted before the directory is parsed: a million empty entries cost memory only once parsed.
        let entries = bytes.windows(4).filter(|window| *window == b"PK\x01\x02").take(limits.max_entries + 1).count();
        if entries > limits.max_entries {
            return Err(ConvertError::Bomb { reason: format!("more than {} entries", limits.max_entries) });
        }
        let zip = ZipArchive::new(Cursor::new(bytes)).map_err(damaged)?;
        Ok(Self { zip, left: limits.max_inflated_bytes, limit: limits.max_inflated_bytes })
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.zip.file_names().filter_map(Result::ok).map(std::borrow::Cow::into_owned).collect()
    }

    /// One entry's bytes; `None` when there is no such entry.
    pub(crate) fn read(&mut self, name: &str) -> Result<Option<Vec<u8>>, ConvertError> {
        let Some(index) = self.zip.index_for_name(name) else { return Ok(None) };
        let mut out = Vec::new();
        self.inflate(index, &mut |chunk| out.extend_from_slice(chunk))?;
        Ok(Some(out))
    }

    /// One entry as text. XML and XHTML are UTF-8 or UTF-16 with a mark.
    pub(crate) fn read_text(&mut self, name: &str) -> Result<Option<String>, ConvertError> {
        Ok(self.read(name)?.map(|bytes| crate::encoding::decode_or_lossy(&bytes)))
    }

    /// Inflates every entry into nothing, to know that a parser which opens the file itself stays within limits.
    pub(crate) fn measure(&mut self) -> Result<(), ConvertError> {
        let left = self.left;
        (0..self.zip.len()).try_for_each(|index| self.inflate(index, &mut |_| ()))?;
        self.left = left;
        Ok(())
    }

    fn inflate(&mut self, index: usize, sink: &mut dyn FnMut(&[u8])) -> Result<(), ConvertError> {
        let mut file = self.zip.by_index(index).map_err(damaged)?;
        if file.encrypted() {
            return Err(ConvertError::Encrypted);
        }
        let packed = file.compressed_size().max(1);
        let mut inflated = 0_u64;
        let mut buffer = vec![0; 64 << 10];
        loop {
            let read = file.read(&mut buffer).map_err(|error| ConvertError::Damaged { reason: error.to_string() })?;
            if read == 0 {
                self.left -= inflated;
                return Ok(());
            }
            inflated += read as u64;
            if inflated > self.left {
                return Err(ConvertError::Bomb { reason: format!("over {}", human_size(self.limit)) });
            }
            if inflated > RATIO_FLOOR && inflated / packed > MAX_RATIO {
                return Err(ConvertError::Bomb { reason: format!("an entry grows more than {MAX_RATIO} times") });
            }
            sink(&buffer[..read]);
        }
    }
}

fn damaged(error: ZipError) -> ConvertError {
    match error {
        ZipError::InvalidPassword => ConvertError::Encrypted,
        ZipError::UnsupportedArchive(message) if message == ZipError::PASSWORD_REQUIRED => ConvertError::Encrypted,
        other => ConvertError::Damaged { reason: other.to_string() },
    }
}
