//! Built-in middlewares, prompts and factories.
