/**
 * Two habits of plotly's scenes that make a step of λ slow, changed.
 * @module scenes
 */

/**
 * Draws surfaces with the points they have. plotly puts three new ones between each two, on the straight line between
 * them: the same surface from sixteen times as many triangles.
 * @param {object} scene `_fullLayout.scene._scene`
 */
export function drawGivenPoints(scene) {
  let changed = false;
  for (const trace of Object.values(scene.traces)) {
    if (trace.refineData !== true) continue;
    trace.refineData = false;
    trace.dataScaleX = trace.dataScaleY = 1;
    trace.update(trace.data);
    changed = true;
  }
  if (changed) scene.glplot.redraw();
}

/**
 * Looks for what is under the pointer only after the pointer has moved over the scene. plotly draws each scene a second
 * time and reads that picture back after every change, which takes far longer than the drawing itself.
 * @param {object} scene
 */
export function pickWhenPointed(scene) {
  const { glplot } = scene;
  const { gl, canvas } = glplot;
  if (!gl || canvas.dataset.picking) return;
  canvas.dataset.picking = "lazy";
  let asked = false; // the next picture is followed by a look
  let fresh = false; // the last look was at the picture that is shown
  const read = gl.readPixels;
  gl.readPixels = (...rest) => {
    if (!asked) return;
    asked = false;
    fresh = true;
    read.apply(gl, rest);
  };
  const { onrender } = glplot;
  glplot.onrender = () => {
    fresh = false;
    for (const object of glplot.objects) lazily(object, () => asked);
    onrender?.();
  };
  canvas.parentElement.addEventListener(
    "mousemove",
    (event) => {
      if (fresh || event.buttons) return; // while it is turned there is nothing to read
      // What was read belongs to another picture: the answer comes with the next move.
      asked = true;
      for (const object of glplot.objects) object.dirty = true;
      event.stopPropagation();
    },
    true,
  );
}

function lazily(object, wanted) {
  if (object.drawsWhenPointed || !object.drawPick) return;
  object.drawsWhenPointed = true;
  const draw = object.drawPick;
  object.drawPick = function (...rest) {
    if (wanted()) draw.apply(this, rest);
  };
}
