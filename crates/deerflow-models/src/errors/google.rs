//! What Google's services say in the `details` of an error: which limit was hit, and how long to wait
//! (<https://cloud.google.com/apis/design/errors#error_details>).

use deerflow_core::ModelErrorKind;
use serde_json::Value;
use std::time::Duration;

/// The details that can be acted on.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Details {
    /// The kind, where the details say more than the words, which speak of quota and billing for every limit.
    pub(super) kind: Option<ModelErrorKind>,
    /// How long to wait.
    pub(super) retry_after: Option<Duration>,
}

impl Details {
    pub(super) fn read(body: &str) -> Self {
        if !body.contains("google.rpc") {
            return Self::default();
        }
        let Ok(value) = serde_json::from_str::<Value>(body) else { return Self::default() };
        let value = value.get(0).unwrap_or(&value);
        let details = value.pointer("/error/details").or_else(|| value.get("details")).and_then(Value::as_array);
        let mut read = Self::default();
        for detail in details.into_iter().flatten() {
            let kind = detail.get("@type").and_then(Value::as_str).unwrap_or_default();
            if kind.ends_with("google.rpc.RetryInfo") {
                read.retry_after = detail.get("retryDelay").and_then(Value::as_str).and_then(seconds);
            }
            if kind.ends_with("google.rpc.QuotaFailure") {
                let violations = detail.get("violations").and_then(Value::as_array).into_iter().flatten();
                let ids: Vec<&str> = violations.filter_map(|one| one.get("quotaId")?.as_str()).collect();
                if ids.iter().any(|id| id.contains("PerDay")) {
                    read.kind = Some(ModelErrorKind::Quota);
                } else if ids.iter().any(|id| id.contains("PerMinute")) {
                    read.kind = Some(ModelErrorKind::Busy);
                }
            }
        }
        read
    }
}

/// `31s`, `1.5s`
fn seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.strip_suffix('s')?.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    fn of(quota: &str) -> Details {
        let details = json!([
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": quota}]},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "31.5s"}
        ]);
        Details::read(&json!([{"error": {"code": 429, "message": "quota", "details": details}}]).to_string())
    }

    #[test]
    fn a_limit_per_minute_can_be_waited_for_and_one_per_day_cannot() {
        let retry_after = Some(Duration::from_millis(31_500));
        let minute = of("GenerateRequestsPerMinutePerProjectPerModel-FreeTier");
        assert_eq!(minute, Details { kind: Some(ModelErrorKind::Busy), retry_after });
        let day = of("GenerateRequestsPerDayPerProjectPerModel-FreeTier");
        assert_eq!(day, Details { kind: Some(ModelErrorKind::Quota), retry_after });
        assert_eq!(Details::read(r#"{"error":{"message":"google.rpc","details":[{"@type":5}]}}"#), Details::default());
        assert_eq!(seconds("-1s"), None);
    }
}
