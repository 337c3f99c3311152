export * from "@huggingface/tokenizers";
