/** Nouns of the tour. */

import type { TemplateResult } from "../../vendor/lit-html/lit-html.js";
import type { EvidenceDocument, KeptCodes } from "../base/types.d.ts";
import type { Drawn, Size } from "../charts/svg.js";
import type { Question } from "../lecture/state.js";
import type { Stage } from "./stage.js";

/** What is set in a step, as its address says it; what has not been set is undefined. `shown` is 1 with the answer. */
export type Settings = { [name: string]: number | string | undefined };

/** Every step has its answer, and most a guess. */
export type Asking = { shown?: number; guess?: number };

/** A value of the address; see base/address.js. `values` are those that a figure has, growing. */
export interface Entry {
  title: string;
  read(text: string): number | string | undefined;
  wants: string;
  standard?: number | string;
  values?: number[];
}
export type AddressTable = { [name: string]: Entry };

/** A part of an answer: words, or words in the colour of a quantity. */
export type Piece = string | { role: "recon" | "held_out" | "drift" | "quality"; text: string };

/** The numbers behind a figure. `kind` says how format.js writes a column. */
export type Cell = number | string | boolean | number[] | null | undefined;
export interface NumberTable {
  columns: { key: string; title: string; kind: string }[];
  rows: { [key: string]: Cell }[];
}

/** What the page gives to every step: a study of a tiny and one of a pretrained model, and what the paper published. */
export interface Given {
  study: { id: string; bits: number; identity: string; saliency: string; layer: string };
  pretrained: { id: string; bits: number; identity: string; saliency: string };
  published: Published;
}

export interface Published {
  figure: {
    model: string;
    bits: number;
    gamma: number;
    lams: number[];
    float: number;
    identity: { average: number[] };
    saliency: { average: number[] };
  };
  perplexity: { source: string; models: string[]; rows: { method: string; values: (number | null)[] }[] };
}

/**
 * A module of a step. S is what can be set in it, D what it needs beside that (a made-up layer, or the numbers of a
 * study), F what follows from both: all that is said and drawn is said and drawn of F, which is null while D is fetched.
 */
export interface StepModule<S extends Settings, D, F> {
  state: AddressTable;
  start: S;
  prepare?(given: Given): D | Promise<D>;
  /** Values that the address may give, once they can be said. */
  values?(given: Given, data: D | null): { [name: string]: number[] } | null;
  facts(settings: S, data: D | null, given: Given): F | null;
  answer(facts: F): Piece[];
  aria(facts: F): string;
  table(facts: F): NumberTable;
  create(stage: Stage<S, D, F>): StepView<F>;
  /** What the phones of a lecture guess at; of a step without it they guess nothing. */
  asked?(facts: F): Question;
}

export type AnyStep = StepModule<Settings, unknown, unknown>;

/** What of a step lives in the page. Facts are null as long as the step's numbers are fetched. */
export interface StepView<F> {
  /** The figure; handles are brought to their places. */
  draw(size: Size, facts: F): Drawn[];
  /** Controls of the question, and those that come with the answer. */
  ask?(facts: F | null): TemplateResult;
  controls?(facts: F | null): TemplateResult;
  /** What stands below the figure. */
  extra?(facts: F): TemplateResult | null;
  /** What is drawn otherwise. */
  paint?(facts: F | null): void;
}

/** Of the Lab's view of a line, what the tour reads: see sarqc/figures/view.py. */
export interface View {
  study: {
    id: string;
    kept: KeptCodes | null;
    model: { name: string; perplexity: number; accuracy: number; accuracy_standard_error: number | null };
  };
  line: { name: string; bits: number; has_lam: boolean; draws: number[] };
  layers: { name: string; index: number; label: string }[];
  layer: number | null;
  lams: number[];
  lam_texts: string[];
  gammas: (number | null)[];
  gamma_texts: string[];
  told: {
    perplexity: { band: boolean[][]; best: (BestPoint | null)[] };
    accuracy?: { best: (BestPoint | null)[] };
  };
  table: { columns: NumberTable["columns"]; rows: ViewRow[] };
  ladder: {
    steps: { name: string; title: string }[];
    alone: EvidenceDocument[];
    last: EvidenceDocument[];
    words: string;
  } | null;
  arrays: { surface?: ArrayInfo };
}
/** The best λ and its comparison with the baseline, which allows for the choice. */
export interface BestPoint {
  at: number;
  words: string;
}
export type ViewRow = { at: [number, number] } & { [key: string]: Cell };
export interface ArrayInfo {
  file: string;
  version: string;
  offset: number;
  length: number;
  dtype: string;
  scale: number;
  shape: number[];
}
