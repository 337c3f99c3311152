/** What figures are made of: plotly's words, which notebooks draw with plotly itself. */

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
  text?: string;
  xanchor?: string;
  align?: string;
  [more: string]: unknown;
}

/** The three axes of a surface. */
export interface SceneLayout {
  xaxis?: { title?: { text?: string } };
  yaxis?: { title?: { text?: string } };
  zaxis?: { range?: [number, number] };
  [more: string]: unknown;
}

export interface Layout {
  width?: number;
  height?: number;
  font?: { family?: string; size?: number; color?: string };
  margin?: { l?: number; r?: number; t?: number; b?: number; pad?: number };
  annotations?: Annotation[];
  scene?: SceneLayout;
  [more: string]: unknown;
}

/** A figure at one point, with colours. */
export interface MadeFigure {
  data: Trace[];
  layout: Layout;
  aria: string;
}

/** A point as handlers are told it. */
export interface PlotPoint {
  x?: Datum;
  y?: Datum;
  curveNumber: number;
  pointNumber: number | number[];
  customdata?: unknown;
}

/** An element in which a figure is drawn. */
export interface PlotElement extends HTMLElement {
  data: Trace[];
  layout: Layout;
}
