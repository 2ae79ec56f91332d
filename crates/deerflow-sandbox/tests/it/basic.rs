use super::support::Rig;

#[tokio::test]
async fn a_command_runs_in_the_workspace_as_an_ordinary_user() {
    let rig = Rig::new().await;
    assert_eq!(
        rig.ok("pwd; id -u; id -g; id -G; hostname").await,
        "/mnt/user-data/workspace\n1000\n1000\n1000\nsandbox\n"
    );
    assert_eq!(rig.ok("echo hi > a && cat a && ls /mnt/user-data").await, "hi\noutputs\nuploads\nworkspace\n");
}
