// A chat of one thread: what `useStream` gives, as text that a test can read.
import { useStream } from "@langchain/langgraph-sdk/react";
import { useState } from "react";
import { createRoot } from "react-dom/client";

const query = new URLSearchParams(location.search);

function Chat() {
  const [threadId, setThreadId] = useState(query.get("thread") || null);
  const thread = useStream({
    apiUrl: query.get("api"),
    apiKey: null,
    assistantId: "lead_agent",
    messagesKey: "messages",
    threadId,
    onThreadId: setThreadId,
    reconnectOnMount: true,
    fetchStateHistory: query.get("history") === "off" ? false : { limit: 10 },
  });
  return (
    <main>
      <output id="thread">{threadId}</output>
      <output id="loading">{String(thread.isLoading)}</output>
      <output id="error">{thread.error ? String(thread.error) : ""}</output>
      <ol>
        {thread.messages
          .filter((message) => !message.additional_kwargs?.hide_from_ui)
          .map((message, at) => (
            <li key={message.id ?? at} data-type={message.type} data-id={message.id}>
              {typeof message.content === "string" ? message.content : message.content.map((block) => block.text ?? "").join("")}
            </li>
          ))}
      </ol>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const text = new FormData(event.target).get("text");
          thread.submit({ messages: [{ type: "human", content: text }] }, { onDisconnect: "continue", streamResumable: true });
        }}
      >
        <input name="text" />
        <button>Send</button>
      </form>
      <button id="stop" onClick={() => thread.stop()}>Stop</button>
    </main>
  );
}

createRoot(document.getElementById("root")).render(<Chat />);
