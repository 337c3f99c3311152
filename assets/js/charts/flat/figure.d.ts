/** What a flat figure is made of: those of plotly's words that the figures of the app are written in. */

import type { Datum, Matrix } from "../figure.d.ts";

export interface Font {
  family?: string;
  size?: number;
  color?: string;
}

export interface LineStyle {
  color?: string;
  width?: number;
  dash?: string;
  shape?: string;
}

export interface Title {
  text?: string;
  standoff?: number;
  side?: string;
  font?: Font;
}

/** One value for all points, or a list with one for each. */
export type Each<T> = T | T[];

export interface Marker {
  symbol?: Each<string>;
  size?: Each<number>;
  color?: Each<string>;
  opacity?: number;
  line?: { color?: Each<string>; width?: Each<number>; dash?: string };
}

export interface ErrorBars {
  visible?: boolean;
  type?: string;
  array?: (number | null)[];
  arrayminus?: (number | null)[];
  symmetric?: boolean;
  thickness?: number;
  width?: number;
  color?: string;
}

export interface TickStyle {
  tickvals?: Datum[];
  ticktext?: string[];
  tick0?: number;
  dtick?: number;
  nticks?: number;
  tickformat?: string;
  tickfont?: Font;
}

export interface ColorBar extends TickStyle {
  len?: number;
  thickness?: number;
  x?: number;
  xpad?: number;
  ypad?: number;
  outlinewidth?: number;
  title?: Title;
}

export interface FlatTrace {
  type?: string;
  visible?: boolean;
  name?: string;
  mode?: string;
  ids?: string[];
  x?: Datum[];
  y?: Datum[];
  z?: Matrix;
  xaxis?: string;
  yaxis?: string;
  text?: string[] | string[][];
  textposition?: Each<string>;
  textfont?: Font;
  line?: LineStyle;
  marker?: Marker;
  fill?: string;
  fillcolor?: string;
  connectgaps?: boolean;
  cliponaxis?: boolean;
  error_x?: ErrorBars;
  error_y?: ErrorBars;
  orientation?: string;
  base?: Each<number>;
  width?: Each<number>;
  zmin?: number;
  zmax?: number;
  colorscale?: string | [number, string][];
  reversescale?: boolean;
  showscale?: boolean;
  colorbar?: ColorBar;
  xgap?: number;
  ygap?: number;
  hoverongaps?: boolean;
  hoverinfo?: string;
  hovertemplate?: string;
  customdata?: unknown[];
  meta?: unknown;
}

export interface AxisLayout extends TickStyle {
  type?: string;
  range?: [number, number];
  domain?: [number, number];
  anchor?: string;
  overlaying?: string;
  categoryarray?: Datum[];
  visible?: boolean;
  showgrid?: boolean;
  gridcolor?: string;
  showticklabels?: boolean;
  ticks?: string;
  ticklen?: number;
  tickcolor?: string;
  ticklabelstandoff?: number;
  title?: Title;
  unifiedhovertitle?: { text?: string };
}

export interface Shape {
  type?: string;
  layer?: string;
  visible?: boolean;
  xref?: string;
  yref?: string;
  x0?: Datum;
  x1?: Datum;
  y0?: Datum;
  y1?: Datum;
  path?: string;
  fillcolor?: string;
  opacity?: number;
  line?: LineStyle;
}

export interface Note {
  text?: string;
  hovertext?: string;
  visible?: boolean;
  opacity?: number;
  x?: Datum;
  y?: Datum;
  xref?: string;
  yref?: string;
  xanchor?: string;
  yanchor?: string;
  xshift?: number;
  yshift?: number;
  align?: string;
  font?: Font;
  bgcolor?: string;
  borderpad?: number;
  borderwidth?: number;
  showarrow?: boolean;
  ax?: number;
  ay?: number;
  arrowcolor?: string;
  arrowwidth?: number;
}

export interface FlatLayout {
  margin?: { l?: number; r?: number; t?: number; b?: number };
  font?: Font;
  shapes?: Shape[];
  annotations?: Note[];
  hovermode?: string | false;
  hoversubplots?: string;
  hoverlabel?: { bgcolor?: string; bordercolor?: string; font?: Font };
  template?: { layout?: Record<string, AxisLayout | undefined> };
  [axis: `${"x" | "y"}axis${string}`]: AxisLayout | undefined;
}

/** Pixels from the canvas's upper left corner. */
export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

/** Something to point at: a point or a bar with its place and its reach, or the cell of a heatmap. */
export interface Hit {
  curve: number;
  point: number | [row: number, column: number];
  left: number;
  top: number;
  box: Box;
}

/** A point as handlers are told it, as plotly does. */
export interface FlatPoint {
  x: Datum;
  y: Datum;
  z?: number | null;
  text?: string;
  curveNumber: number;
  pointNumber: number | [row: number, column: number];
  customdata?: unknown;
}
