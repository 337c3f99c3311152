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
  domain?: { x?: [number, number]; y?: [number, number] };
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
  _fullLayout: { scene?: { _scene?: Scene }; scene2?: { _scene?: Scene } };
}

export interface FullTrace {
  type: string;
  uid: string;
  z: Matrix;
  scene: string;
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
