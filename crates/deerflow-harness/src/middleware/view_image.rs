//! Shows the model the images that `view_image` looked at.
//!
//! The tool leaves facts in the state: path, size and hash. The bytes are read again for the one request that follows and are
//! part of nothing that is stored, so the history of a thread stays small however many images it saw. An image that is no longer
//! what was viewed is not shown; the model is told instead.

use super::guardrails::Authorization;
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use deerflow_agent::{Middleware, ModelNext, RunContext};
use deerflow_core::message::kwargs;
use deerflow_core::state::ViewedImage;
use deerflow_core::{AgentError, ChatRequest, Content, ContentBlock, Message, ThreadState, ToolStatus};
use deerflow_sandbox::{Sandbox, SandboxError, SandboxProvider, VirtualRoot};
use deerflow_tools::neutralise::neutralise;
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

const NAME: &str = "ViewImageMiddleware";
/// The tool whose images are shown.
const TOOL: &str = "view_image";
/// `additional_kwargs` key of the message with the images.
pub const VIEW_IMAGE_CONTEXT: &str = "deerflow_view_image_context";
/// How its id begins.
const ID_PREFIX: &str = "view-image-context:";

/// Largest image, and largest sum of all images of a request, in bytes. Providers take requests of about 32 MB.
const MAX_BYTES: u64 = 20 << 20;
/// Most images of a request.
const MAX_IMAGES: usize = 20;
/// How long all the reading may take.
const PATIENCE: Duration = Duration::from_secs(30);
const MIME_TYPES: [&str; 4] = ["image/jpeg", "image/png", "image/webp", "image/gif"];

/// Adds viewed images to the request after they were viewed. For models that take images.
pub struct ViewImageMiddleware {
    provider: Arc<dyn SandboxProvider>,
    authorization: Option<Authorization>,
    /// Of one image, and of all in a request.
    max_bytes: u64,
}

impl ViewImageMiddleware {
    /// Images are read from the sandboxes of `provider`, where `authorization` allows `sandbox:execute`.
    #[must_use]
    pub fn new(provider: Arc<dyn SandboxProvider>, authorization: Option<Authorization>) -> Self {
        Self { provider, authorization, max_bytes: MAX_BYTES }
    }

    /// The message that shows the images.
    async fn context(&self, ctx: &RunContext, images: &[(&String, &ViewedImage)]) -> Message {
        let mut blocks = vec![ContentBlock::Text("Images that you have viewed:".to_owned())];
        let mut hash = blake3::Hasher::new();
        for (path, shown) in self.read_all(ctx, images).await {
            let path = neutralise(path);
            hash.update(path.as_bytes()).update(&[0]);
            match shown {
                Ok(image) => {
                    hash.update(image.digest.as_bytes());
                    blocks.push(ContentBlock::Text(format!("- {path} ({}, {} bytes)", image.mime, image.size)));
                    blocks.push(ContentBlock::ImageUrl(image.url));
                }
                Err(reason) => {
                    tracing::warn!(thread_id = %ctx.thread_id, %path, reason, "viewed image is not shown");
                    blocks.push(ContentBlock::Text(format!("- {path} is not shown: {reason}")));
                }
            }
        }
        let digest = hash.finalize().to_hex();
        Message::human(Content::Blocks(blocks))
            .hidden()
            .with_kwarg(VIEW_IMAGE_CONTEXT, true)
            .with_id(format!("{ID_PREFIX}{}", &digest[..16]))
    }

    async fn read_all<'i>(
        &self,
        ctx: &RunContext,
        images: &[(&'i String, &ViewedImage)],
    ) -> Vec<(&'i str, Result<Shown, String>)> {
        let none = |reason: &str| images.iter().map(|(path, _)| (path.as_str(), Err(reason.to_owned()))).collect();
        if let Some(authorization) = &self.authorization
            && !authorization.allows_sandbox(&ctx.user_id, &ctx.principal).await
        {
            return none("this user may not use the sandbox");
        }
        let sandbox = match self.provider.acquire(ctx.user_id.as_str(), ctx.thread_id.as_str()).await {
            Ok(sandbox) => sandbox,
            Err(error) => {
                tracing::warn!(%error, "no sandbox for viewed images");
                return none("the files cannot be reached now");
            }
        };
        let deadline = tokio::time::Instant::now() + PATIENCE;
        let mut left = self.max_bytes;
        let mut shown = Vec::with_capacity(images.len());
        for (at, (path, image)) in images.iter().enumerate() {
            let result = if at >= MAX_IMAGES || (image.size > left && image.size <= self.max_bytes) {
                Err("there are too many images in this request; view it again if you need it".to_owned())
            } else {
                match tokio::time::timeout_at(deadline, read(&*sandbox, image, self.max_bytes)).await {
                    Ok(result) => result,
                    Err(_) => Err(format!("it could not be read within {} s", PATIENCE.as_secs())),
                }
            };
            if let Ok(image) = &result {
                left = left.saturating_sub(image.size);
            }
            shown.push((path.as_str(), result));
        }
        shown
    }
}

/// An image as it is sent.
struct Shown {
    mime: &'static str,
    size: u64,
    digest: String,
    url: String,
}

/// Reads an image; the reason for the model when it is not what was viewed.
async fn read(sandbox: &dyn Sandbox, image: &ViewedImage, max: u64) -> Result<Shown, String> {
    const CHANGED: &str = "the file has changed since; call view_image again";
    // The state can be written by clients: nothing in it is taken for granted.
    let Some(mime) = MIME_TYPES.into_iter().find(|known| *known == image.mime_type) else {
        return Err("it is no image that can be shown".to_owned());
    };
    let path = sandbox
        .parse_path(&image.actual_path)
        .ok()
        .filter(|path| matches!(path.root(), VirtualRoot::Workspace | VirtualRoot::Uploads | VirtualRoot::Outputs));
    let Some(path) = path else { return Err("it is not among the files of this thread".to_owned()) };
    if image.size > max {
        return Err(format!("it has {} bytes and the limit is {max}", image.size));
    }
    let bytes = match sandbox.read_bytes(&path, max).await {
        Ok(bytes) => bytes,
        Err(SandboxError::NotFound { .. }) => return Err("the file is gone".to_owned()),
        Err(SandboxError::TooLarge { .. }) => return Err(CHANGED.to_owned()),
        Err(error) => return Err(error.to_string()),
    };
    let size = bytes.len() as u64;
    if size != image.size {
        return Err(CHANGED.to_owned());
    }
    // Megabytes to hash and to encode.
    let encode = move || {
        let digest = Sha256::digest(&bytes).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        (digest, STANDARD.encode(&bytes))
    };
    let (digest, encoded) = tokio::task::spawn_blocking(encode).await.map_err(|error| error.to_string())?;
    if image.sha256.as_ref().is_some_and(|wanted| !wanted.eq_ignore_ascii_case(&digest)) {
        return Err(CHANGED.to_owned());
    }
    Ok(Shown { mime, size, digest, url: format!("data:{mime};base64,{encoded}") })
}

/// Paths that the last assistant message viewed, if all its calls are answered and one of those was a success.
fn just_viewed(messages: &[Arc<Message>]) -> Option<Vec<&str>> {
    let last = messages.iter().rposition(|message| message.as_ai().is_some())?;
    let part = messages[last].as_ai()?;
    let results = || messages[last + 1..].iter().filter_map(|message| message.as_tool());
    let answered: HashSet<&str> = results().map(|result| result.tool_call_id.as_str()).collect();
    let calls = part.tool_calls.iter().map(|call| &call.id).chain(part.invalid_tool_calls.iter().map(|call| &call.id));
    if !calls.into_iter().all(|id| answered.contains(id.as_deref().unwrap_or_default())) {
        return None;
    }
    let succeeded: HashSet<&str> = results()
        .filter(|result| result.status == ToolStatus::Success)
        .map(|result| result.tool_call_id.as_str())
        .collect();
    let viewed: Vec<&str> = part
        .tool_calls
        .iter()
        .filter(|call| call.name == TOOL && succeeded.contains(call.id()))
        .map(|call| call.args.get("image_path").and_then(|path| path.as_str()).unwrap_or_default().trim())
        .collect();
    (!viewed.is_empty()).then_some(viewed)
}

/// The images of the state: those just viewed, then the others, newest first.
fn in_order<'s>(state: &'s ThreadState, viewed: &[&str]) -> Vec<(&'s String, &'s ViewedImage)> {
    let images = || state.viewed_images.iter().flatten().rev();
    let fresh = |path: &String| viewed.contains(&path.as_str());
    images().filter(|(path, _)| fresh(path)).chain(images().filter(|(path, _)| !fresh(path))).collect()
}

fn is_stranded(message: &Message) -> bool {
    message.flag(VIEW_IMAGE_CONTEXT) || (message.flag(kwargs::HIDE_FROM_UI) && message.id().starts_with(ID_PREFIX))
}

#[async_trait]
impl Middleware for ViewImageMiddleware {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn wrap_model_call(
        &self,
        ctx: &RunContext,
        state: &ThreadState,
        mut request: ChatRequest,
        next: ModelNext<'_>,
    ) -> Result<Message, AgentError> {
        // Left in a history by a version that stored them, or by a client.
        request.messages.retain(|message| !is_stranded(message));
        if let Some(viewed) = just_viewed(&request.messages) {
            let images = in_order(state, &viewed);
            if !images.is_empty() {
                let context = tokio::select! {
                    biased;
                    () = ctx.cancel.cancelled() => return Err(AgentError::Cancelled),
                    context = self.context(ctx, &images) => context,
                };
                request.messages.push(Arc::new(context));
            }
        }
        next.run(request).await
    }
}

#[cfg(test)]
mod tests;
