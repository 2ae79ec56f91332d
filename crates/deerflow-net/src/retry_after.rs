//! How long a server asked to wait.

use jiff::Timestamp;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use std::time::Duration;

/// The wait a reply asks for: `retry-after-ms` in milliseconds, else `Retry-After` in seconds or as an HTTP date.
///
/// `None` when the reply says nothing that can be understood. A date in the past is a wait of zero.
#[must_use]
pub fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name: &str| Some(headers.get(name)?.to_str().ok()?.trim().to_owned());
    if let Some(wait) = text("retry-after-ms").and_then(|ms| seconds(ms.parse::<f64>().ok()? / 1000.0)) {
        return Some(wait);
    }
    let value = text(RETRY_AFTER.as_str())?;
    if let Ok(number) = value.parse::<f64>() {
        return seconds(number);
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().relaxed_weekday(true).parse_timestamp(&value).ok()?;
    Some(Duration::try_from(date.duration_since(now)).unwrap_or(Duration::ZERO))
}

fn seconds(number: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ask(pairs: &[(&'static str, &str)]) -> Option<Duration> {
        let headers = pairs.iter().map(|(k, v)| (k.parse().unwrap(), v.parse().unwrap())).collect();
        retry_after(&headers, "1994-11-06T08:49:07Z".parse().unwrap())
    }

    #[test]
    fn three_spellings() {
        assert_eq!(ask(&[("retry-after-ms", "1500"), ("retry-after", "9")]), Some(Duration::from_millis(1500)));
        assert_eq!(ask(&[("retry-after", "2")]), Some(Duration::from_secs(2)));
        assert_eq!(ask(&[("retry-after", "0.25")]), Some(Duration::from_millis(250)));
        assert_eq!(ask(&[("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")]), Some(Duration::from_secs(30)));
        assert_eq!(ask(&[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")]), Some(Duration::ZERO));
    }

    #[test]
    fn nonsense_is_not_a_wait() {
        for bad in ["soon", "-3", "NaN", "inf", "1e300", ""] {
            assert_eq!(ask(&[("retry-after", bad)]), None, "{bad}");
        }
        assert_eq!(ask(&[("retry-after-ms", "x"), ("retry-after", "4")]), Some(Duration::from_secs(4)));
        assert_eq!(ask(&[]), None);
    }

    proptest! {
        #[test]
        fn never_panics(text in "[ -~]{0,40}") {
            ask(&[("retry-after", &text)]);
        }
    }
}
