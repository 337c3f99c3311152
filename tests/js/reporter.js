/** A reporter for node's test runner: one line of JSON for each test that ended. */
export default async function* lines(source) {
  for await (const { type, data } of source) {
    if ((type === "test:pass" || type === "test:fail") && data.nesting === 0) {
      const error = data.details?.error;
      yield `${JSON.stringify({ name: data.name, passed: type === "test:pass", error: error && String(error.cause?.stack ?? error.stack) })}\n`;
    }
  }
}
