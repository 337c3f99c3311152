/**
 * What is used of plotly, written by hand: its doors, what a figure is made of, and the records of its own that
 * plotly_internals.js reads and writes. The last are no promise of plotly's: tests/js/plotly_internals.test.js checks
 * them against the plotly that is installed.
 */

// What a figure is made of.

export type Datum = string | number | null;
/** Numbers in rows, in lists or in views of a buffer; null was not measured. */
export type Matrix = ArrayLike<number | null>[];

export interface Trace {
  type?: string;
  mode?: string;
  name?: string;
  x?: Datum[];
  y?: Datum[];
  z?: Matrix;
  text?: string[] | string[][];
  customdata?: unknown;
  meta?: unknown;
  hovertemplate?: string;
  yaxis?: string;
  line?: { simplify?: boolean; [more: string]: unknown };
  [more: string]: unknown;
}

export interface Annotation {
  xanchor?: string;
  align?: string;
  [more: string]: unknown;
}

export interface Camera {
  eye: { x: number; y: number; z: number };
  [more: string]: unknown;
}

export interface SceneLayout {
  camera?: Camera;
  domain?: { x?: [number, number] };
  aspectratio?: { x: number; y: number; z: number };
  [more: string]: unknown;
}

export interface Layout {
  width?: number;
  height?: number;
  autosize?: boolean;
  margin?: { l?: number; r?: number; t?: number; b?: number; pad?: number };
  annotations?: Annotation[];
  scene?: SceneLayout;
  scene2?: SceneLayout;
  [more: string]: unknown;
}

// Doors.

export interface PlotPoint {
  x: Datum;
  y: Datum;
  curveNumber: number;
  pointNumber: number | number[];
  customdata?: unknown;
}

/** An element in which plotly has drawn. */
export interface PlotElement extends HTMLElement {
  data: Trace[];
  layout: Layout;
  on(
    event: "plotly_click" | "plotly_hover" | "plotly_unhover",
    handler: (event: { points: PlotPoint[] }) => void,
  ): void;
}

export interface Library {
  version: string;
  react(canvas: HTMLElement, data: Trace[], layout: Layout, config: Record<string, unknown>): Promise<PlotElement>;
  relayout(canvas: HTMLElement, change: Record<string, unknown>): Promise<PlotElement>;
  toImage(
    figure: { data: Trace[]; layout: Layout },
    options: { format: "png" | "svg"; width: number; height: number; scale: number },
  ): Promise<string>;
}

declare global {
  interface Window {
    Plotly: Library;
  }
}

// Records of its own.

export interface Drawn extends PlotElement {
  _fullData: FullTrace[];
  _fullLayout: FullLayout;
  /** For each trace what was calculated of it: the points of a scatter trace, the cells of a heatmap. */
  calcdata: Calculated[][];
}

export interface FullLayout {
  /** The plot area in pixels: margins of left, right, top and bottom, width and height. */
  _size: { l: number; r: number; t: number; b: number; w: number; h: number };
  annotations: FullAnnotation[];
  shapes: FullShape[];
  scene?: { _scene?: Scene };
  scene2?: { _scene?: Scene };
  [axis: `${"x" | "y"}axis${string}`]: Axis | undefined;
}

/** d: as in the data; c: a number, of a category its position; r: as in a range; l: linear; p: pixels in the plot area. */
export interface Axis {
  type: string;
  _offset: number;
  _length: number;
  d2c(value: Datum): number;
  c2p(value: number): number;
  r2p(value: Datum): number;
  l2p(value: number): number;
  p2l(pixel: number): number;
}

export interface FullTrace {
  type: string;
  index: number;
  uid: string;
  visible: boolean | "legendonly";
  mode: string;
  hoverinfo: string;
  x: Datum[];
  y: Datum[];
  z: Matrix;
  text?: string[] | string[][];
  xaxis: string;
  yaxis: string;
  scene: string;
  error_y?: ErrorBars;
  fill: string;
  /** Of a trace with an area to the one before: that one; and of that one this trace. */
  _prevtrace?: FullTrace;
  _nexttrace?: FullTrace;
  marker: { color: unknown; symbol: string | string[]; line: { color: unknown } };
  colorscale: [number, string][];
  zmin: number;
  zmax: number;
  xgap?: number;
  ygap?: number;
  zsmooth?: string | false;
  texttemplate?: string;
  transpose?: boolean;
  connectgaps?: boolean;
  reversescale?: boolean;
  /** Whether all cells of a heatmap are of one size. */
  _islinear?: boolean;
  _length: number;
}

export interface ErrorBars {
  visible: boolean;
  type: string;
  symmetric?: boolean;
  width: number;
  array?: number[];
  arrayminus?: number[];
}

/** A point of a scatter trace, or in the first place of a heatmap's its cells with their edges. */
export interface Calculated {
  i?: number;
  x: unknown;
  y: unknown;
  /** Text of a point. */
  tx?: string;
  /** Ends of an error bar. */
  ys?: number;
  yh?: number;
}

export interface Cells {
  x: number[];
  y: number[];
  z: (number | undefined)[][];
  text?: string[] | string[][];
}

export interface FullAnnotation {
  visible: boolean;
  x: Datum;
  y: Datum;
  xref: string;
  yref: string;
}

export interface FullShape {
  type: string;
  x0: Datum;
  x1: Datum;
  y0: Datum;
  y1: Datum;
  xref: string;
  yref: string;
}

/** A drawing in three dimensions, which is empty where the browser has no WebGL. */
export interface Scene {
  glplot?: SceneDrawing;
  container: HTMLElement;
  /** What a unit of each axis is in the drawing. */
  dataScale: [x: number, y: number, z: number];
  /** By the uid of the trace. */
  traces?: Record<string, SurfaceDrawing>;
}

export interface SurfaceDrawing {
  data: FullTrace;
  refineData: boolean;
  dataScaleX: number;
  dataScaleY: number;
  update(trace: FullTrace): void;
}

export interface SceneDrawing {
  gl: WebGLRenderingContext | null;
  canvas: HTMLCanvasElement;
  contextLost: boolean;
  /** From the drawing's units to the picture, -1 to 1 both ways: matrices by columns. */
  cameraParams: Record<"model" | "view" | "projection", ArrayLike<number>>;
  objects: SceneObject[];
  onrender: (() => void) | null;
  redraw(): void;
}

export interface SceneObject {
  dirty?: boolean;
  drawPick?: (...rest: unknown[]) => void;
  /** Ours: `drawPick` has been made lazy. */
  drawsWhenPointed?: boolean;
}
