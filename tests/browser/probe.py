"""Scripts that measure a page from inside, shared by the browser tests and ``make bench``."""

from collections.abc import Sequence

# Moves the slider of λ to and fro. A step begins with a frame, so that waiting for the screen is not part of it.
# For lines it ends when that frame is laid out and painted, for surfaces after the frame in which they are drawn.
STEPS = """async ({ steps, pause }) => {
  const input = document.querySelector('[data-testid=lambda]');
  const of = (name) => document.querySelector(`[data-plot="lab-${name}"]`);
  const frame = () => new Promise(requestAnimationFrame);
  const painted = () => new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => { port1.close(); resolve(performance.now()); };
    port2.postMessage(0);
  });
  const found = { handler: [], line: [], surface: [], mixed: 0 };
  let direction = 1;
  for (let step = 0; step < steps; step += 1) {
    const now = Number(input.value);
    if (now + direction > Number(input.max) || now + direction < 0) direction = -direction;
    if (pause) await new Promise((resolve) => setTimeout(resolve, pause));
    await frame();
    const start = performance.now();
    if (step % 2) {
      const key = direction > 0 ? 'ArrowRight' : 'ArrowLeft';
      document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
    } else {
      input.value = String(now + direction);
      input.dispatchEvent(new Event('input', { bubbles: true }));
    }
    found.handler.push(performance.now() - start);
    const at = (name) => of(name).dataset.drawn.split(',')[1] === input.value;
    found.line.push((await painted()) - start);
    if (!at('hero')) found.mixed += 1;
    for (let wait = 0; !at('surfaces') && wait < 100; wait += 1) await frame();
    found.surface.push((await painted()) - start);
  }
  return found;
}"""


def median_and_high(values: Sequence[float]) -> tuple[float, float]:
    """The median and the value that 95 % do not exceed."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
