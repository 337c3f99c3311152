/**
 * A stream of JSON documents with headers of one's own, which EventSource can't send, and with the words of a refusal, which
 * it does not give.
 * @module lecture/stream
 */

const AGAIN_MS = 2000; // until a stream that broke is asked for again
const FINAL = [403, 404, 422]; // answers that another try would not change

/**
 * Follows a stream until it is over; one that breaks is asked for again.
 * @param {string} address
 * @param {Record<string, string>} headers
 * @param {object} handlers
 * @param {(document: any) => boolean} handlers.hear whether more is to come; the caller says which shape a document has
 * @param {(isLost: boolean) => void} handlers.lost
 * @param {(status: number) => void} handlers.refused with a status that is final, or that may pass
 * @returns {() => void} ends the following
 */
export function follow(address, headers, { hear, lost, refused }) {
  const stopping = new AbortController();
  /** True when there is nothing more to follow. */
  const read = async () => {
    const response = await fetch(address, { headers, signal: stopping.signal });
    if (!response.ok || !response.body) {
      refused(response.status);
      return FINAL.includes(response.status);
    }
    lost(false);
    for await (const document of documents(response.body)) if (!hear(document)) return true;
    return false;
  };
  const loop = async () => {
    while (!stopping.signal.aborted) {
      try {
        if (await read()) return;
      } catch {
        if (!stopping.signal.aborted) lost(true);
      }
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
  };
  loop();
  return () => stopping.abort();
}

/**
 * The JSON documents of a stream of events.
 * @param {ReadableStream<Uint8Array>} body
 */
export async function* documents(body) {
  const [reader, decoder] = [body.getReader(), new TextDecoder()];
  let rest = "";
  while (true) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += decoder.decode(value, { stream: true });
    const lines = rest.split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line.startsWith("data: ")) yield JSON.parse(line.slice(6));
  }
}
