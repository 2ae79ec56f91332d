//! The embedded client, in this process.

use super::driver::{Driver, Heard, refused};
use deerflow::client::{ClientError, DeerFlowClient};
use deerflow::service::{HistoryQuery, Reader, Refusal, RunBody, StateWrite, ThreadSearch};
use deerflow_core::RunId;
use deerflow_core::ports::CancelAction;
use deerflow_testkit::{ScriptedModel, TempHome, temp_home};
use futures::StreamExt as _;
use serde::Serialize;
use serde_json::{Value, json};
use std::path::PathBuf;

pub(super) struct Embedded {
    pub(super) client: DeerFlowClient,
    model: ScriptedModel,
    home: TempHome,
}

impl Embedded {
    pub(super) async fn start() -> Self {
        let (model, home) = (ScriptedModel::start().await, temp_home());
        let file = home.write("config.yaml", crate::support::config(&model));
        let client = DeerFlowClient::builder().config_file(file).home(home.path()).build().await.unwrap();
        Self { client, model, home }
    }
}

fn heard(answer: Result<impl Serialize, Refusal>) -> Heard {
    match answer {
        Ok(answer) => json!({"ok": answer}),
        Err(refusal) => refused(refusal.kind.status(), &json!({"detail": refusal.detail})),
    }
}

fn run_id(id: &str) -> RunId {
    RunId::parse(id).unwrap()
}

fn body(body: Value) -> RunBody {
    serde_json::from_value(body).unwrap()
}

async fn frames(stream: Result<deerflow::client::RunStream, Refusal>) -> Heard {
    let stream = match stream {
        Ok(stream) => stream,
        Err(refusal) => return heard(Err::<(), _>(refusal)),
    };
    let frames: Vec<Value> = stream
        .map(|frame| {
            let data: Value = serde_json::from_str(&frame.data).unwrap();
            json!({"event": frame.event, "data": data, "id": frame.id.is_some()})
        })
        .collect()
        .await;
    json!({"ok": frames})
}

impl Driver for Embedded {
    fn model(&self) -> &ScriptedModel {
        &self.model
    }
    fn home(&self) -> PathBuf {
        self.home.path().to_owned()
    }

    async fn create_thread(&self, id: &str, metadata: Value) -> Heard {
        let metadata = metadata.as_object().cloned().unwrap();
        heard(self.client.create_thread(Some(id.parse().unwrap()), metadata).await)
    }
    async fn search(&self, metadata: Value) -> Heard {
        let metadata = metadata.as_object().cloned();
        heard(self.client.threads(ThreadSearch { metadata, ..ThreadSearch::default() }).await)
    }
    async fn thread(&self, id: &str) -> Heard {
        heard(self.client.thread(&id.parse().unwrap()).await)
    }
    async fn delete_thread(&self, id: &str) -> Heard {
        heard(self.client.delete_thread(&id.parse().unwrap()).await)
    }
    async fn state(&self, id: &str) -> Heard {
        heard(self.client.state(&id.parse().unwrap()).await)
    }
    async fn history(&self, id: &str, limit: u32) -> Heard {
        let query = HistoryQuery { limit, ..HistoryQuery::default() };
        heard(self.client.history(&id.parse().unwrap(), query).await)
    }
    async fn update_state(&self, id: &str, values: Value, as_node: Option<&str>) -> Heard {
        let as_node = as_node.map(str::to_owned);
        let write = StateWrite { values: Some(values), as_node, ..StateWrite::default() };
        heard(self.client.update_state(&id.parse().unwrap(), write).await)
    }

    async fn stream(&self, id: &str, of: Value) -> Heard {
        frames(self.client.stream(&id.parse().unwrap(), body(of), &[]).await).await
    }
    async fn join(&self, id: &str, run: &str) -> Heard {
        frames(self.client.join(&id.parse().unwrap(), &run_id(run), Reader::default()).await).await
    }
    async fn wait(&self, id: &str, of: Value) -> Heard {
        heard(self.client.wait(&id.parse().unwrap(), body(of)).await)
    }
    async fn start(&self, id: &str, of: Value) -> Heard {
        heard(self.client.start(&id.parse().unwrap(), body(of)).await)
    }
    async fn runs(&self, id: &str) -> Heard {
        heard(self.client.runs(&id.parse().unwrap(), deerflow::service::RunQuery::default()).await)
    }
    async fn run(&self, id: &str, run: &str) -> Heard {
        heard(self.client.run(&id.parse().unwrap(), &run_id(run)).await)
    }
    async fn cancel(&self, id: &str, run: &str) -> Heard {
        heard(self.client.cancel(&id.parse().unwrap(), &run_id(run), CancelAction::Interrupt).await)
    }

    async fn upload(&self, id: &str, name: &str, bytes: &[u8]) -> Heard {
        match self.client.upload_bytes(&id.parse().unwrap(), name, bytes.to_vec()).await {
            Ok(uploaded) => heard(Ok(uploaded)),
            Err(ClientError::Refused(refusal)) => heard(Err::<(), _>(refusal)),
            Err(other) => panic!("{other}"),
        }
    }
    async fn uploads(&self, id: &str) -> Heard {
        heard(self.client.uploads(&id.parse().unwrap()).await)
    }
    async fn delete_upload(&self, id: &str, name: &str) -> Heard {
        heard(self.client.delete_upload(&id.parse().unwrap(), name).await)
    }
    async fn artifact(&self, id: &str, path: &str) -> Heard {
        let found = self.client.artifact(&id.parse().unwrap(), path).await;
        heard(
            found.map(
                |(bytes, media_type)| json!({"bytes": String::from_utf8(bytes).unwrap(), "media_type": media_type}),
            ),
        )
    }

    async fn goal(&self, id: &str) -> Heard {
        heard(self.client.goal(&id.parse().unwrap()).await)
    }
    async fn set_goal(&self, id: &str, objective: &str, most: u32) -> Heard {
        heard(self.client.set_goal(&id.parse().unwrap(), objective, most).await)
    }
    async fn clear_goal(&self, id: &str) -> Heard {
        heard(self.client.clear_goal(&id.parse().unwrap()).await)
    }
    async fn models(&self) -> Heard {
        heard(Ok(self.client.models()))
    }
    async fn show_model(&self, name: &str) -> Heard {
        heard(self.client.model(name))
    }
}
