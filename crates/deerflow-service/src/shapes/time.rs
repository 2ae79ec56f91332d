//! Times as clients read them.

/// ISO 8601 in UTC with microseconds and offset, `2026-04-27T03:19:46.511479+00:00`; empty when it is no time.
pub fn iso(micros: i64) -> String {
    jiff::Timestamp::from_microsecond(micros)
        .map(|time| time.strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00").to_string())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #[test]
    fn times_have_microseconds_and_an_offset() {
        assert_eq!(super::iso(1_777_259_986_511_479), "2026-04-27T03:19:46.511479+00:00");
        assert_eq!(super::iso(0), "1970-01-01T00:00:00.000000+00:00");
        assert_eq!(super::iso(i64::MAX), "");
    }
}
