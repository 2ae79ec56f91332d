use super::*;
use crate::middleware::guardrails::RbacProvider;
use crate::middleware::rig::{Canned, Ran, calling, run_with};
use deerflow_core::{StateUpdate, ToolCall, ToolOutput};
use deerflow_sandbox::{Expect, HostProvider, SandboxConfig, VirtualPath};
use pretty_assertions::assert_eq;
use serde_json::json;

const PATH: &str = "/mnt/user-data/workspace/a.png";
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";

struct Desk {
    _dir: tempfile::TempDir,
    provider: Arc<HostProvider>,
    max_bytes: u64,
}

impl Desk {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = SandboxConfig { min_free_mb: 0, ..SandboxConfig::default() };
        Self { provider: Arc::new(HostProvider::new(dir.path(), config).unwrap()), _dir: dir, max_bytes: MAX_BYTES }
    }

    async fn file(&self, path: &str, bytes: &[u8]) {
        let ctx = crate::middleware::testing::context();
        let sandbox = self.provider.acquire(ctx.user_id.as_str(), ctx.thread_id.as_str()).await.unwrap();
        sandbox.write_bytes(&VirtualPath::parse(path).unwrap(), bytes.to_vec(), Expect::Any).await.unwrap();
    }

    /// A run that views `images`; the model's second request is the one after it.
    async fn view(&self, images: Vec<(&str, ViewedImage)>) -> Ran {
        self.view_as(images, None, vec![]).await
    }

    async fn view_as(
        &self,
        images: Vec<(&str, ViewedImage)>,
        authorization: Option<Authorization>,
        before: Vec<Message>,
    ) -> Ran {
        let mut output = ToolOutput::text("Successfully read image");
        output.update.viewed_images = Some(images.into_iter().map(|(path, image)| (path.to_owned(), image)).collect());
        let mut middleware = ViewImageMiddleware::new(self.provider.clone(), authorization);
        middleware.max_bytes = self.max_bytes;
        let chain: Vec<Arc<dyn Middleware>> = vec![Arc::new(middleware)];
        let replies = vec![calling(TOOL, json!({"image_path": PATH})), calling("ls", json!({}))];
        let tools = vec![Canned::new(TOOL, output), Canned::text("ls", "a.png")];
        let input = StateUpdate::messages(before.into_iter().chain([Message::human("look")]));
        run_with(chain, tools, replies, input, |_| {}).await.unwrap()
    }
}

fn image(bytes: &[u8]) -> ViewedImage {
    ViewedImage {
        mime_type: "image/png".into(),
        size: bytes.len() as u64,
        actual_path: PATH.into(),
        sha256: Some(Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()),
        source_sandbox_id: None,
        blob_ref: None,
    }
}

fn at(path: &str, bytes: &[u8]) -> ViewedImage {
    ViewedImage { actual_path: path.into(), ..image(bytes) }
}

/// The texts and the number of images of the message that shows them.
fn shown(ran: &Ran) -> (Vec<String>, usize) {
    let last = ran.requests[1].messages.last().unwrap();
    assert!(last.flag(VIEW_IMAGE_CONTEXT) && last.flag(kwargs::HIDE_FROM_UI) && last.id().starts_with(ID_PREFIX));
    let blocks = last.content.to_blocks();
    let texts = blocks.iter().filter_map(|block| block.text().map(str::to_owned)).collect();
    (texts, blocks.iter().filter(|block| matches!(block, ContentBlock::ImageUrl(_))).count())
}

#[tokio::test]
async fn an_image_is_in_the_request_after_it_was_viewed_and_nowhere_else() {
    let desk = Desk::new();
    desk.file(PATH, PNG).await;
    let ran = desk.view(vec![(PATH, image(PNG))]).await;
    let url = format!("data:image/png;base64,{}", STANDARD.encode(PNG));
    let last = ran.requests[1].messages.last().unwrap();
    assert_eq!(
        last.content,
        Content::Blocks(vec![
            ContentBlock::Text("Images that you have viewed:".into()),
            ContentBlock::Text(format!("- {PATH} (image/png, 16 bytes)")),
            ContentBlock::ImageUrl(url.clone()),
        ])
    );
    for request in [&ran.requests[0], &ran.requests[2]] {
        assert!(!request.messages.iter().any(|message| message.flag(VIEW_IMAGE_CONTEXT)));
    }
    assert!(!serde_json::to_string(&ran.state.messages).unwrap().contains("base64"), "nothing of it is stored");
    assert!(ran.state.viewed_images.as_ref().unwrap().contains_key(PATH));
}

#[tokio::test]
async fn an_image_that_is_no_longer_the_same_is_replaced_by_a_note() {
    let desk = Desk::new();
    desk.file(PATH, PNG).await;
    let other: Vec<u8> = PNG.iter().rev().copied().collect();
    for (image, reason) in [
        (image(&PNG[..15]), "the file has changed since; call view_image again"),
        (image(&other), "the file has changed since; call view_image again"),
        (at("/mnt/user-data/workspace/gone.png", PNG), "the file is gone"),
        (at("/etc/passwd", PNG), "it is not among the files of this thread"),
        (at("/mnt/skills/x.png", PNG), "it is not among the files of this thread"),
        (at("/mnt/user-data/workspace/../../x.png", PNG), "it is not among the files of this thread"),
        (ViewedImage { mime_type: "image/png;base64,AA".into(), ..image(PNG) }, "it is no image that can be shown"),
        (ViewedImage { size: MAX_BYTES + 1, ..image(PNG) }, "it has 20971521 bytes and the limit is 20971520"),
    ] {
        let (texts, images) = shown(&desk.view(vec![(PATH, image)]).await);
        assert_eq!((texts[1].as_str(), images), (format!("- {PATH} is not shown: {reason}").as_str(), 0));
    }
}

#[tokio::test]
async fn facts_without_a_hash_are_checked_by_size() {
    let desk = Desk::new();
    desk.file(PATH, PNG).await;
    assert_eq!(shown(&desk.view(vec![(PATH, ViewedImage { sha256: None, ..image(PNG) })]).await).1, 1);
    let short = ViewedImage { sha256: None, size: 15, ..image(PNG) };
    assert_eq!(shown(&desk.view(vec![(PATH, short)]).await).1, 0);
}

#[tokio::test]
async fn the_sandbox_must_be_allowed() {
    let desk = Desk::new();
    desk.file(PATH, PNG).await;
    let table = json!({"roles": {"user": {"sandbox": {"allow": false}}}});
    let rbac = RbacProvider::from_config(table.as_object().unwrap()).unwrap();
    let denied = Some(Authorization::new(Arc::new(rbac), "user", true));
    let (texts, images) = shown(&desk.view_as(vec![(PATH, image(PNG))], denied, vec![]).await);
    assert_eq!(
        (texts[1].as_str(), images),
        (format!("- {PATH} is not shown: this user may not use the sandbox").as_str(), 0)
    );
}

#[tokio::test]
async fn stranded_messages_are_swept_out_of_requests() {
    let desk = Desk::new();
    desk.file(PATH, PNG).await;
    let stranded = vec![
        Message::human("old").with_kwarg(VIEW_IMAGE_CONTEXT, true).with_id("x"),
        Message::human("older").hidden().with_id("view-image-context:1"),
        Message::human("mine").with_id("view-image-context:2"),
    ];
    let ran = desk.view_as(vec![(PATH, image(PNG))], None, stranded).await;
    let sent: Vec<_> = ran.requests[0].messages.iter().map(|message| message.text().into_owned()).collect();
    assert_eq!(sent, ["mine", "look"]);
}

#[tokio::test]
async fn all_viewed_images_are_shown_those_just_viewed_first_up_to_the_limits() {
    let desk = Desk::new();
    let paths: Vec<String> = (0..22).map(|n| format!("/mnt/user-data/outputs/{n}.png")).collect();
    desk.file(PATH, PNG).await;
    let mut images = vec![(PATH, image(PNG))];
    for path in &paths {
        desk.file(path, PNG).await;
        images.push((path, at(path, PNG)));
    }
    let (texts, count) = shown(&desk.view(images.clone()).await);
    assert_eq!(count, MAX_IMAGES);
    assert!(texts[1].contains(PATH) && texts[2].contains("/21.png"), "{texts:?}");
    assert_eq!(texts.iter().filter(|text| text.contains("too many images")).count(), 3);

    let desk = Desk { max_bytes: 2000, ..desk };
    let half = vec![0; 1100];
    desk.file(PATH, &half).await;
    desk.file(&paths[0], &half).await;
    let two = vec![(paths[0].as_str(), at(&paths[0], &half)), (PATH, image(&half))];
    let (texts, count) = shown(&desk.view(two).await);
    assert_eq!(count, 1);
    assert!(texts[1].contains(PATH) && texts[2].contains("too many images"), "{texts:?}");
}

#[test]
fn images_are_shown_once_all_calls_are_answered_and_one_was_seen() {
    let path = json!({"image_path": format!(" {PATH} ")}).as_object().unwrap().clone();
    let ai = |calls: Vec<ToolCall>| Message::ai_calls("", calls);
    let view = |id: &str| ToolCall::new(id, TOOL, path.clone());
    let check = |messages: Vec<Message>| {
        let messages: Vec<_> = messages.into_iter().map(Arc::new).collect();
        just_viewed(&messages).map(|paths| paths.join(","))
    };
    let ok = |id: &str| Message::tool("ok", id, TOOL);
    assert_eq!(check(vec![ai(vec![view("a")]), ok("a")]).as_deref(), Some(PATH));
    assert_eq!(check(vec![ai(vec![view("a"), view("b")]), ok("a")]), None);
    assert_eq!(check(vec![ai(vec![view("a")]), Message::tool_error("no", "a", TOOL)]), None);
    assert_eq!(check(vec![ai(vec![ToolCall::new("a", "ls", path.clone())]), ok("a")]), None);
    assert_eq!(check(vec![ai(vec![view("a")]), ok("a"), Message::ai("seen")]), None);
    assert_eq!(check(vec![Message::human("q")]), None);
}
