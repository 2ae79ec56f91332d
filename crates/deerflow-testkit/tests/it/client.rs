//! Just enough of an HTTP client to see the bytes as they are.

use deerflow_testkit::ScriptedModel;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

pub(crate) struct Reply {
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    /// The payloads of the SSE frames.
    pub(crate) fn data(&self) -> Vec<&str> {
        self.body.split("\n\n").filter_map(|frame| frame.strip_prefix("data: ")).collect()
    }

    /// The payloads that are JSON.
    pub(crate) fn chunks(&self) -> Vec<Value> {
        self.data().into_iter().filter_map(|data| serde_json::from_str(data).ok()).collect()
    }

    /// The streamed answer.
    pub(crate) fn text(&self) -> String {
        let content = |chunk: &Value| Some(chunk.pointer("/choices/0/delta/content")?.as_str()?.to_owned());
        self.chunks().iter().filter_map(content).collect()
    }
}

/// Sends a request and leaves the answer on the connection. HTTP/1.0: the body ends with the connection.
pub(crate) async fn open(model: &ScriptedModel, body: &Value) -> TcpStream {
    let mut connection = TcpStream::connect(model.address()).await.unwrap();
    let body = body.to_string();
    let request = format!(
        "POST /v1/chat/completions HTTP/1.0\r\nhost: x\r\nauthorization: Bearer key\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    connection.write_all(request.as_bytes()).await.unwrap();
    connection
}

pub(crate) async fn read(mut connection: TcpStream) -> Reply {
    let mut bytes = Vec::new();
    // A reply that is broken off may end in a reset; what came before counts.
    let _ = connection.read_to_end(&mut bytes).await;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    Reply { head: head.to_ascii_lowercase(), body: body.to_owned() }
}

pub(crate) async fn post(model: &ScriptedModel, body: &Value) -> Reply {
    read(open(model, body).await).await
}

/// A request of the agent.
pub(crate) fn ask(text: &str, stream: bool) -> Value {
    json!({"model": "m", "stream": stream, "stream_options": {"include_usage": true},
           "messages": [{"role": "user", "content": text}],
           "tools": [{"type": "function", "function": {"name": "ls", "parameters": {"type": "object"}}}]})
}
