//! Reading a body with an upper bound.

use futures::StreamExt as _;

/// A body could not be read whole.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// It is longer than allowed. What was read so far is lost.
    #[error("the reply is larger than {limit} bytes")]
    TooLarge {
        /// The bound, in bytes.
        limit: usize,
    },
    /// The connection failed.
    #[error("the reply broke off: {0}")]
    Broken(#[source] reqwest::Error),
}

/// Reads a body of at most `limit` bytes.
///
/// # Errors
/// [`BodyError::TooLarge`] as soon as one byte more has come, [`BodyError::Broken`] when the connection fails.
pub async fn read_limited(response: reqwest::Response, limit: usize) -> Result<Vec<u8>, BodyError> {
    let mut body = Vec::new();
    let mut stream = response.bytes_stream();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| BodyError::Broken(error.without_url()))?;
        if body.len() + chunk.len() > limit {
            return Err(BodyError::TooLarge { limit });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
