/** Nouns of the page of runs. */

import type { Trouble } from "../base/problem.js";
import type { ComparedNumber, Recipe, Run as RunRow, Summary } from "../base/types.d.ts";
import type { Visitor } from "../base/whoami.js";
import type { Figure } from "../charts/bind.js";

/** Of a run's summary, what its row shows; for tuning runs `Run.tuned` says it. */
export interface Measured extends Partial<Omit<Summary, "protocol">> {
  protocol?: { test?: TestText | null };
}

/** The text on which a perplexity was measured, with all that it depends on. */
export interface TestText {
  corpus?: string;
  part?: string | null;
  window?: number;
  begin?: string;
  predicted_tokens?: number;
}

/** A run as its row shows it. */
export interface Run extends Omit<RunRow, "recipe" | "summary"> {
  recipe: Recipe;
  summary: Measured | null;
}

/** A quantity over the runs of a group. */
export interface Spread {
  count: number;
  mean: number;
  error: number | null;
  least: number;
  most: number;
}

/** Runs that belong together: see sarqc/web/listing_api.py. */
export interface Group {
  key: string;
  run: Run;
  count: number;
  states: Record<string, number>;
  varies: string[];
  measures: Record<string, Spread>;
}

/** Which part of the list is shown. */
export interface Query {
  readonly filter: string;
  readonly sort: string; // a name of RUN_SORTS, with a minus before it for the other direction
  readonly group: "" | "seeds" | "batch";
  readonly page: number; // from 0
}

/** What the server answers: runs or groups, and how many there are. */
export interface Answer {
  runs: Run[] | number;
  groups?: Group[];
  total: number;
  revision: number;
}

/** A row of the table: a run, by itself or below its group, or a group. */
export type Row = { run: Run; group?: undefined; isInner: boolean } | { run?: undefined; group: Group };

/** Studies side by side: see sarqc/figures/compare.py. */
export interface Comparison {
  studies: { id: string; name: string }[];
  differences: { field: string; title: string; values: unknown[] }[];
  numbers: ComparedNumber[];
  layers: ComparedNumber[];
  layers_on: string;
  texts: { prompt: string; kl: (number | null)[]; divergence: (number | null)[] }[];
  figure: Figure;
}

/** What a person is about to do with the picked runs. */
export type Asking = null | "delete" | "tag";

/** What the page of runs shows. */
export interface RunsState {
  readonly query: Query;
  readonly runs: ReadonlyMap<string, Run>; // those of the page, in its order
  readonly groups: readonly Group[] | null; // instead of them
  readonly unfolded: ReadonlyMap<string, readonly Run[]>; // the runs of groups, by key
  readonly total: number | null; // rows of all pages; null before the first answer
  readonly all: number; // runs of all pages
  readonly isStale: boolean; // whether something changed that this page may have to show otherwise
  readonly isLoading: boolean;
  readonly heard: ReadonlyMap<string, string>; // of runs on other pages, what the stream said last
  readonly picked: ReadonlyMap<string, Run>; // in the order of picking
  readonly asking: Asking;
  readonly deleting: string | null; // the run whose deletion waits for a second click
  readonly editing: string | null; // the run whose name, note and tags are being written
  readonly said: string; // what came of the last deed
  readonly trouble: Trouble | null;
  /** Whether changes can't be heard at the moment. */
  readonly isLost: boolean;
  readonly who: Visitor | null; // looks at it; null where the server did not say
}

export type RunsAction =
  | { type: "visited"; who: Visitor | null }
  | { type: "asked"; query: Partial<Query> }
  | { type: "loading" }
  | { type: "listed"; answer: Answer }
  | { type: "unfolded"; key: string; runs: Run[] | null }
  | { type: "changed"; run: Run }
  | { type: "removed"; id: string }
  | { type: "picked"; runs: readonly Run[]; isPicked: boolean }
  | { type: "picked none" }
  | { type: "asking"; what: Asking }
  | { type: "deletion asked"; id: string | null }
  | { type: "editing"; id: string | null }
  | { type: "said"; words: string }
  | { type: "trouble"; trouble: Trouble | null }
  | { type: "stream"; isLost: boolean };

/** A study that no run of this host owns. */
export interface StudyEntry {
  id: string;
  title: string;
  model: string;
  origin: string;
  created: string;
  is_mine: boolean; // whether whoever looks may share and remove it
}

/** A study that can't be read, and why. */
export interface DamagedEntry {
  id: string;
  error: Trouble;
  is_mine: boolean;
}

export interface StudiesState {
  readonly studies: readonly StudyEntry[];
  readonly damaged: readonly DamagedEntry[];
  readonly filter: string; // of the list of runs
  readonly asking: string | null; // the study whose deletion waits for a second click
  readonly sharing: string | null; // the study whose links are shown
  readonly isSending: boolean;
  readonly trouble: Trouble | null;
}

export type StudiesAction =
  | { type: "listed"; studies: StudyEntry[]; damaged: DamagedEntry[] }
  | { type: "removed"; id: string }
  | { type: "filtered"; filter: string }
  | { type: "deletion asked"; id: string | null }
  | { type: "sharing"; id: string }
  | { type: "sending"; isSending: boolean }
  | { type: "trouble"; trouble: Trouble };
