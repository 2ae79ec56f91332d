//! Feedback on runs.

use crate::support::{count, fence, home, new_run, outcome, thread_id};
use deerflow_core::ports::{FeedbackRepo as _, FeedbackStats, NewFeedback, Rating, RunRepo as _, ThreadRepo as _};
use deerflow_core::{RunId, RunStatus, StoreError, UserId};
use pretty_assertions::assert_eq;

fn said(message_id: Option<&str>, rating: Rating, comment: Option<&str>) -> NewFeedback {
    NewFeedback { message_id: message_id.map(str::to_owned), rating, comment: comment.map(str::to_owned) }
}

#[tokio::test]
async fn a_run_has_one_judgement_and_each_message_of_it_one() {
    let home = home().await;
    let (user, thread) = (UserId::local(), thread_id("t"));
    let run = home.store.admit(new_run("t")).await.unwrap().run_id;
    let put = async |feedback| home.store.put_feedback(&user, &thread, &run, feedback).await.unwrap();
    let first = put(said(None, Rating::Bad, Some("slow"))).await;
    assert_eq!(
        (first.rating, first.comment.as_deref(), &first.run_id, &first.message_id),
        (Rating::Bad, Some("slow"), &run, &None)
    );
    let again = put(said(None, Rating::Good, None)).await;
    assert_eq!((&again.feedback_id, again.rating, again.comment), (&first.feedback_id, Rating::Good, None));
    let of_message = put(said(Some("m"), Rating::Bad, None)).await;
    put(said(Some("n"), Rating::Bad, None)).await;
    let list = async || -> Vec<Option<String>> {
        let rows = home.store.feedback(&user, &thread, Some(&run)).await.unwrap();
        rows.into_iter().map(|row| row.message_id).collect()
    };
    assert_eq!(list().await, [None, Some("m".into()), Some("n".into())]);
    let stats = home.store.feedback_stats(&user, &thread, &run).await.unwrap();
    assert_eq!(stats, FeedbackStats { positive: 1, negative: 2 });

    let delete = async |id: Option<&str>| home.store.delete_feedback(&user, &thread, &run, id).await;
    delete(None).await.unwrap();
    assert!(matches!(delete(None).await, Err(StoreError::NotFound { what: "feedback", .. })));
    delete(Some(&of_message.feedback_id)).await.unwrap();
    assert_eq!(list().await, [Some("n".to_owned())]);
}

#[tokio::test]
async fn feedback_belongs_to_a_run_of_the_users_thread_and_goes_with_it() {
    let home = home().await;
    let (user, eve, thread) = (UserId::local(), UserId::parse("eve").unwrap(), thread_id("t"));
    let row = home.store.admit(new_run("t")).await.unwrap();
    home.store.admit(new_run("u")).await.unwrap();
    let good = || said(None, Rating::Good, None);
    for (user, thread, run) in
        [(&eve, &thread, &row.run_id), (&user, &thread_id("u"), &row.run_id), (&user, &thread, &RunId::random())]
    {
        let refused = home.store.put_feedback(user, thread, run, good()).await;
        assert!(matches!(refused, Err(StoreError::NotFound { what: "run", .. })), "{refused:?}");
    }
    let id = home.store.put_feedback(&user, &thread, &row.run_id, good()).await.unwrap().feedback_id;
    assert_eq!(home.store.feedback(&eve, &thread, None).await.unwrap(), vec![]);
    assert_eq!(home.store.feedback_stats(&eve, &thread, &row.run_id).await.unwrap(), FeedbackStats::default());
    assert!(home.store.delete_feedback(&eve, &thread, &row.run_id, Some(&id)).await.is_err());
    assert_eq!(home.store.feedback(&user, &thread, None).await.unwrap().len(), 1);

    let long = said(None, Rating::Good, Some(&"x".repeat(10_001)));
    assert!(home.store.put_feedback(&user, &thread, &row.run_id, long).await.is_err());
    home.store.finish(&fence(&row), outcome(RunStatus::Success), vec![]).await.unwrap();
    home.store.delete_thread(&user, &thread).await.unwrap();
    assert_eq!(count(&home.path, "SELECT count(*) FROM feedback").await, 0);
}
