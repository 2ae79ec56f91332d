//! The current date, kept out of the static prompt so that providers can cache that.
//!
//! The first user message of a thread, and the first of a new day, gets a date reminder in front. The reminder takes over
//! the message's id and the user's text goes on as `<id>__user`: an append, so that the prefix before it stays the same.

use async_trait::async_trait;
use deerflow_agent::{Hook, Middleware, RunContext};
use deerflow_core::message::kwargs;
use deerflow_core::{AgentError, Message, StateUpdate, ThreadState};
use std::sync::Arc;

/// Says what day it is: `YYYY-MM-DD, Weekday`.
pub type Clock = Arc<dyn Fn() -> String + Send + Sync>;

/// Suffix of the visible copy of a user message whose id a reminder has taken.
const USER_SUFFIX: &str = "__user";

/// Writes date reminders.
pub struct DynamicContextMiddleware {
    clock: Clock,
}

impl DynamicContextMiddleware {
    /// Reminders say what `clock` says.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self { clock }
    }
    /// The date in this time zone (an IANA name), or the machine's own.
    #[must_use]
    pub fn local(time_zone: Option<&str>) -> Self {
        let zone =
            time_zone.and_then(|name| jiff::tz::TimeZone::get(name).ok()).unwrap_or_else(jiff::tz::TimeZone::system);
        Self::new(Arc::new(move || jiff::Timestamp::now().to_zoned(zone.clone()).strftime("%Y-%m-%d, %A").to_string()))
    }
}

impl Default for DynamicContextMiddleware {
    fn default() -> Self {
        Self::local(None)
    }
}

#[async_trait]
impl Middleware for DynamicContextMiddleware {
    fn name(&self) -> &'static str {
        "DynamicContextMiddleware"
    }

    async fn before_agent(&self, _ctx: &RunContext, state: &ThreadState) -> Result<Hook, AgentError> {
        let today = (self.clock)();
        let said = state
            .messages
            .iter()
            .rev()
            .filter(|m| m.flag(kwargs::DYNAMIC_CONTEXT))
            .find_map(|m| m.additional_kwargs.get(kwargs::REMINDER_DATE).and_then(|v| v.as_str()));
        if said == Some(today.as_str()) {
            return Ok(Hook::none());
        }
        let Some(user) = state.messages.iter().rev().find(|m| m.is_genuine_user() && !m.id().ends_with(USER_SUFFIX))
        else {
            return Ok(Hook::none());
        };
        // Only the message of this turn may move to the end.
        if state.messages.last().map(|m| m.id()) != Some(user.id()) {
            return Ok(Hook::none());
        }
        let reminder =
            Message::system(format!("<system-reminder>\n<current_date>{today}</current_date>\n</system-reminder>"))
                .with_id(user.id())
                .hidden()
                .with_kwarg(kwargs::DYNAMIC_CONTEXT, true)
                .with_kwarg(kwargs::REMINDER_DATE, today);
        let copy = (**user).clone().with_id(format!("{}{USER_SUFFIX}", user.id()));
        Ok(Hook::update(StateUpdate::messages([reminder, copy])))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;
    use pretty_assertions::assert_eq;

    async fn turn(state: &mut ThreadState, id: &str, day: &'static str) {
        state.apply(&StateUpdate::messages([Message::human(id).with_id(id)])).unwrap();
        let mw = DynamicContextMiddleware::new(Arc::new(move || day.to_owned()));
        let hook = mw.before_agent(&testing::context(), state).await.unwrap();
        state.apply(&hook.update).unwrap();
        state.apply(&StateUpdate::messages([Message::ai("ok")])).unwrap();
    }

    /// The prefix of what was sent before never changes, and the date is said once a day.
    #[tokio::test]
    async fn the_date_comes_once_a_day_and_the_prefix_stays() {
        let mut state = ThreadState::default();
        let mut prefix: Vec<Arc<Message>> = vec![];
        for (id, day) in [("1", "2026-11-30, Monday"), ("2", "2026-11-30, Monday"), ("3", "2026-12-01, Tuesday")] {
            turn(&mut state, id, day).await;
            assert_eq!(state.messages[..prefix.len()], prefix[..]);
            prefix.clone_from(&state.messages);
        }
        let shown: Vec<_> = state
            .messages
            .iter()
            .map(|m| format!("{} {}", m.role(), m.id()))
            .filter(|s| !s.starts_with("ai"))
            .collect();
        assert_eq!(shown, ["system 1", "human 1__user", "human 2", "system 3", "human 3__user"]);
        assert!(state.messages[0].text().contains("<current_date>2026-11-30, Monday</current_date>"));
        assert!(state.messages[0].flag(kwargs::HIDE_FROM_UI));
    }
}
