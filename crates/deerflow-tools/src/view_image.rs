//! `view_image`: remembers an image for the next model call. The bytes are read again then and never stored.

use crate::workbench::{Wanted, Workbench, explain};
use crate::{args, schema};
use async_trait::async_trait;
use deerflow_core::state::ViewedImage;
use deerflow_core::{Effects, JsonMap, StateUpdate, Tool, ToolContext, ToolError, ToolOutput, ToolSpec};
use deerflow_sandbox::{FileKind, Sandbox, SandboxError, VirtualPath, VirtualRoot};
use schemars::JsonSchema;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::sync::Arc;

const DESCRIPTION: &str = "\
Look at an image: after the call you see it. For .jpg, .jpeg, .png, .webp and .gif files of at most 20 MiB in \
/mnt/user-data/workspace, /mnt/user-data/uploads or /mnt/user-data/outputs. Use it for pictures, screenshots, and to check charts \
you made; text files are read with read_file.";

#[derive(Debug, Deserialize, JsonSchema)]
struct Args {
    /// Absolute path of the image, for example /mnt/user-data/uploads/photo.png.
    image_path: String,
}

pub(crate) struct ViewImage {
    bench: Arc<Workbench>,
    spec: ToolSpec,
}

impl ViewImage {
    pub(crate) fn new(bench: Arc<Workbench>) -> Self {
        Self { bench, spec: schema::spec::<Args>("view_image", DESCRIPTION) }
    }
}

#[async_trait]
impl Tool for ViewImage {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }
    fn effects(&self) -> Effects {
        Effects::ReadOnly
    }

    async fn call(&self, ctx: &ToolContext, args: JsonMap) -> Result<ToolOutput, ToolError> {
        let args: Args = args::parse(&self.spec, args)?;
        let sandbox = self.bench.sandbox(ctx).await?;
        let max = self.bench.limits.view_image_max_bytes;
        let (path, image) = inspect(&*sandbox, &args.image_path, max).await.map_err(ToolError::Respond)?;
        let mut output = ToolOutput::text("Successfully read image");
        output.update = StateUpdate {
            viewed_images: Some([(path.to_string(), image)].into_iter().collect()),
            ..StateUpdate::none()
        };
        Ok(output)
    }
}

/// The checks, in the order in which they are told.
async fn inspect(sandbox: &dyn Sandbox, given: &str, max: u64) -> Result<(VirtualPath, ViewedImage), String> {
    let shown = sandbox.mask(given.trim());
    let fail = |error: &SandboxError| match error {
        SandboxError::NotFound { path } => format!("Image file not found: {path}"),
        other => explain(other, Wanted::File),
    };
    let absolute = shown.starts_with("/mnt/user-data/");
    let path = match sandbox.parse_path(&shown) {
        Ok(path)
            if absolute
                && matches!(path.root(), VirtualRoot::Workspace | VirtualRoot::Uploads | VirtualRoot::Outputs) =>
        {
            path
        }
        Err(error) if absolute && shown.split('/').any(|name| name == "..") => return Err(fail(&error)),
        _ => {
            return Err(format!(
                "Only images in /mnt/user-data/workspace, /mnt/user-data/uploads and /mnt/user-data/outputs can be viewed: {shown}"
            ));
        }
    };
    let stat = sandbox.stat(&path).await.map_err(|error| fail(&error))?;
    if stat.kind != FileKind::File {
        return Err(format!("Path is not a file: {path}"));
    }
    let Some(promised) = mime_of_name(path.file_name()) else {
        return Err(format!("Unsupported image format: {path}; supported are .jpg, .jpeg, .png, .webp and .gif"));
    };
    let too_large = |size: u64| {
        format!(
            "Image is too large: {path} has {size} bytes and the limit is {max}; make a smaller copy with bash first"
        )
    };
    if stat.size > max {
        return Err(too_large(stat.size));
    }
    let bytes = match sandbox.read_bytes(&path, max).await {
        Ok(bytes) => bytes,
        Err(SandboxError::TooLarge { size, .. }) => return Err(too_large(size)),
        Err(error) => return Err(fail(&error)),
    };
    let size = bytes.len() as u64;
    if size != stat.size {
        return Err(format!("The image changed while it was read: {path}; try again"));
    }
    let Some(mime) = mime_of_bytes(&bytes) else {
        return Err(format!("Not an image that can be viewed: {path} (its content is no JPEG, PNG, WebP or GIF)"));
    };
    if mime != promised {
        return Err(format!(
            "The content of {path} is {mime}, but its name says {promised}; copy it to a name with the right extension"
        ));
    }
    let sha256 = Sha256::digest(&bytes).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    let image = ViewedImage {
        mime_type: mime.to_owned(),
        size,
        actual_path: path.to_string(),
        sha256: Some(sha256),
        source_sandbox_id: Some(sandbox.id().to_owned()),
        blob_ref: None,
    };
    Ok((path, image))
}

fn mime_of_name(name: &str) -> Option<&'static str> {
    let (_, extension) = name.rsplit_once('.')?;
    Some(match extension.to_ascii_lowercase().as_str() {
        "jpg" | "jpeg" => "image/jpeg",
        "png" => "image/png",
        "webp" => "image/webp",
        "gif" => "image/gif",
        _ => return None,
    })
}

fn mime_of_bytes(bytes: &[u8]) -> Option<&'static str> {
    if bytes.starts_with(b"\xFF\xD8\xFF") {
        Some("image/jpeg")
    } else if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        Some("image/png")
    } else if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") {
        Some("image/gif")
    } else if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        Some("image/webp")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Desk;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";

    async fn view(desk: &Desk, path: &str) -> String {
        desk.fail("view_image", json!({"image_path": path})).await
    }

    #[tokio::test]
    async fn facts_of_the_image_go_to_the_state_without_bytes_or_host_path() {
        let desk = Desk::new();
        desk.file("uploads/a.PNG", PNG);
        let path = "/mnt/user-data/uploads/a.PNG";
        let output = desk.call("view_image", json!({"image_path": path})).await.unwrap();
        assert_eq!(output.content.text(), "Successfully read image");
        let images = output.update.viewed_images.unwrap();
        let image = &images[path];
        assert_eq!((image.mime_type.as_str(), image.size, image.actual_path.as_str()), ("image/png", 16, path));
        assert_eq!(image.sha256.as_ref().unwrap().len(), 64);
    }

    #[tokio::test]
    async fn every_check_has_its_own_message() {
        let desk = Desk::with(|limits| limits.view_image_max_bytes = 1000);
        desk.file("workspace/a.bmp", PNG);
        desk.file("workspace/text.png", "hello");
        desk.file("workspace/lie.jpg", PNG);
        desk.file("workspace/dir.png/x", "x");
        desk.file("workspace/big.png", vec![0; 1001]);
        let at = |name: &str| format!("/mnt/user-data/workspace/{name}");
        for outside in
            ["/etc/a.png", "/mnt/skills/public/a.png", "/mnt/user-data/a.png", "a.png", "/mnt/user-data-2/a.png"]
        {
            assert!(view(&desk, outside).await.starts_with("Only images in /mnt/user-data/workspace"), "{outside}");
        }
        assert!(view(&desk, &at("../../etc/a.png")).await.starts_with("Access denied: path traversal detected"));
        assert_eq!(view(&desk, &at("none.png")).await, format!("Image file not found: {}", at("none.png")));
        assert_eq!(view(&desk, &at("dir.png")).await, format!("Path is not a file: {}", at("dir.png")));
        assert!(view(&desk, &at("a.bmp")).await.starts_with("Unsupported image format: "));
        assert!(view(&desk, &at("big.png")).await.contains("1001 bytes and the limit is 1000"));
        assert!(view(&desk, &at("text.png")).await.starts_with("Not an image that can be viewed: "));
        assert!(view(&desk, &at("lie.jpg")).await.contains("is image/png, but its name says image/jpeg"));
    }

    #[test]
    fn the_four_formats_are_known_by_their_first_bytes() {
        assert_eq!(super::mime_of_bytes(b"\xFF\xD8\xFF\xE0"), Some("image/jpeg"));
        assert_eq!(super::mime_of_bytes(b"GIF89a.."), Some("image/gif"));
        assert_eq!(super::mime_of_bytes(b"RIFF\0\0\0\0WEBPVP8 "), Some("image/webp"));
        assert_eq!(super::mime_of_bytes(b"RIFF\0\0\0\0WAVE"), None);
        assert_eq!(super::mime_of_bytes(b""), None);
    }
}
